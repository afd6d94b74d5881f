"""Turns an upload on disk into a normalised zip with its content hash, or explains why it is refused. Runs `intake_child`."""

import json
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from sless import ids
from sless.children import run_child, was_too_much
from sless.code.intake_child import source_files
from sless.domain.code_check import Finding
from sless.domain.package import PackageLimits
from sless.errors import FULL_ERRNOS, Code, Detail, SlessError, storage_full

AT_ONCE = 3
"""Uploads read concurrently; others wait."""
CHILD_SEC = 150
STALE_SEC = 3600
SMALL_BYTES = 200 * 1024


class Form(StrEnum):
    ZIP = "zip"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedUpload:
    """`path` is the normalised zip, which exists as long as its staging folder. `mistakes` are errors of syntax, as the child parsed the
    sources; the code checks decide about them. `unparsed`: sentences about sources that it did not parse."""

    path: Path
    sha256: str
    size_bytes: int
    files: int
    code_hash: str | None
    mistakes: tuple[Finding, ...] = ()
    unparsed: tuple[str, ...] = ()


class Intake:
    def __init__(self, staging: Path, limits: PackageLimits) -> None:
        """Creates `staging`, and removes old leftovers of earlier processes from it."""
        self.limits = limits
        self._staging = staging
        self._slots = threading.BoundedSemaphore(AT_ONCE)
        staging.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in staging.iterdir():
            if left.stat().st_mtime < time.time() - STALE_SEC:
                shutil.rmtree(left, ignore_errors=True)

    @contextmanager
    def staged(self) -> Iterator[Path]:
        """A private folder that is always removed afterwards. Turns a full disk into STORAGE_FULL."""
        folder = self._staging / ids.new_id()
        try:
            folder.mkdir(mode=0o700)
            yield folder
        except OSError as error:
            if error.errno in FULL_ERRNOS:
                raise storage_full() from error
            raise
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def check(self, upload: Path, form: Form, *, runtime: str, entrypoint: str) -> CheckedUpload:
        """Raises Invalid, INVALID_CODE for sources that cannot be parsed within the limits, TOO_LARGE, STORAGE_FULL. Writes the zip next
        to the upload."""
        target = upload.with_name("package.zip")
        order = {"do": "intake", "form": str(form), "source": str(upload), "target": str(target), "runtime": runtime}
        answer = self._child(order | {"entrypoint": entrypoint, "limits": asdict(self.limits)})
        mistakes = tuple(Finding(path=path, line=line, message=message) for path, line, message in answer.pop("mistakes"))
        return CheckedUpload(path=target, mistakes=mistakes, unparsed=tuple(answer.pop("unparsed")), **answer)

    def source_json(self, package: Path) -> bytes:
        """{"files": …} of a stored zip. Raises TOO_LARGE."""
        if package.stat().st_size <= SMALL_BYTES:
            return json.dumps({"files": source_files(package)}, ensure_ascii=False).encode()
        target = package.with_name("source.json")
        self._child({"do": "source", "source": str(package), "target": str(target)})
        return target.read_bytes()

    def _child(self, order: dict[str, Any]) -> dict[str, Any]:
        with self._slots:
            try:
                done = run_child("sless.code.intake_child", json.dumps(order).encode(), CHILD_SEC)
            except subprocess.TimeoutExpired as error:
                message = f"reading the upload took longer than {CHILD_SEC} s"
                raise SlessError(Code.INVALID, message, details=[Detail(field="code", message=message)]) from error
        if done.returncode != 0:
            raise _crashed(done)
        answer: dict[str, Any] = json.loads(done.stdout)
        if "message" in answer:
            details = [Detail(field=field, message=message) for field, message in answer["details"]]
            raise SlessError(Code(answer["code"]), answer["message"], details=details)
        return answer


def _crashed(done: "subprocess.CompletedProcess[bytes]") -> SlessError:
    if was_too_much(done):
        return SlessError(Code.INVALID_CODE, "reading the code exceeded the memory or time limit: it is nested too deeply or too large")
    raise RuntimeError(f"the intake child exited with code {done.returncode}: {done.stderr.decode(errors='replace')[-2000:]}")
