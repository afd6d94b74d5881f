"""Explains a cron schedule: its next times, and the schedule in words."""

from itertools import islice

from flask import Response, request

from sless import clock
from sless.clock import rfc3339_of
from sless.domain.schedule import check_schedule, firings_of, zone_of
from sless.errors import Detail, Invalid
from sless.http.api_request import ApiRequest
from sless.http.operation import Operation, Parameter, shown
from sless.http.schedule_words import words_of
from sless.http.serialize import json_response

_SHOWN = 5
_MOST = 50
_MAX_CHARS = 200


def explain(req: ApiRequest) -> Response:
    schedule, timezone = req.query("schedule") or "", req.query("timezone") or "UTC"
    count = req.integer("count", 1, _MOST) or _SHOWN
    mistakes = []
    try:
        if len(schedule) > _MAX_CHARS:
            raise ValueError(f"expected at most {_MAX_CHARS} characters")
        check_schedule(schedule)
    except ValueError as error:
        mistakes.append(Detail(field="schedule", message=str(error)))
    try:
        zone = zone_of(timezone[:_MAX_CHARS])
    except ValueError as error:
        mistakes.append(Detail(field="timezone", message=str(error)))
    if mistakes:
        raise Invalid(*mistakes)
    language = request.accept_languages.best_match(["en", "ru"], default="en") or "en"
    following = [rfc3339_of(moment) for moment in islice(firings_of(schedule, zone, clock.now()), count)]
    return json_response({"schedule": schedule, "timezone": timezone, "words": words_of(schedule, language), "next": following})


OPERATIONS = (
    Operation(
        id="explainSchedule",
        method="GET",
        path="/v1/schedule",
        view=explain,
        tag="triggers",
        summary="A cron schedule in words (Accept-Language: en or ru), and when it fires next",
        parameters=(
            Parameter(name="schedule", text="five cron fields or an alias", required=True),
            Parameter(name="timezone", text="IANA name; default UTC"),
            Parameter(name="count", text="how many times", schema={"type": "integer", "minimum": 1, "maximum": _MOST}),
        ),
        replies={200: shown("Schedule", "the schedule")},
    ),
)
