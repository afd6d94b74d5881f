"""Options of writes and deletions."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

Object = dict[str, Any]


def now_text() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def later_text(seconds: int) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """`manager` is the field manager; `subresource` is `status`, `scale` or empty."""

    manager: str = "unknown"
    subresource: str = ""
    force: bool = False


CONTROLLER = Writer(manager="kube-controller-manager")
KUBELET = Writer(manager="kubelet")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    grace_sec: int | None = None
    propagation: str = ""
    uid: str | None = None
    resource_version: str | None = None
