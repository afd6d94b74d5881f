"""What `sless gc` may remove."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Garbage:
    """`kind` is code, context, artifact (an image, or installed dependencies) or zipapp. `remove` deletes it for good."""

    kind: str
    name: str
    size_bytes: int | None
    remove: Callable[[], None]
