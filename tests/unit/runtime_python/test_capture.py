"""Output of child processes belongs to the call during which it was written."""

import json
import subprocess
import sys
from pathlib import Path

RUNTIME = Path(__file__).resolve().parents[3] / "runtimes" / "python3.11"
SCRIPT = """
import os, sys, threading, time
sys.path.insert(0, sys.argv[1])
from sless_runtime import capture
from sless_runtime.calls import Call

has_read, read = threading.Event(), os.read

def slow_read(descriptor, size):
    data = read(descriptor, size)
    has_read.set()
    time.sleep(0.3)  # as if another thread ran now
    return data

class SlowRead:
    def __getattr__(self, name):
        return slow_read if name == "read" else getattr(os, name)

running = {Call("inv-1", None, "http", None): None}
(call,) = running
output = capture.Capture(running)
capture.os = SlowRead()
output.install()
os.write(1, b"from a child\\n")
assert has_read.wait(10)
output.finish(call, output.poller())
running.clear()
time.sleep(0.5)
"""


def test_a_line_that_another_thread_has_just_read_belongs_to_the_call() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", SCRIPT, str(RUNTIME)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (line,) = [json.loads(text[text.index("{") :]) for text in done.stdout.splitlines()]
    assert (line["id"], line["text"]) == ("inv-1", "from a child")
