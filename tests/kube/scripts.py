"""Scripts for Pods that simulate instead of run."""

import itertools
from dataclasses import dataclass, field
from typing import Any

ACTS = ("ready", "complete", "crash", "oom", "pull_error", "unschedulable", "never_ready", "pending")


@dataclass(slots=True)
class Script:
    """Applies to the next `times` matching Pods (0: all).

    `ready`: runs, Ready after `after_sec`. `never_ready`: runs, its probe fails. `complete`, `crash`, `oom`: exits after `after_sec` with
    `exit_code`. `pull_error`, `unschedulable`: never starts. `pending`: stays ContainerCreating. `log` is written at the start.
    """

    act: str
    image: str = ""
    namespace: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    times: int = 0
    after_sec: float = 0.0
    exit_code: int = -1
    log: str = ""
    message: str = ""
    id: int = field(default_factory=itertools.count(1).__next__)

    def __post_init__(self) -> None:
        if self.act not in ACTS:
            raise ValueError(f"act {self.act!r}: expected one of {', '.join(ACTS)}")

    def takes(self, pod: dict[str, Any]) -> bool:
        labels = pod["metadata"].get("labels") or {}
        images = {container.get("image", "") for container in pod["spec"]["containers"]}
        return (
            (not self.image or any(self.image in image for image in images))
            and (not self.namespace or pod["metadata"]["namespace"] == self.namespace)
            and all(labels.get(key) == value for key, value in self.labels.items())
        )

    @property
    def code(self) -> int:
        if self.exit_code >= 0:
            return self.exit_code
        return {"crash": 1, "oom": 137}.get(self.act, 0)


def take_script(scripts: list[Script], pod: dict[str, Any]) -> Script | None:
    """The newest matching script; counts down its `times`."""
    found = next((script for script in reversed(scripts) if script.takes(pod)), None)
    if found is not None and found.times:
        found.times -= 1
        if not found.times:
            scripts.remove(found)
    return found
