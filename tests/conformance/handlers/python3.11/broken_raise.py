print("before it broke")
raise RuntimeError("broken while imported")
