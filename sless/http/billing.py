"""Usage per tenant and day, as JSON or CSV."""

from datetime import date

from flask import Response

from sless import clock
from sless.domain.metering import csv_of, plain_row
from sless.errors import Detail, Invalid
from sless.http.api_request import ApiRequest
from sless.http.operation import JSON, Parameter, Reply, reading
from sless.http.operators import PREFIX
from sless.http.serialize import json_response

_CSV = "text/csv"
_DAY = {"type": "string", "format": "date"}
_DAYS = (
    Parameter(name="from", text="first day (UTC); default: the first of this month", schema=_DAY),
    Parameter(name="to", text="last day; default: today", schema=_DAY),
)
_REPLY = Reply(text="by namespace and day", content={JSON: "UsageRows", _CSV: ""})


def of_all(req: ApiRequest) -> Response:
    return _answer(req, None)


def of_namespace(req: ApiRequest) -> Response:
    return _answer(req, req.namespace)


def _answer(req: ApiRequest, namespace: str | None) -> Response:
    today = clock.now().date()
    rows = req.usecases.operators.billing(_day(req, "from", today.replace(day=1)), _day(req, "to", today), namespace)
    if req.accepts(JSON, _CSV) == _CSV:
        return Response(csv_of(rows), content_type=f"{_CSV}; charset=utf-8")
    return json_response([plain_row(row) for row in rows])


def _day(req: ApiRequest, name: str, default: date) -> date:
    text = req.query(name)
    if text is None:
        return default
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        raise Invalid(Detail(field=name, message=f"expected a date such as 2026-01-31, found {text[:40]!r}")) from error


OPERATIONS = (
    reading("listUsage", PREFIX + "usage", of_all, "operators", "Usage of each tenant per day, for billing", _REPLY, *_DAYS),
    reading(
        "usageDays", "/v1/namespaces/{ns}/usage/days", of_namespace, "namespaces", "Usage of the namespace per day, as billed",
        _REPLY, *_DAYS,
    ),
)  # fmt: skip
