"""What is built: protocols of builders and of what they need, and the values that cross them. Part of `ports`, which hands these on."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sless.domain.model import Kind, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildSpec:
    """`id` is the version's id. `env` is what the import at the end sees (env_vars and secret_env); `build_env` only the installer sees."""

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
    """Code that was built before, to be built afresh: what an earlier build left is not to be taken for the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildStatus:
    """`ready` None while it runs. `lines` are those not returned by an earlier `poll`. `message` on failure: the reason with the tool's
    own last lines. `artifact` as in model.Version."""

    ready: bool | None
    message: str = ""
    artifact: str = ""
    lines: tuple[str, ...] = ()


class Builder(Protocol):
    def start(self, build: BuildSpec, changed: Callable[[], None]) -> None:
        """Begins; `changed` is called (from any thread) when `poll` has something new. Known id: nothing happens."""

    def poll(self, build_id: str) -> BuildStatus | None:
        """None: this builder knows no such build (another process began it and died)."""

    def cancel(self, build_id: str) -> None:
        """Stops it and forgets it."""

    def discard(self, artifact: str) -> None:
        """Removes what lies elsewhere of an artifact that no version has any more (an image in a registry). Absent is no error. Raises
        BuilderUnavailable: to be tried again."""

    def collect(self, kept: Collection[Version], young_sec: float) -> None:
        """Removes what builds left and made for versions that are not among `kept`, unless it is younger than that. May take long. Raises
        BuilderUnavailable when it cannot see; nothing, or a part, has been removed then."""

    def close(self) -> None:
        """Ends what this process started; a builder whose builds go on without it leaves them to the next process."""


class BuilderUnavailable(Exception):
    """The cluster or the registry does not answer: nothing is known about what is there."""


class ContextStore(Protocol):
    """Where a builder in a cluster fetches its context from."""

    def put(self, build_id: str, source: Path, expires_sec: int) -> str:
        """A URL that needs no other credentials and can be fetched until it expires. Raises SlessError when it cannot be stored."""

    def delete(self, build_id: str) -> None:
        """An absent one is no error."""

    def list_ids(self) -> list[str]:
        """Build ids of all that are kept."""
