"""New versions of existing code: for another runtime or entrypoint, or on a newer runtime image."""

from dataclasses import replace

from sless.domain.lifecycle import OPEN_VERSION_STATES
from sless.domain.model import Version, VersionState, Workload
from sless.domain.runtimes import RUNTIMES
from sless.errors import SlessError
from sless.store import Store
from sless.usecases.checks import check_version
from sless.usecases.parts import UseCaseParts


def recode(parts: UseCaseParts, workload: Workload) -> Version | None:
    """A new version of the newest code; None if there is no code yet, and the next upload will use the new runtime. The limit of builds
    does not apply, because the new spec has already been stored. For another language, the code is checked like an upload; if it is
    refused, the version has failed."""
    base = find_current(parts.store, workload)
    if base is None or workload.spec.runtime is None or workload.spec.entrypoint is None:
        return None
    runtime, entrypoint = workload.spec.runtime, workload.spec.entrypoint
    warnings, refusal = base.warnings, ""
    if RUNTIMES[runtime].language != RUNTIMES[base.runtime].language:
        try:
            warnings = check_version(parts, workload, base, runtime=runtime, entrypoint=entrypoint)
        except SlessError as error:
            refusal = error.message
    return _insert(parts, workload, replace(base, runtime=runtime, entrypoint=entrypoint, warnings=warnings), refusal)


def rebuild(parts: UseCaseParts, workload: Workload, number: int | None = None) -> Version | None:
    """A new version of the code of version `number` (None: the active one, or else the newest), built on the current runtime image; the
    active one serves until it is ready, and stays if it fails. Returns an open build of the same code instead, as it uses the current image
    anyway. Repeats the code checks for a version that has never been ready. Returns None without code. Raises NotFound, TOO_MANY_REQUESTS,
    INVALID_CODE."""
    newest = parts.store.versions.find_newest(workload.id)
    wanted = number if number is not None else workload.active_version
    base = parts.store.versions.get(workload.id, wanted) if wanted is not None else newest
    if newest is not None and newest.state in OPEN_VERSION_STATES and (number is None or newest.code_key == (base or newest).code_key):
        return newest
    if base is None:
        return None
    if base.state is not VersionState.READY:
        base = replace(base, warnings=check_version(parts, workload, base, runtime=base.runtime, entrypoint=base.entrypoint))
    parts.count_build(workload.namespace)
    return _insert(parts, workload, base)


def find_current(store: Store, workload: Workload) -> Version | None:
    """The version whose code is current for the user: the newest, unless it is ready and another one has been activated afterwards."""
    newest = store.versions.find_newest(workload.id)
    if newest is None or newest.state in OPEN_VERSION_STATES or newest.number == workload.active_version:
        return newest
    rolled_back = newest.state is VersionState.READY and workload.active_version is not None
    return store.versions.find(workload.id, workload.active_version) if rolled_back and workload.active_version else newest


def _insert(parts: UseCaseParts, workload: Workload, base: Version, refusal: str = "") -> Version:
    """A version like `base`."""
    version = parts.store.versions.insert(
        workload.id, sha256=base.sha256, code_hash=base.code_hash, runtime=base.runtime, entrypoint=base.entrypoint, code_key=base.code_key,
        size_bytes=base.size_bytes, build_env=workload.spec.build_env,
        warnings=base.warnings, refusal=refusal,
    )  # fmt: skip
    parts.wake("builds")
    return version
