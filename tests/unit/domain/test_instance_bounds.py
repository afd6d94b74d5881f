from typing import Any

import pytest

from sless.domain.instance_bounds import InstanceBounds, InstanceLimits, bounds_of, shown_bounds_of
from sless.domain.model import Kind
from sless.domain.spec import Mode, Named, SpecLimits, parse_function
from sless.errors import Invalid

MINIMAL = {"name": "hello", "runtime": "python3.11"}
LIMITS = SpecLimits(instances=InstanceLimits(least=1, most=8))


def service(**fields: Any) -> Named:
    return parse_function(MINIMAL | fields, kind=Kind.SERVICE)


def changed(old: Named, mode: Mode = Mode.MERGE, **fields: Any) -> dict[str, int | None]:
    body = fields if mode is Mode.MERGE else MINIMAL | fields
    shown = shown_bounds_of(Kind.SERVICE, parse_function(body, old, mode, kind=Kind.SERVICE).spec)
    return {name: shown[name] for name in ("replicas", "min_instances", "max_instances")}


def counts(replicas: int | None, least: int, most: int) -> dict[str, int | None]:
    return {"replicas": replicas, "min_instances": least, "max_instances": most}


def mistakes(kind: Kind, old: Named | None = None, mode: Mode = Mode.CREATE, limits: SpecLimits = LIMITS, **fields: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        parse_function(fields if mode is Mode.MERGE else MINIMAL | fields, old, mode, kind=kind, limits=limits)
    return {detail.field: detail.message for detail in caught.value.details}


def test_a_function_without_the_fields_follows_the_server() -> None:
    spec = parse_function(MINIMAL).spec
    assert bounds_of(Kind.FUNCTION, spec) == InstanceBounds(least=0, most=5) and spec.idle_seconds == 300
    assert bounds_of(Kind.FUNCTION, parse_function(MINIMAL, limits=LIMITS).spec) == InstanceBounds(least=1, most=5)
    few = parse_function(MINIMAL | {"max_instances": 1}, limits=SpecLimits(instances=InstanceLimits(least=3, most=8)))
    assert bounds_of(Kind.FUNCTION, few.spec) == InstanceBounds(least=1, most=1)


def test_null_restores_the_default_of_the_server() -> None:
    old = parse_function(MINIMAL | {"min_instances": 2, "max_instances": 3, "idle_seconds": 10})
    kept = parse_function({"description": "x"}, old, Mode.MERGE, limits=LIMITS).spec
    assert (kept.min_instances, kept.max_instances, kept.idle_seconds) == (2, 3, 10)
    body = {"min_instances": None, "max_instances": None, "idle_seconds": None}
    spec = parse_function(body, old, Mode.MERGE, limits=LIMITS).spec
    assert (spec.min_instances, spec.max_instances, spec.idle_seconds) == (1, 5, 300)


def test_the_maximum_of_the_server_limits_later_too() -> None:
    spec = parse_function(MINIMAL | {"min_instances": 6, "max_instances": 8}, limits=LIMITS).spec
    assert bounds_of(Kind.FUNCTION, spec, most=4) == InstanceBounds(least=4, most=4)
    assert bounds_of(Kind.SERVICE, service(replicas=7).spec, most=4) == InstanceBounds(least=4, most=4)


@pytest.mark.parametrize("kind", [Kind.FUNCTION, Kind.SERVICE])
def test_more_than_the_server_allows_is_refused(kind: Kind) -> None:
    found = mistakes(kind, max_instances=9)
    assert found == {"max_instances": "expected at most 8, the maximum of this server (SLESS_MAX_INSTANCES), found 9"}
    assert set(mistakes(Kind.SERVICE, replicas=9)) == {"replicas"}


def test_the_default_is_accepted_whatever_the_server_allows() -> None:
    limits = SpecLimits(instances=InstanceLimits(most=2))
    spec = parse_function(MINIMAL | {"max_instances": 5}, limits=limits).spec
    assert bounds_of(Kind.FUNCTION, spec, most=2).most == 2


@pytest.mark.parametrize("kind", [Kind.FUNCTION, Kind.SERVICE])
def test_the_minimum_is_not_above_the_maximum(kind: Kind) -> None:
    assert mistakes(kind, min_instances=7, max_instances=6) == {
        "min_instances": "expected at most max_instances, which is 6, found 7",
    }
    old = parse_function(MINIMAL | {"min_instances": 3, "max_instances": 4}, kind=kind)
    assert set(mistakes(kind, old, Mode.MERGE, max_instances=2)) == {"min_instances"}


@pytest.mark.parametrize(
    "body", [{"idle_seconds": 0}, {"idle_seconds": 86401}, {"min_instances": -1}, {"max_instances": 0}, {"max_instances": 1001}]
)
def test_ranges(body: dict[str, int]) -> None:
    assert list(mistakes(Kind.FUNCTION, **body)) == list(body) == list(mistakes(Kind.SERVICE, **body))


def test_replicas_are_both_bounds() -> None:
    assert bounds_of(Kind.SERVICE, service(replicas=3).spec) == InstanceBounds(least=3, most=3)
    assert shown_bounds_of(Kind.SERVICE, service(replicas=3).spec) == counts(3, 3, 3) | {"idle_seconds": 300}
    assert shown_bounds_of(Kind.SERVICE, service().spec) == counts(1, 1, 1) | {"idle_seconds": 300}


def test_replicas_beside_other_bounds_are_refused() -> None:
    found = mistakes(Kind.SERVICE, replicas=2, min_instances=1)
    assert found == {"replicas": "sets both minimum and maximum: expected either replicas or min_instances, found both"}
    assert set(mistakes(Kind.SERVICE, service(), Mode.MERGE, replicas=1, max_instances=4)) == {"replicas"}
    assert set(mistakes(Kind.SERVICE, service(), Mode.REPLACE, replicas=3, min_instances=2, max_instances=4)) == {"replicas"}
    assert service(replicas=2, min_instances=2, max_instances=2).spec == service(replicas=2).spec


def test_a_service_with_bounds() -> None:
    assert changed(service(min_instances=0)) == counts(None, 0, 5)
    assert changed(service(max_instances=3)) == counts(None, 1, 3)
    assert changed(service(min_instances=7)) == counts(None, 7, 7)


def test_a_patch_of_one_form_replaces_the_other() -> None:
    assert changed(service(replicas=3), min_instances=0) == counts(None, 0, 3)
    assert changed(service(min_instances=2, max_instances=4), replicas=1) == counts(1, 1, 1)
    assert changed(service(min_instances=2, max_instances=4), min_instances=1) == counts(None, 1, 4)
    assert changed(service(min_instances=2, max_instances=4), min_instances=None) == counts(None, 1, 4)
    assert changed(service(min_instances=2, max_instances=4), min_instances=None, max_instances=None) == counts(1, 1, 1)
    assert changed(service(min_instances=2, max_instances=4), replicas=None) == counts(1, 1, 1)
    assert changed(service(replicas=3), replicas=None) == counts(1, 1, 1)
    assert changed(service(min_instances=2, max_instances=4), description="x") == counts(None, 2, 4)


@pytest.mark.parametrize("old", [service(replicas=3), service(min_instances=2, max_instances=4)])
def test_a_client_sends_back_what_it_read_with_one_change(old: Named) -> None:
    shown = shown_bounds_of(Kind.SERVICE, old.spec)
    assert changed(old, Mode.REPLACE, **shown) == {name: shown[name] for name in ("replicas", "min_instances", "max_instances")}
    assert changed(old, Mode.REPLACE, **(shown | {"replicas": 5})) == counts(5, 5, 5)
    assert changed(old, Mode.REPLACE, **(shown | {"max_instances": 6})) == counts(None, shown["min_instances"] or 0, 6)
