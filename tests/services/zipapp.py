"""`dist/sless.pyz`, built once for all test processes."""

import fcntl
import subprocess
import sys
from pathlib import Path

from tests.services.product import ROOT


def built_zipapp() -> Path:
    """Runs `make pyz`, which takes half a minute the first time and nothing as long as no source has changed."""
    lock = ROOT / "build" / "pyz-lock"
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        done = subprocess.run(["make", "--no-print-directory", "pyz"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return ROOT / "dist" / "sless.pyz"


def bare_python() -> str:
    """The base interpreter of the tests' virtual environment, without its packages."""
    return str(Path(sys.base_prefix) / "bin" / "python3.11")
