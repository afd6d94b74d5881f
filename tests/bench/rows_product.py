"""Times that users and operators wait for (upload, first call, start), and memory of the idle server."""

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from sless.client import Client
from tests.bench.client import connect, small_zip
from tests.bench.effort import Effort
from tests.bench.places import answers, sless_server, temporary_folder, wait_until
from tests.bench.table import Row, at_most, ratio
from tests.services.zipapp import built_zipapp

TIMES = 7


def memory_mb(folder: Path) -> float:
    """PSS of the server's processes: those with the data folder in their environment, and their children, as long as there are no
    functions. The process that writes history does not get the server's settings."""
    mark = f"SLESS_DATA_DIR={folder / 'data'}".encode()
    parents: dict[str, str] = {}
    marked: set[str] = set()
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parents[path.name] = (path / "stat").read_text().rpartition(")")[2].split()[1]
            if mark in (path / "environ").read_bytes():
                marked.add(path.name)
        except OSError:
            continue
    return sum(map(pss_kb, marked | {pid for pid, parent in parents.items() if parent in marked})) / 1024


def pss_kb(pid: str) -> int:
    try:
        lines = (Path("/proc") / pid / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def waits(effort: Effort) -> Iterator[Row]:
    times = effort.times(TIMES)
    with temporary_folder() as folder, sless_server(folder) as url:
        time.sleep(0 if effort.moment else 3)
        yield at_most("memory of the idle server: master, worker, history", memory_mb(folder), 150, unit="MB")
        client = connect(url, folder)
        uploads = [upload_to_first_200(client, number) for number in range(times)]
        detail = f"{min(uploads):.2f} to {max(uploads):.2f} s over {times} functions"
        yield at_most("upload to first 200, no dependencies", statistics.median(uploads), 1, unit="s", detail=detail)
        yield first_call(client, times)


def upload_to_first_200(client: Client, number: int) -> float:
    name = f"f{number}"
    client.functions.create({"name": name, "runtime": "python3.11"})
    client.triggers.create({"name": name, "type": "http", "function_ref": name})
    url = client.functions.get(name)["url"]
    content = small_zip({"handler.py": f"def handle(event):\n    return {number}\n"})
    began = time.monotonic()
    client.functions.upload(name, content)
    wait_until(lambda: answers(url), f"{name} answers")
    return time.monotonic() - began


def first_call(client: Client, times: int) -> Row:
    """A function without a trigger (one process per call), against the start of the bare interpreter in the same minute."""
    client.functions.create({"name": "oneoff", "runtime": "python3.11"})
    client.functions.upload("oneoff", small_zip({"handler.py": "def handle(event):\n    return 1\n"}))
    wait_until(lambda: client.functions.get("oneoff")["phase"] == "Ready", "the function is Ready")
    calls, bare = [], []
    for _ in range(times):
        began = time.monotonic()
        subprocess.run([sys.executable, "-E", "-s", "-S", "-c", "0"], check=True)
        bare.append(time.monotonic() - began)
        began = time.monotonic()
        if client.functions.invoke("oneoff").status != 200:
            raise RuntimeError("the one-off call failed")
        calls.append(time.monotonic() - began)
    call_ms, bare_ms = statistics.median(calls) * 1000, statistics.median(bare) * 1000
    detail = f"first {calls[0] * 1000:.0f} ms, median {call_ms:.0f} ms, bare interpreter {bare_ms:.0f} ms"
    return ratio("call of a one-off function / start of the bare interpreter", call_ms / bare_ms, detail=detail)


def zipapp(effort: Effort) -> Iterator[Row]:
    """Size, and time from command to first /readyz response: already unpacked, and on the first start."""
    path = built_zipapp()
    yield at_most("size of the zipapp", path.stat().st_size / 1e6, 30, unit="MB")
    command = [sys.executable, str(path), "serve"]
    with temporary_folder() as home:
        times = []
        for _ in range(effort.times(6)):
            began = time.monotonic()
            with temporary_folder() as folder, sless_server(folder, command=command, HOME=str(home), SHIV_ROOT=str(home)) as url:
                wait_until(lambda url=url: answers(url + "/readyz"), "ready")
                times.append(time.monotonic() - began)
    detail = f"first start, which unpacks: {times[0]:.2f} s"
    yield at_most("start of the unpacked zipapp to ready", statistics.median(times[1:]), 1, unit="s", detail=detail)
