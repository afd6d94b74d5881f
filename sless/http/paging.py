"""Lists: plain JSON arrays, with a Link header to the next page."""

import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import urlencode

from flask import Response, request

from sless.domain.operators import TimePlace
from sless.domain.schemas import NAME_PATTERN
from sless.errors import Detail, Invalid
from sless.http.api_request import ApiRequest
from sless.http.serialize import json_response

T = TypeVar("T")

MAX_PAGE = 1000
_NAMESPACE = re.compile(r"[a-z0-9-]{1,63}")
_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_ID = re.compile(r"[a-z0-9]{1,64}")
_PLACE = re.compile(r"([0-9]{1,17})-([^\0]{1,300})", re.DOTALL)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def name_cursor(req: ApiRequest) -> str | None:
    return _cursor(req, re.compile(NAME_PATTERN.removeprefix("^").removesuffix("$")), "a name")


def namespace_cursor(req: ApiRequest) -> str | None:
    return _cursor(req, _NAMESPACE, "a namespace")


def id_cursor(req: ApiRequest) -> str | None:
    return _cursor(req, _ID, "an id")


def number_cursor(req: ApiRequest) -> int | None:
    text = _cursor(req, _NUMBER, "a number")
    return int(text) if text is not None else None


def place_cursor(req: ApiRequest) -> TimePlace | None:
    return place_of("cursor", req.query("cursor"))


def place_of(field: str, text: str | None) -> TimePlace | None:
    """The inverse of `place_text`. Raises Invalid."""
    if text is None:
        return None
    found = _PLACE.fullmatch(text)
    if found is None:
        raise _bad_cursor(field, "a place in the list", text)
    return TimePlace(at=_EPOCH + timedelta(microseconds=int(found[1])), key=found[2])


def place_text(place: TimePlace) -> str:
    """Microseconds since 1970, and the key."""
    return f"{(place.at - _EPOCH) // timedelta(microseconds=1)}-{place.key}"


def paged(
    req: ApiRequest,
    fetch: Callable[[int | None], Sequence[T]],
    cursor_of: Callable[[T], object],
    show: Callable[[T], Any],
    default: int | None = None,
) -> Response:
    """Fetches one item more than fits on the page, to find out whether a next page exists."""
    limit = req.integer("limit", 1, MAX_PAGE) or default
    found = list(fetch(limit + 1 if limit else None))
    page = found[:limit] if limit else found
    response = json_response([show(item) for item in page])
    if len(found) > len(page):
        kept = {name: value for name, value in request.args.items() if name not in ("cursor", "limit")}
        query = urlencode(kept | {"limit": limit, "cursor": cursor_of(page[-1])})
        response.headers["Link"] = f'<{request.path}?{query}>; rel="next"'
    return response


def _cursor(req: ApiRequest, pattern: re.Pattern[str], expected: str) -> str | None:
    text = req.query("cursor")
    if text is not None and not pattern.fullmatch(text):
        raise _bad_cursor("cursor", expected, text)
    return text


def _bad_cursor(field: str, expected: str, text: str) -> Invalid:
    return Invalid(Detail(field=field, message=f"expected {expected} from a Link header, found {text[:40]!r}"))
