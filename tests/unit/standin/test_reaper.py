"""The process that cleans up after the stand-in."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WRITER = """
import sys
try:
    for number in range(4000):
        open(f"{sys.argv[1]}/new{number}", "x").close()
except FileNotFoundError:
    pass
"""
"""Creates files for a while, as long as the folder exists."""


def test_a_folder_into_which_a_process_still_writes_is_removed(tmp_path: Path):
    folder = tmp_path / "stand-in"
    (folder / "pods").mkdir(parents=True)
    for number in range(2000):
        (folder / "pods" / str(number)).touch()
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder / "pods")]) as writer:
        try:
            reaper = [sys.executable, "-S", "-E", str(ROOT / "tests/kube/reaper.py"), str(folder)]
            subprocess.run(reaper, stdin=subprocess.DEVNULL, check=True, timeout=60)
            assert not folder.exists()
            assert writer.wait(60) == 0
        finally:
            writer.kill()
