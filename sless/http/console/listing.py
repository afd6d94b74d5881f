"""The list of a namespace: functions, services and jobs, or the same as text for terminals."""

from collections.abc import Sequence

from flask import Response

from sless.clock import rfc3339_of
from sless.config import Settings
from sless.domain.model import Phase
from sless.errors import NotFound
from sless.http.console.request import Page, PageRequest, wants_page
from sless.http.overview import overview_json
from sless.http.serialize import call_url
from sless.usecases.overview import OverviewItem

FIRST_ROWS = 20
"""Rows of the page itself, as many as a large screen shows; the script adds the others from the stream, which it opens anyway. So the first
paint takes the same time however many there are."""
_LABELS = ("kind", "runtime", "phase", "active", "url", "schedule", "queue", "created", "built", "message")
_IF_ANY = ("queue",)


def listing(req: PageRequest) -> Response:
    namespace = req.namespace
    if namespace != req.caller.namespace and req.usecases.tenants.find(namespace) is None:
        raise NotFound("namespace", namespace[:80])
    if not wants_page():
        found = req.usecases.overview.list(namespace)
        return Response(text_of(sorted_for_text(found), namespace, req.settings), content_type="text/plain; charset=utf-8")
    found, total = req.usecases.overview.first(namespace, FIRST_ROWS)
    items = [overview_json(item, namespace, req.settings) for item in found]
    title, address = req.text("list.title"), req.settings.base_url()
    return req.page("list.html", title=title, module="list", items=items, total=total, address=address, data={"total": total})


def fields_of(item: OverviewItem, namespace: str, settings: Settings) -> dict[str, str]:
    """The fields to show; `-` for empty ones, so that all blocks have the same lines."""
    values = (
        str(item.kind),
        item.runtime or "",
        str(item.phase),
        f"version {item.active}" if item.active is not None else "",
        call_url(settings, namespace, item.name) if item.reachable else "",
        item.schedule,
        item.queue,
        _minute(rfc3339_of(item.created_at)),
        _minute(rfc3339_of(item.built_at)) if item.built_at else "",
        " ".join(item.message.split())[:200],
    )
    return {label: value or "-" for label, value in zip(_LABELS, values, strict=True) if value or label not in _IF_ANY}


def sorted_for_text(items: Sequence[OverviewItem]) -> list[OverviewItem]:
    """Active resources first."""
    return sorted(items, key=lambda item: item.active is None or item.phase in (Phase.FAILED, Phase.DELETING))


def text_of(items: Sequence[OverviewItem], namespace: str, settings: Settings) -> str:
    """One block per resource, with aligned values."""
    width = max(map(len, _LABELS)) + 2
    blocks = []
    for item in items:
        lines = [f"  {label:<{width}}{value}" for label, value in fields_of(item, namespace, settings).items()]
        blocks.append("\n".join([item.name, *lines]) + "\n")
    return "\n".join([*blocks, total_of(items) + "\n"])


def total_of(items: Sequence[OverviewItem]) -> str:
    counts: dict[str, int] = {}
    for item in items:
        counts[item.kind] = counts.get(item.kind, 0) + 1
    parts = ", ".join(f"{count} {kind}{'s' if count != 1 else ''}" for kind, count in counts.items())
    return f"total {len(items)}" + (f": {parts}" if parts else "")


def _minute(text: str) -> str:
    """`2026-01-31 09:26 UTC`"""
    return f"{text[:10]} {text[11:16]} UTC"


PAGES = (Page(rule="/funcs/<ns>", view=listing),)
