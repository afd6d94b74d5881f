"""`make bench`: measures the real server and the others, and prints one table."""

import os
import platform
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import click

from tests.bench.effort import Effort
from tests.bench.places import Missing
from tests.bench.table import Row, text_of

Group = Callable[[Effort], Iterator[Row]]

GROUPS = {
    "nginx": "rows_proxy.against_nginx",
    "instance": "rows_proxy.against_the_instance",
    "frameworks": "rows_runtime.against_frameworks",
    "starts": "rows_runtime.start_times",
    "go": "rows_runtime.go",
    "dev": "rows_dev.reloads",
    "waits": "rows_product.waits",
    "zipapp": "rows_product.zipapp",
    "async": "rows_async.asynchronous",
    "cron": "rows_cron.cron",
    "messages": "rows_events.messages",
    "neighbours": "rows_neighbours.neighbours",
    "console": "rows_console.console",
    "cluster": "rows_cluster.cluster",
    "beside": "rows_proxy.beside_slow_work",
}
"""name → module of this package and its function, imported when it runs: only some groups need a browser or a broker."""


def group_of(name: str) -> Group:
    module, _, function = GROUPS[name].partition(".")
    found: Group = getattr(import_module(f"tests.bench.{module}"), function)
    return found


def machine() -> str:
    memory_kb = int(_first("/proc/meminfo", "MemTotal").removesuffix("kB"))
    model = _first("/proc/cpuinfo", "model name") or "unknown processor"
    node = subprocess.run(["node", "--version"], capture_output=True, text=True).stdout.strip() if shutil.which("node") else "no Node.js"
    return f"{os.cpu_count()} cores ({model}), {memory_kb / 2**20:.0f} GiB, Python {platform.python_version()}, {node}"


def _first(path: str, name: str) -> str:
    """The value of the first line `name : value`."""
    lines = Path(path).read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith(name)), "")


def ensure_tools() -> None:
    """wrk generates the load, nginx is the reference. Installs them if root on Debian."""
    absent = [package for package, command in (("wrk", "wrk"), ("nginx-light", "nginx")) if shutil.which(command) is None]
    if absent and os.getuid() == 0 and shutil.which("apt-get"):
        subprocess.run(["apt-get", "update", "-qq"], check=True)
        subprocess.run(["apt-get", "install", "-y", "-qq", "--no-install-recommends", *absent], check=True, stdout=subprocess.DEVNULL)
    if shutil.which("wrk") is None:
        sys.exit("the bench needs wrk; on Debian and Ubuntu: apt-get install wrk nginx-light")


@click.command(help="Groups: " + ", ".join(GROUPS) + ". Without any, all of them.")
@click.argument("groups", nargs=-1, type=click.Choice(list(GROUPS)))
@click.option("--seconds", default=3, help="Length of one measurement.")
@click.option("--pairs", default=5, help="Number of alternating pairs; the median counts.")
@click.option("--moment", is_flag=True, help="Measure just enough to show that a group works; its figures mean nothing.")
def main(groups: tuple[str, ...], seconds: int, pairs: int, moment: bool) -> None:
    ensure_tools()
    effort = Effort(seconds=1, pairs=1, moment=True) if moment else Effort(seconds=seconds, pairs=pairs)
    rows: list[Row] = []
    for name in groups or GROUPS:
        click.echo(f"measuring: {name} …", err=True)
        try:
            for row in group_of(name)(effort):
                click.echo(f"  {row.name}: {row.value}  ({row.detail})", err=True)
                rows.append(row)
        except Missing as error:
            rows.append(Row(name=name, value="not measured", detail=str(error)))
    click.echo(f"\nmachine: {machine()}\n\n{text_of(rows)}")


def _leave(number: int, _frame: object) -> None:
    """Ends servers and removes folders on the way out."""
    signal.signal(number, signal.SIG_DFL)
    sys.exit(128 + number)


if __name__ == "__main__":
    for ending in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(ending, _leave)
    main()
