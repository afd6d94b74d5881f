"""`sless …` in this process: output and exit code, without half a second for a new interpreter each time."""

import contextlib
import io
import os
import subprocess
from collections.abc import Mapping
from unittest import mock

from sless.cli import main


def run_command(arguments: tuple[str, ...], environ: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """`environ` replaces the environment. stdin is empty. Output is UTF-8 and not a terminal."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    empty = io.TextIOWrapper(io.BytesIO())
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.dict(os.environ, environ, clear=True))
        stack.enter_context(mock.patch("sys.stdin", empty))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(errors))
        code = main(list(arguments))
    shown = [stream.buffer.getvalue().decode() for stream in (out, errors)]  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(["sless", *arguments], code, *shown)
