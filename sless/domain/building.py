"""Protocols of builders and their dependencies, and the values they exchange. Re-exported by `ports`."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sless.domain.model import Kind, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """`id` is the version's id. `env` (env_vars and secret_env) is set for the trial import, `build_env` only for the installer."""

    id: str
    workload_id: str
    namespace: str
    name: str
    kind: Kind
    version: int
    runtime: str
    entrypoint: str
    code_key: str
    build_env: dict[str, str]
    env: dict[str, str]
    memory_mb: int
    rebuild: bool = False
    """Build from scratch: do not reuse the result of an earlier build of the same code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildStatus:
    """`ready` is None while the build runs. `lines` are the log lines since the last `poll`. On failure, `message` is the reason with the
    tool's last lines. `artifact` as in model.Version; unless `ready`, it is one that the build may leave behind. `importing`: only the
    trial import is left."""

    ready: bool | None
    message: str = ""
    artifact: str = ""
    lines: tuple[str, ...] = ()
    importing: bool = False


class Builder(Protocol):
    def start(self, build: BuildSpec, changed: Callable[[], None]) -> None:
        """Starts a build; does nothing if the id is known. `changed` is called from any thread when `poll` has something new."""

    def poll(self, build_id: str) -> BuildStatus | None:
        """None if this builder does not know the build (it was started by another process that died)."""

    def cancel(self, build_id: str) -> None:
        """Stops and forgets a build."""

    def discard(self, artifact: str) -> None:
        """Deletes the remote part (an image in a registry) of an artifact that is no longer used by a version. Missing ones are ignored.
        Raises BuilderUnavailable if it should be tried again."""

    def collect(self, list_kept: Callable[[], Collection[Version]], young_sec: float) -> None:
        """Deletes what builds left behind for versions that are not kept, unless it is younger than `young_sec`. Calls `list_kept` after it
        has listed what exists, so builds started later are safe. May take long. Raises BuilderUnavailable if the backend does not
        answer; some of it may have been deleted by then."""

    def close(self) -> None:
        """Ends what this process started. Builds that continue without it are left to the next process."""


class BuilderUnavailable(Exception):
    """The cluster or the registry does not respond, so the state of builds is unknown."""


class ContextStore(Protocol):
    """Storage that builders in a cluster fetch their context from."""

    def put(self, build_id: str, source: Path, expires_sec: int) -> str:
        """Returns a pre-signed URL that is valid for `expires_sec`. Raises SlessError if the context cannot be stored."""

    def delete(self, build_id: str) -> None:
        """Ignores missing contexts."""

    def list_ids(self) -> list[str]:
        """Build ids of all stored contexts."""
