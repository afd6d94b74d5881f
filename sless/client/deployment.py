"""Deploy a folder: create or update, upload, follow the build, wait for Ready, create an http trigger."""

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from sless.client.client import Client, Json, Resources, Workloads
from sless.client.errors import ClientError, Unreachable, WaitTimeout
from sless.client.guess import check_entrypoint, check_named_entrypoint, guess_runtime
from sless.client.packing import PackedFolder, pack_folder

POLL_SEC = 0.1
SLOWEST_POLL_SEC = 1.0
NAME_LENGTH = 40


class Report(Protocol):
    """Receives the progress of a deployment."""

    def step(self, text: str) -> None:
        """One sentence about a step."""

    def log(self, line: str) -> None:
        """One line of the build log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployRequest:
    """`fields` of the resource to set; others keep their value, or get the server's default.

    `kind` is "function", "service", or None for the existing kind (new: function). `env_vars` are added, `unset_env` removed.
    """

    name: str
    folder: Path
    kind: str | None = None
    fields: Json = field(default_factory=dict)
    env_vars: dict[str, str] = field(default_factory=dict)
    unset_env: tuple[str, ...] = ()
    http: bool = True
    wait: bool = True
    wait_sec: float = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployResult:
    """`url` is None without an http trigger."""

    kind: str
    resource: Json
    version: int
    url: str | None


class DeployFailed(ClientError):
    """The uploaded code did not become Ready; the message is the server's reason."""


def deploy(client: Client, request: DeployRequest, report: Report) -> DeployResult:
    """Raises ClientError (with DeployFailed and WaitTimeout) and PackingError. A new workload is deleted if its upload is refused."""
    packed = pack_folder(request.folder)
    if packed.notice:
        report.step(packed.notice)
    workloads, old = find_workload(client, request.name, request.kind)
    request = replace(request, kind=workloads.kind)
    _put_spec(workloads, old, request, packed, report)
    try:
        uploaded = _upload(workloads, request.name, packed)
        report.step(_upload_text(packed, uploaded, old))
        for text in warnings_of(uploaded):
            report.step(text)
    except ClientError as error:
        if old is None and delete_refused(workloads, request.name, error):
            report.step(f'Deleted {workloads.kind} "{request.name}": the server refused its code')
        raise
    number = int(uploaded["version"])
    if request.wait:
        deadline = time.monotonic() + request.wait_sec
        shown = follow_build(workloads, request.name, number, report)
        _wait_built(workloads, request.name, number, deadline, shown)
        if old and old.get("latest_version") == number:
            _activate_again(workloads, request.name, number)
        if request.http and request.kind == "function":
            ensure_http_trigger(client, request.name, report)
        resource = wait_ready(workloads, request.name, deadline, lambda found: _serves(found, number))
    else:
        if request.http and request.kind == "function":
            ensure_http_trigger(client, request.name, report)
        resource = workloads.get(request.name)
    return DeployResult(kind=workloads.kind, resource=resource, version=number, url=resource.get("url") or None)


def find_workload(client: Client, name: str, kind: str | None = None) -> tuple[Workloads, Json | None]:
    """The collection and the workload, None if there is none. `kind` None searches functions and services."""
    for workloads in (client.functions, client.services):
        if kind in (None, workloads.kind):
            try:
                return workloads, workloads.get(name)
            except ClientError as error:
                if error.status != 404:
                    raise
    return (client.services if kind == "service" else client.functions), None


def get_workload(client: Client, name: str, kind: str | None = None) -> tuple[Workloads, Json]:
    workloads, resource = find_workload(client, name, kind)
    if resource is None:
        raise ClientError(message=f'no {kind or "function or service"} "{name}" in {client.namespace}', status=404, code="not_found")
    return workloads, resource


def find_resources(client: Client, name: str, candidates: Sequence[Resources]) -> tuple[Resources, Json] | None:
    """The first of `candidates` that has a resource of this name, and the resource. Functions and services never share a name."""
    for resources in candidates:
        try:
            return resources, resources.get(name)
        except ClientError as error:
            if error.status != 404:
                raise
    return None


def follow_build(workloads: Workloads, name: str, number: int, report: Report) -> set[str]:
    """Reports the build log as it grows; returns its lines. A broken stream is not a failed build: callers poll for the state."""
    shown = set()
    try:
        with workloads.follow_build(name, number) as lines:
            for line in lines:
                report.log(line)
                shown.add(line)
    except Unreachable as error:
        report.step(f"(lost the build log: {error}; the build continues)")
    return shown


def wait_ready(workloads: Workloads, name: str, deadline: float, is_expected: Callable[[Json], bool]) -> Json:
    """The resource once it is Ready and `is_expected`. Raises DeployFailed if it is Failed, WaitTimeout at the deadline (monotonic)."""

    def settled() -> Json | None:
        resource = workloads.get(name)
        if resource.get("phase") == "Failed":
            raise DeployFailed(message=f"{name}: {resource.get('message') or 'failed without a message'}", code="build_failed")
        return resource if resource.get("phase") == "Ready" and is_expected(resource) else None

    return _poll(settled, deadline, lambda: f"{name} is still {workloads.get(name).get('phase')}")


def wait_built(workloads: Workloads, name: str, number: int, deadline: float) -> Json:
    """The version once it is ready. Raises DeployFailed if its build failed or was cancelled, WaitTimeout at the deadline (monotonic)."""

    def ended() -> Json | None:
        version = workloads.version(name, number)
        if version.get("state") in ("failed", "cancelled"):
            reason = version.get("message") or version["state"]
            raise DeployFailed(message=f"version {number} of {name}: {reason}", code="build_failed")
        return version if version.get("state") == "ready" else None

    return _poll(ended, deadline, lambda: f"version {number} of {name} is still {workloads.version(name, number).get('state')}")


