def fn(event):
    return {"double": event["n"] * 2}
