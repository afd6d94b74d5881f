"""Containers: real processes on this machine, or scripted ones."""

import asyncio
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import IO, Any, Protocol

from tests.kube.logs import Log
from tests.kube.scripts import Script

Object = dict[str, Any]


class Groups:
    """Reports process groups to the reaper, so that they end with the stand-in."""

    def __init__(self, reaper: IO[bytes]) -> None:
        self._reaper = reaper

    def add(self, group: int) -> None:
        self._send(f"+{group}\n")

    def remove(self, group: int) -> None:
        self._send(f"-{group}\n")

    def _send(self, text: str) -> None:
        self._reaper.write(text.encode())
        self._reaper.flush()


class Container(Protocol):
    """One run of one container. `wait` returns its exit code as a shell does (128 + signal)."""

    spec: Object
    log: Log
    reason: str

    async def wait(self) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    async def execute(self, command: list[str]) -> tuple[int, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """What a process needs. `command` and `environ` have paths of this machine; `translate` converts a container's text."""

    command: tuple[str, ...]
    environ: dict[str, str]
    folder: str
    memory_mb: int
    translate: Callable[[str], str] = field(default=lambda text: text)


class ProcessContainer:
    def __init__(self, spec: Object, start: Start, groups: Groups) -> None:
        self.spec, self.log, self.reason = spec, Log(), ""
        self._start, self._groups = start, groups
        self._process: asyncio.subprocess.Process | None = None
        self._output: asyncio.Task[None] | None = None

    async def launch(self) -> int:
        """Returns the process group. Raises OSError if the command cannot be executed."""
        start = self._start
        # With asyncio's own pipe, `wait` would wait for every child that holds it.
        ours, theirs = os.pipe()
        try:
            self._process = await asyncio.create_subprocess_exec(
                *start.command, cwd=start.folder, env=start.environ, stdin=asyncio.subprocess.DEVNULL,
                stdout=theirs, stderr=theirs, process_group=0,
            )  # fmt: skip
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._groups.add(self._process.pid)
        self._output = asyncio.create_task(self._read(ours))
        return self._process.pid

    async def _read(self, descriptor: int) -> None:
        reader = asyncio.StreamReader()
        with os.fdopen(descriptor, "rb") as pipe:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
            try:
                while data := await reader.read(65536):
                    self.log.write(data)
            finally:
                transport.close()

    async def wait(self) -> int:
        assert self._process is not None and self._output is not None
        code = await self._process.wait()
        # Everything in a container ends with its first process.
        self._signal(signal.SIGKILL)
        try:
            await asyncio.wait_for(asyncio.shield(self._output), 5)
        except TimeoutError:
            self._output.cancel()
        self._groups.remove(self._process.pid)
        self.log.end()
        return 128 - code if code < 0 else code

    def terminate(self) -> None:
        """SIGTERM to the first process only, as a container runtime sends it."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            try:
                os.killpg(self._process.pid, number)
            except ProcessLookupError:
                pass

    async def execute(self, command: list[str]) -> tuple[int, str]:
        """(exit code, output) of a command in the container."""
        start = self._start
        process = await asyncio.create_subprocess_exec(
            *(start.translate(part) for part in command), cwd=start.folder, env=start.environ, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, process_group=0,
        )  # fmt: skip
        self._groups.add(process.pid)
        try:
            output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
            self._groups.remove(process.pid)
        return process.returncode or 0, output.decode(errors="replace")[:500]


class ScriptedContainer:
    def __init__(self, spec: Object, script: Script) -> None:
        self.spec, self.script, self.log, self.reason = spec, script, Log(), ""
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if script.log:
            self.log.write(script.log.encode() + b"\n")
        if script.act in ("complete", "crash", "oom"):
            asyncio.get_running_loop().call_later(script.after_sec, self._end, script.code, "OOMKilled" if script.act == "oom" else "")

    def _end(self, code: int, reason: str = "") -> None:
        if not self._ended.done():
            self.reason = reason
            self.log.end()
            self._ended.set_result(code)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def terminate(self) -> None:
        self._end(143)

    def kill(self) -> None:
        self._end(137)

    async def execute(self, command: list[str]) -> tuple[int, str]:
        return 0, ""
