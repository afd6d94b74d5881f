"""Versions: list, activate, rebuild, cancel; the source."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sless.domain.model import Kind, Version, Workload
from sless.errors import Code, NotFound, SlessError
from sless.usecases.parts import UseCaseParts
from sless.usecases.recode import find_current, rebuild


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionView:
    workload: Workload
    version: Version
    build_log: str = ""


class Versions:
    def __init__(self, parts: UseCaseParts) -> None:
        self._parts = parts
        self._store = parts.store

    def list(self, namespace: str, kind: Kind, name: str, *, limit: int | None, before: int | None) -> list[VersionView]:
        workload = self._store.workloads.get(namespace, kind, name)
        found = self._store.versions.list_of(workload.id, limit=limit, before_number=before)
        return [VersionView(workload=workload, version=version) for version in found]

    def get(self, namespace: str, kind: Kind, name: str, number: int) -> VersionView:
        workload, version = self._find(namespace, kind, name, number)
        lines = self._store.versions.log(version.id)
        return VersionView(workload=workload, version=version, build_log="".join(f"{text}\n" for _, text in lines))

    def activate(self, namespace: str, kind: Kind, name: str, number: int) -> Workload:
        """Raises CONFLICT unless the version is ready."""
        workload, version = self._find(namespace, kind, name, number)
        if workload.deleted_at is not None:
            raise SlessError(Code.CONFLICT, f'{kind} "{name}" is being deleted')
        self._store.versions.activate(workload.id, version.number)
        self._parts.wake("routes", "instances", "runs")
        return self._store.workloads.get_by_id(workload.id)

    def rebuild(self, namespace: str, kind: Kind, name: str, number: int | None = None) -> VersionView:
        """See `recode.rebuild`. Raises CONFLICT without code."""
        workload = self._store.workloads.get(namespace, kind, name)
        if workload.deleted_at is not None:
            raise SlessError(Code.CONFLICT, f'{kind} "{name}" is being deleted')
        version = rebuild(self._parts, workload, number)
        if version is None:
            raise SlessError(Code.CONFLICT, f'{kind} "{name}" has no code yet: upload it')
        return VersionView(workload=workload, version=version)

    def cancel(self, namespace: str, kind: Kind, name: str, number: int) -> VersionView:
        """Raises CONFLICT if its build has ended."""
        workload, version = self._find(namespace, kind, name, number)
        if not self._store.versions.cancel(version.id):
            state = self._store.versions.get(workload.id, number).state
            raise SlessError(Code.CONFLICT, f"version {number}: expected one that is queued or building, found one that is {state}")
        self._parts.wake("builds", "instances")
        return VersionView(workload=workload, version=self._store.versions.get(workload.id, number))

    @contextmanager
    def package(self, namespace: str, kind: Kind, name: str, number: int | None) -> Iterator[Path]:
        """The zip of a version (None: the active one, or else the newest) as a file that exists within the block."""
        workload = self._store.workloads.get(namespace, kind, name)
        version = self._store.versions.get(workload.id, number) if number is not None else self._current(workload)
        with self._parts.intake.staged() as folder:
            path = folder / "code.zip"
            with self._parts.code.open(version.code_key) as stored, path.open("wb") as file:
                shutil.copyfileobj(stored, file, 1 << 20)
            yield path

    def source_json(self, package: Path) -> bytes:
        """{"files": …} of a zip of `package`."""
        return self._parts.intake.source_json(package)

    def _find(self, namespace: str, kind: Kind, name: str, number: int) -> tuple[Workload, Version]:
        workload = self._store.workloads.get(namespace, kind, name)
        return workload, self._store.versions.get(workload.id, number)

    def _current(self, workload: Workload) -> Version:
        """The version that an editor should show: the last upload, unless an older version has been activated afterwards."""
        version = find_current(self._store, workload)
        if version is None:
            raise NotFound("source of", workload.name)
        return version
