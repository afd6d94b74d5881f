"""Answers control requests of sless: health and log lines. They need no slot, so they work while all slots are taken."""

import os
import sys

from .answers import JSON_TYPE, Answer, json_answer
from .forms import pairs_of


def answer(request, server):
    if request.method in ("GET", "HEAD") and request.path == "/_sless/health":
        return json_answer(200, health_of(server.slots))
    if request.method == "GET" and request.path == "/_sless/logs":
        after = dict(pairs_of(request.query)).get("after", "0")
        if not (after.isascii() and after.isdigit()):
            return json_answer(400, {"error": f"after: expected a whole number, found {after!r:.100}", "code": "bad_request"})
        return Answer(200, server.capture.ring.page(int(after)), JSON_TYPE)
    return json_answer(404, {"error": f"unknown control request {request.method} {request.path}", "code": "not_found"})


def health_of(slots):
    health = {"active": len(slots.running), "overdue": slots.overdue_count(), "pid": os.getpid()}
    # Imported with the first coroutine, perhaps at this moment.
    is_blocked = getattr(sys.modules.get(f"{__package__}.aloop"), "is_blocked", None)
    # A loop that is only busy soon cancels what is overdue.
    if health["overdue"] and is_blocked is not None and is_blocked():
        health["blocked"] = True
    return health