def ensure_http_trigger(client: Client, name: str, report: Report) -> None:
    """Creates an http trigger if the function has none. A disabled one stays disabled."""
    triggers = list(client.triggers.list())
    mine = [item for item in triggers if item.get("type") == "http" and item.get("function_ref") == name]
    if mine:
        if not mine[0].get("enabled", True):
            report.step(f'Trigger "{mine[0]["name"]}" is disabled; the URL answers 503 until it is enabled')
        return
    taken = {item["name"] for item in triggers}
    trigger_name = name if name not in taken else _free_name(name, taken)
    client.triggers.create({"name": trigger_name, "type": "http", "function_ref": name})
    report.step(f'Created http trigger "{trigger_name}"')


def delete_refused(resources: Resources, name: str, refusal: ClientError) -> bool:
    """Deletes a new resource whose code was refused, as it would wait for code for ever. Returns False if it is kept, because an upload
    whose answer was lost, or a concurrent one, may have been accepted."""
    if not 400 <= refusal.status < 500:
        return False
    try:
        if resources.get(name).get("latest_version"):
            return False
        resources.delete(name)
    except ClientError:
        return False
    return True


def _put_spec(workloads: Workloads, old: Json | None, request: DeployRequest, packed: PackedFolder, report: Report) -> None:
    fields = dict(request.fields)
    if old is None:
        if "runtime" not in fields:
            fields["runtime"] = guess_runtime(request.folder)
        if "entrypoint" not in fields:
            check_entrypoint(request.folder, fields["runtime"])
        else:
            check_named_entrypoint(packed.files, fields["runtime"], fields["entrypoint"])
        if request.env_vars:
            fields["env_vars"] = request.env_vars
        workloads.create({"name": request.name} | fields)
        report.step(f'Created {workloads.kind} "{request.name}" ({fields["runtime"]})')
        return
    if request.env_vars or request.unset_env:
        kept = {name: value for name, value in old.get("env_vars", {}).items() if name not in request.unset_env}
        fields["env_vars"] = kept | request.env_vars
    changed = {name: value for name, value in fields.items() if old.get(name) != value}
    if "runtime" in changed or "entrypoint" in changed:
        meant = old | changed
        check_named_entrypoint(packed.files, meant["runtime"], meant["entrypoint"])
    if changed:
        workloads.merge(request.name, changed)
        report.step(f'Changed {workloads.kind} "{request.name}": {", ".join(sorted(changed))}')


def _upload(workloads: Workloads, name: str, packed: PackedFolder) -> Json:
    return workloads.upload(name, packed.data, hashlib.sha256(packed.data).hexdigest())


def warnings_of(uploaded: Json) -> list[str]:
    """Warnings of the server's code checks about the upload."""
    return [f"Warning: {text}" for text in uploaded.get("warnings", [])]


def _upload_text(packed: PackedFolder, uploaded: Json, old: Json | None) -> str:
    number, count = uploaded["version"], len(packed.files)
    if old and old.get("latest_version") == number:
        return f"Code is unchanged: version {number}"
    return f"Uploaded {count} file{'s' if count != 1 else ''}, {_size_text(len(packed.data))}: version {number}"


def _wait_built(workloads: Workloads, name: str, number: int, deadline: float, shown: set[str]) -> None:
    """Raises DeployFailed with the reason, without lines that the build log has already shown."""

    def ended() -> Json | None:
        version = workloads.version(name, number)
        return version if version.get("state") in ("ready", "failed", "cancelled") else None

    version = _poll(ended, deadline, lambda: f"version {number} of {name} is still being built")
    if version["state"] != "ready":
        first, *more = (version.get("message") or "no reason given").splitlines()
        reason = "\n".join([first, *(line for line in more if line not in shown)])
        raise DeployFailed(message=f"version {number} of {name} {version['state']}: {reason}", code="build_failed")


def _serves(resource: Json, number: int) -> bool:
    """Also True if a newer upload has superseded this one."""
    return resource.get("active_version") == number or (resource.get("latest_version") or 0) > number


def _activate_again(workloads: Workloads, name: str, number: int) -> None:
    """Activates the version after a roll-back, because an upload equal to the newest version builds nothing."""
    if workloads.get(name).get("active_version") != number:
        workloads.activate(name, number)


def growing_pauses(first_sec: float, longest_sec: float) -> Iterator[float]:
    """Pauses between two polls: short at first, since most waits are short."""
    while True:
        yield first_sec
        first_sec = min(longest_sec, first_sec * 1.3)


def _poll(check: Callable[[], Any], deadline: float, describe: Callable[[], str]) -> Any:
    pauses_sec = growing_pauses(POLL_SEC, SLOWEST_POLL_SEC)
    while True:
        found = check()
        if found is not None:
            return found
        if time.monotonic() + (pause_sec := next(pauses_sec)) > deadline:
            raise WaitTimeout(message=f"gave up waiting: {describe()}", code="wait_timeout")
        time.sleep(pause_sec)


def _free_name(name: str, taken: set[str]) -> str:
    base = name[: NAME_LENGTH - 8].rstrip("-")
    candidates = (f"{base}-http", *(f"{base}-http-{number}" for number in range(2, 100)))
    return next(candidate for candidate in candidates if candidate not in taken)


def _size_text(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:.1f} MB" if size_bytes >= 2**20 else f"{size_bytes / 1024:.1f} KB"
