"""`sless dev`: from a save to an instance that answers, as its terminal reports it."""

import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from tests.bench.effort import Effort
from tests.bench.places import ROOT, TOOLS, Missing, clean_environ, process, temporary_folder
from tests.bench.table import Row, at_most

SAVES = 9
PAUSE_SEC = 1.0
"""Between two saves: long enough for the work after Go's first build to end."""
_RUNTIMES = {"python3.11": ("handler.py", "#"), "nodejs20": ("handler.mjs", "//"), "go1.23": ("handler.go", "//")}


def reloads(effort: Effort) -> Iterator[Row]:
    """Saves different responses in the folder that `sless init` creates. Go's standard library is compiled at the first start."""
    saves = effort.times(SAVES)
    for runtime in _RUNTIMES:
        if runtime == "nodejs20" and shutil.which("node") is None:
            raise Missing("Node.js is not installed")
        with temporary_folder() as folder:
            took_ms = _reloads_ms(runtime, folder, saves)
        detail = f"{min(took_ms)} to {max(took_ms)} ms over {saves} saves"
        yield at_most(f"sless dev, {runtime}: save to an instance that answers", statistics.median(took_ms), 300, unit="ms", detail=detail)


def _reloads_ms(runtime: str, folder: Path, saves: int) -> list[int]:
    command = [sys.executable, str(ROOT / "sless.py")]
    environment = clean_environ(XDG_CACHE_HOME=str(TOOLS / "cache"))
    subprocess.run([*command, "init", "hello", "--runtime", runtime], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    name, comment = _RUNTIMES[runtime]
    handler = folder / "hello" / name
    source, took_ms = handler.read_text(), []
    with process([*command, "dev", str(folder / "hello"), "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        with child.stdout as lines:
            _shown_ms(lines, "ready")
            for number in range(saves):
                time.sleep(PAUSE_SEC)
                handler.write_text(source.replace("Hello", f"Hello {time.time_ns()}") + f"{comment} {number}\n")
                took_ms.append(_shown_ms(lines, "reloaded"))
            child.terminate()
            lines.read()
    return took_ms


def _shown_ms(lines: IO[str], word: str) -> int:
    for line in lines:
        if found := re.search(rf"dev  {word} in (\d+) ms", line):
            return int(found[1])
    raise RuntimeError(f"sless dev ended before it was {word}")
