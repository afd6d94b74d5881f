"""The output of `sless dev`: log lines, calls and reloads as they happen, on stdout."""

from datetime import datetime

import click

from sless.domain.model import Invocation, LogLine

_ID_CHARS = 6
_NO_ID = "-" * _ID_CHARS


class DevScreen:
    """`10:42:05 1f03ab out  text`: time, end of the invocation ID, source of the line. Colours only on a terminal."""

    def note(self, text: str) -> None:
        self._show(_now(), _NO_ID, "dev", text, "cyan")

    def problem(self, text: str) -> None:
        for line in text.splitlines():
            self._show(_now(), _NO_ID, "dev", line, "red")

    def build_line(self, text: str) -> None:
        self._show(_now(), _NO_ID, "dev", f"| {text}", "bright_black")

    def log_line(self, line: LogLine) -> None:
        self._show(line.at, short_of(line.invocation_id), "err" if line.stream == "stderr" else "out", line.text, _COLOURS.get(line.stream))

    def call(self, invocation: Invocation) -> None:
        status = invocation.http_status or invocation.status
        failed = invocation.http_status is None or invocation.http_status >= 500
        text = f"{invocation.method} {invocation.path} {status} {invocation.duration_ms or 0:.1f} ms"
        self._show(_now(), short_of(invocation.id), "call", text, "red" if failed else "green")
        if failed and invocation.error:
            self._show(_now(), short_of(invocation.id), "call", invocation.error.splitlines()[0], "red")

    def _show(self, at: datetime, id_text: str, label: str, text: str, colour: str | None) -> None:
        click.echo(f"{at.astimezone():%H:%M:%S} {id_text} {click.style(f'{label:<4}', fg=colour)} {text}")


_COLOURS = {"stderr": "yellow"}


def short_of(invocation_id: str) -> str:
    return invocation_id[-_ID_CHARS:] if invocation_id else _NO_ID


def _now() -> datetime:
    return datetime.now().astimezone()
