"""sless's own code in a child process: what takes long there holds no one else's interpreter lock, what takes all memory ends alone."""

import subprocess
import sys
from pathlib import Path

_PARENT_OF_PACKAGE = Path(__file__).resolve().parents[1]


def run_child(module: str, given: bytes, timeout_sec: float) -> "subprocess.CompletedProcess[bytes]":
    """`main()` of a module that needs nothing but the standard library and sless; it gets `given` on its standard input. Blocks.
    Raises subprocess.TimeoutExpired."""
    code = f"import sys; sys.path.insert(0, {str(_PARENT_OF_PACKAGE)!r}); from {module} import main; main()"
    return subprocess.run([sys.executable, "-E", "-S", "-c", code], input=given, capture_output=True, timeout=timeout_sec, check=False)


def was_too_much(done: "subprocess.CompletedProcess[bytes]") -> bool:
    """Killed by a signal or out of memory: what it was given did that. Any other exit code is a mistake of ours."""
    return done.returncode < 0 or b"MemoryError" in done.stderr
