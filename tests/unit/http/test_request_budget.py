"""Parsing and validating any JSON request takes at most 100 ms of CPU time and 10 MB, however hostile the body."""

import gc
import json
import os
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from sless.config import Settings
from sless.domain.model import Kind
from sless.domain.schemas import REQUESTS
from sless.domain.spec import parse_function
from sless.domain.trigger_spec import parse_trigger
from sless.domain.validate import mistakes_of
from sless.errors import MAX_DETAILS, Invalid, SlessError
from sless.http.body import MAX_JSON_VALUES, parse_json
from sless.http.table import OPERATIONS

BODY_BYTES = Settings().max_json_bytes
MAX_SEC = 0.1
MAX_BYTES = 10 * 2**20
TRACED = ("FunctionMerge", "HttpTriggerMerge")
"""Those whose memory is measured, which takes long."""
COMPONENTS = sorted({name for row in OPERATIONS for name in row.bodies.get("application/json", ()) if name not in ("Event", "Files")})


def filled(start: str, piece: str, end: str) -> str:
    return start + piece * ((BODY_BYTES - len(start) - len(end)) // len(piece)) + end


def numbered(start: str, name: str, value: str, count: int, end: str) -> str:
    return start + ",".join(f'"{name}{n}":{value}' for n in range(count)) + end


# Every operation refuses these before or while parsing.
UNPARSED = {
    "many items": filled('{"x":[0', ",0", "]}"),
    "170,000 methods": filled('{"methods":["GET"', ',"GET"', "]}"),
    "empty objects": filled('{"x":[{}', ",{}", "]}"),
    "floats": filled('{"x":[1.5', ",1.5e300", "]}"),
    "strings only": filled('""', '""', ""),
    "an open string": filled('{"x":"', ",", ""),
    "deep": "[" * 20_000,
    "commas in a string": filled('{"x":"', ",", '"}'),
    "escapes": filled('{"x":"', "\\u00e4", '"}'),
}


def fields_of(component: str) -> list[str]:
    """Return the fields that no component before this one has with the same schema; with `make soak` all fields."""
    order = [*TRACED, *(name for name in COMPONENTS if name not in TRACED)]
    before = [] if "TEST_SOAK_MESSAGES" in os.environ else order[: order.index(component)]
    known = [REQUESTS[other]["properties"] for other in before]
    fields = {name: schema for name, schema in REQUESTS[component]["properties"].items() if not schema.get("readOnly")}
    return [name for name, schema in fields.items() if not any(other.get(name) == schema for other in known)]


def parsed_bodies(component: str) -> dict[str, str]:
    """Return bodies just below the parser's limits, for each field of a component."""
    lists = "[" + ",".join(["[]"] * (MAX_JSON_VALUES // 2 - 2)) + "]"
    strings = json.dumps(["x y"] * (MAX_JSON_VALUES - 3))
    fields = fields_of(component)
    bodies = {f"{field}: lists": f'{{"{field}":{lists}}}' for field in fields}
    bodies |= {f"{field}: long text": filled(f'{{"{field}":"', "a.", '"}') for field in fields}
    bodies |= {f"{field}: names": numbered(f'{{"{field}":{{', "-", '""', MAX_JSON_VALUES - 2, "}}") for field in fields}
    return bodies | {
        "unknown fields": numbered("{", "f", "0", MAX_JSON_VALUES - 1, "}"),
        "similar fields": numbered("{", "timeout_sec", "0", MAX_JSON_VALUES - 1, "}"),
        "deep": f'{{"methods":[{"[" * 400}{"]" * 400}],"name":{"[" * 400}{"]" * 400}}}',
        "a long field": filled('{"', "memory_mb", '":0}'),
        "bad names": numbered('{"env_vars":{', "-", "0", 1000, "}}"),
        "a long name": filled('{"env_vars":{"', "A", '":0}}'),
        "origins": f'{{"cors":{{"allow_origins":{strings}}}}}',
    }


def handle(component: str, text: str) -> None:
    """Handle a body as the server does, up to its refusal."""
    try:
        value = parse_json(text.encode())
        if mistakes := mistakes_of(component, value):
            raise Invalid(*mistakes)
    except SlessError as error:
        assert len(error.details) <= MAX_DETAILS and len(json.dumps(error.body("r"))) < 40_000


def cpu_sec(work: Callable[[], None]) -> float:
    """Return the best of three, since the machine is shared."""
    times = []
    for _ in range(3):
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
        if times[-1] < MAX_SEC / 2:
            break
    return min(times)


def peak_bytes(work: Callable[[], None]) -> int:
    tracemalloc.start()
    work()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def over_budget(component: str, bodies: dict[str, str]) -> dict[str, str]:
    handle(component, "{}")
    over = {}
    gc.disable()  # collecting garbage of other tests would count
    try:
        for name, text in bodies.items():
            seconds = cpu_sec(lambda text=text: handle(component, text))
            peak = peak_bytes(lambda text=text: handle(component, text)) if component in TRACED else 0
            if seconds > MAX_SEC or peak > MAX_BYTES:
                over[name] = f"{seconds * 1000:.0f} ms, {peak / 2**20:.1f} MB"
    finally:
        gc.enable()
    return over


@pytest.mark.parametrize("component", COMPONENTS)
def test_no_body_costs_more_than_its_budget(component: str) -> None:
    assert over_budget(component, parsed_bodies(component)) == {}


def test_no_body_costs_more_than_its_budget_to_parse() -> None:
    assert over_budget("FunctionMerge", UNPARSED) == {}


def test_every_field_of_every_component_is_tried() -> None:
    tried = {(name, repr(REQUESTS[component]["properties"][name])) for component in COMPONENTS for name in fields_of(component)}
    fields = [item for component in COMPONENTS for item in REQUESTS[component]["properties"].items()]
    assert tried == {(name, repr(schema)) for name, schema in fields if not schema.get("readOnly")}


def test_every_json_operation_is_covered() -> None:
    assert len(COMPONENTS) >= 16 and {"FunctionMerge", "ServiceCreate", "JobMerge", "HttpTriggerMerge"} <= set(COMPONENTS)


def test_the_error_for_too_many_variables_gives_their_number() -> None:
    with pytest.raises(Invalid, match="env_vars: expected an object or null of at most 1000 fields, found 1001") as raised:
        parse_function({"name": "f", "runtime": "python3.11", "env_vars": {f"A{n}": "v" for n in range(1001)}})
    assert len(raised.value.details) == 1


def test_at_most_twenty_errors_are_reported() -> None:
    with pytest.raises(Invalid) as raised:
        parse_function({f"nosuch{n}": 0 for n in range(1000)})
    assert len(raised.value.details) == MAX_DETAILS


@pytest.mark.parametrize("kind", [Kind.FUNCTION, Kind.SERVICE, Kind.JOB])
def test_the_whole_parser_stays_within_its_budget(kind: Kind) -> None:
    body: Any = {"name": "f", "env_vars": {f"A{n}": "v" for n in range(40_000)}, "description": "x" * 900_000}
    with pytest.raises(Invalid):
        assert cpu_sec(lambda: parse_function(body, kind=kind)) < MAX_SEC


def test_a_trigger_with_a_million_methods_is_refused_quickly() -> None:
    with pytest.raises(Invalid, match="methods: expected an array or null of at most 7 items, found 170000"):
        parse_trigger({"name": "t", "type": "http", "function_ref": "f", "methods": ["GET"] * 170_000})


@pytest.mark.parametrize("number", ["1e400", "-1E+999", "9" * 400 + ".0"])
def test_numbers_that_overflow_a_double_are_rejected(number: str) -> None:
    with pytest.raises(Invalid, match="is out of range"):
        parse_json(f'{{"memory_mb": {number}}}'.encode())


def test_ordinary_numbers_and_many_commas_in_text_are_accepted() -> None:
    value = {"x": 1e300, "y": 10**300, "text": ",[{" * 100_000}
    assert parse_json(json.dumps(value).encode()) == value
