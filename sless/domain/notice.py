"""Notices to a tenant, sent to its `notify_url`. Pure."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sless.clock import rfc3339_of
from sless.domain.callback import Delivery


class NoticeEvent(StrEnum):
    BUILD_FAILED = "build.failed"
    FUNCTION_FAILED = "function.failed"
    CALL_DEAD = "call.dead"
    LIMIT_REACHED = "limit.reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice(Delivery):
    """`body` is the JSON text that is sent."""

    id: str
    event: str
    body: str

    @property
    def key(self) -> str:
        return self.id


def notice_id_of(*parts: object) -> str:
    """Deterministic id, so that a tenant is notified once of each event."""
    return "n" + hashlib.sha256("\0".join(map(str, parts)).encode(errors="replace")).hexdigest()[:23]


def notice_body(notice_id: str, event: NoticeEvent, namespace: str, at: datetime, facts: Mapping[str, Any]) -> str:
    return json.dumps({"id": notice_id, "event": str(event), "namespace": namespace, "time": rfc3339_of(at), **facts}, ensure_ascii=False)
