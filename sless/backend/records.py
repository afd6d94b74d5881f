"""Folder of a run, `data_dir/runs/<id>/`, with its input and output, so that its outcome survives this process.

`spec.json` (without environment, so without secrets), `event.json`, `out/result.json` (written by the runtime), `log` (raw stdout lines),
`end.json` (how it ended, written by the server).
"""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sless import clock
from sless.backend.outcome import NoOutcome, ResultTooLarge, RunLimits, read_outcome
from sless.domain.model import CallStatus, Kind
from sless.domain.ports import ObservedRun, RunSpec
from sless.host.lines import LineReader, Sink
from sless.ids import new_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRecord:
    """The folder of one run."""

    path: Path

    @property
    def out(self) -> Path:
        """The only folder of the record to which the run itself may write."""
        return self.path / "out"

    @property
    def result(self) -> Path:
        return self.out / "result.json"

    @property
    def event(self) -> Path:
        return self.path / "event.json"

    def create(self, run: RunSpec, owner: str, source: str) -> datetime:
        """`source` tells the log lines of this attempt from those of others. Raises FileExistsError if the run is known."""
        self.path.mkdir(mode=0o700)
        self.out.mkdir(mode=0o700)
        started_at = clock.now()
        revision = run.revision
        spec = {
            "id": run.id, "owner": owner, "source": source, "workload_id": revision.workload_id, "namespace": revision.namespace,
            "name": revision.name, "kind": revision.kind,
            "version": revision.version, "timeout_sec": revision.timeout_sec, "started_at": clock.rfc3339_of(started_at),
        }  # fmt: skip
        self.event.write_text(run.event)
        _write_whole(self.path / "spec.json", spec)
        return started_at

    def append_log(self, lines: Sequence[bytes]) -> None:
        # The run was removed, or the disk is full. The log only matters if the server dies before the run ends.
        with contextlib.suppress(OSError), (self.path / "log").open("ab") as log:
            log.write(b"".join(line + b"\n" for line in lines))

    def write_end(self, end: ObservedRun) -> None:
        ended_at = end.ended_at or clock.now()
        item = {"status": end.status, "message": end.message, "exit_code": end.exit_code, "ended_at": clock.rfc3339_of(ended_at)}
        _write_whole(self.path / "end.json", item)

    def set_aside(self) -> Path | None:
        """Renames the folder, so that the id is free immediately; the caller removes the returned path."""
        aside = self.path.with_name(f".gone-{new_id(12)}")
        try:
            return self.path.rename(aside)
        except FileNotFoundError:
            return None

    def owner(self) -> str:
        return str((_read(self.path / "spec.json") or {}).get("owner", ""))

    def observe(self, limits: RunLimits, *, owner_lives: bool) -> ObservedRun | None:
        """The run as recorded in the folder. None if it was interrupted when its server stopped, and has no outcome."""
        spec, end = _read(self.path / "spec.json"), _read(self.path / "end.json")
        if spec is None:
            return None
        running = ObservedRun(id=spec["id"], status=CallStatus.RUNNING, started_at=clock.parse_rfc3339(spec["started_at"]))
        if end is None and owner_lives:
            return running
        outcome, too_large = None, ""
        try:
            outcome = read_outcome(self.result, limits.of(Kind(spec["kind"])))
        except ResultTooLarge as error:
            too_large = str(error)
        except NoOutcome:
            pass
        if end is not None:
            return replace(
                running, status=CallStatus(end["status"]), outcome=outcome, message=end["message"], exit_code=end["exit_code"],
                ended_at=clock.parse_rfc3339(end["ended_at"]), non_retryable=bool(too_large),
            )  # fmt: skip
        if too_large:
            return replace(running, status=CallStatus.FAILED, message=too_large, ended_at=self._written_at(), non_retryable=True)
        if outcome is None:
            return None
        return replace(running, status=status_of(outcome.ok), outcome=outcome, message=outcome.error or "", ended_at=self._written_at())

    def _written_at(self) -> datetime:
        """When the run wrote its outcome, since no server may have seen it end."""
        try:
            return datetime.fromtimestamp(self.result.stat().st_mtime, UTC)
        except FileNotFoundError:
            return clock.now()

    def replay_log(self, sink: Sink) -> None:
        """Delivers the log lines again, because the last ones may not have been stored when the server stopped. Stored ones are recognised
        by their number."""
        spec = _read(self.path / "spec.json") or {}
        log = self.path / "log"
        if spec and log.exists():
            reader = LineReader(spec["source"], spec["workload_id"], sink, namespace=spec.get("namespace", ""), invocation_id=spec["id"])
            reader.take("stdout", log.read_bytes().splitlines())


def status_of(ok: bool) -> CallStatus:
    return CallStatus.SUCCEEDED if ok else CallStatus.FAILED


def _write_whole(path: Path, item: Mapping[str, object]) -> None:
    beside = path.with_suffix(".tmp")
    beside.write_text(json.dumps(item, ensure_ascii=False))
    os.replace(beside, path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return found if isinstance(found, dict) else None
