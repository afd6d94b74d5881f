"""Uploads of code. Each becomes a version, unless it equals the newest one."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sless.code.folder import new_code_key
from sless.code.intake import CheckedUpload
from sless.code.intake import Form as Form
from sless.domain.lifecycle import OPEN_VERSION_STATES
from sless.domain.model import Kind, Version, VersionState, Workload
from sless.errors import Code, SlessError
from sless.usecases.checks import check_package
from sless.usecases.parts import UseCaseParts, refuse_suspended


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """`path` is in a folder of `Uploads.staged`. `code_hash` is returned with the function as the client sent it."""

    path: Path
    form: Form
    code_hash: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """`fresh` is False if it equals the newest version, so that nothing is built."""

    workload: Workload
    version: Version
    fresh: bool


class Uploads:
    def __init__(self, parts: UseCaseParts) -> None:
        self._parts = parts
        self._store = parts.store

    @contextmanager
    def staged(self) -> Iterator[Path]:
        with self._parts.intake.staged() as folder:
            yield folder

    def check_target(self, namespace: str, kind: Kind, name: str) -> Workload:
        """Call this before the body is read. Raises NotFound, CONFLICT."""
        workload = self._store.workloads.get(namespace, kind, name)
        if workload.deleted_at is not None:
            raise SlessError(Code.CONFLICT, f'{kind} "{name}" is being deleted')
        refuse_suspended(workload)
        if workload.spec.function_ref is not None:
            raise SlessError(Code.CONFLICT, f'job "{name}" runs the code of function "{workload.spec.function_ref}" and takes no upload')
        return workload

    def upload(self, namespace: str, kind: Kind, name: str, upload: Upload) -> Uploaded:
        """Raises Invalid, TOO_LARGE, CONFLICT, STORAGE_FULL, LIMIT_REACHED, TOO_MANY_REQUESTS. The code is stored before the
        version that names it."""
        workload = self.check_target(namespace, kind, name)
        spec = workload.spec
        assert spec.runtime is not None and spec.entrypoint is not None
        package = self._parts.intake.check(upload.path, upload.form, runtime=spec.runtime, entrypoint=spec.entrypoint)
        code_hash = upload.code_hash if upload.code_hash is not None else package.code_hash
        known = self._find_same(workload, package)
        if known is not None:
            return self._known(workload, known, code_hash)
        warnings = check_package(self._parts, workload, package, spec.runtime)
        self._parts.check_code(namespace, package.size_bytes)
        self._parts.count_build(namespace)
        key = new_code_key(namespace, workload.id, package.sha256, self._parts.installation)
        self._parts.code.put(key, package.path)
        version = self._store.versions.insert(
            workload.id,
            sha256=package.sha256,
            code_hash=code_hash,
            runtime=spec.runtime,
            entrypoint=spec.entrypoint,
            code_key=key,
            size_bytes=package.size_bytes,
            build_env=spec.build_env,
            warnings=warnings,
        )
        self._parts.wake("builds")
        return Uploaded(workload=workload, version=version, fresh=True)

    def _find_same(self, workload: Workload, package: CheckedUpload) -> Version | None:
        """The newest version if it has this code and another build would change nothing."""
        newest = self._store.versions.find_newest(workload.id)
        if newest is None or newest.sha256 != package.sha256:
            return None
        same = (newest.runtime, newest.entrypoint) == (workload.spec.runtime, workload.spec.entrypoint)
        # Repeat a failed build, since the cause may have been temporary.
        alive = newest.state is VersionState.READY or (newest.state in OPEN_VERSION_STATES and newest.auto_activate)
        return newest if same and alive else None

    def _known(self, workload: Workload, version: Version, code_hash: str | None) -> Uploaded:
        """Activates a version again whose code is uploaded after a roll-back."""
        if code_hash is not None and code_hash != version.code_hash:
            self._store.versions.set_code_hash(version.id, code_hash)
        if version.state is VersionState.READY and version.number != workload.active_version:
            self._store.versions.activate(workload.id, version.number)
            self._parts.wake("routes", "instances")
        return Uploaded(workload=workload, version=version, fresh=False)
