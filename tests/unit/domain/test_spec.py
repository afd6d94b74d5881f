from dataclasses import replace
from typing import Any

import pytest

from sless.config import RUNTIME_NAMES
from sless.domain.model import Kind, WorkloadSpec
from sless.domain.spec import Mode, Named, SpecLimits, parse_function, run_event_of
from sless.errors import Code, Invalid, SlessError

MINIMAL = {"name": "hello", "runtime": "python3.11"}
FUNCTION = WorkloadSpec(runtime="python3.11", entrypoint="handler.handle", min_instances=0, max_instances=5)


def fields_of(body: Any, **options: Any) -> dict[str, str]:
    with pytest.raises(Invalid) as caught:
        parse_function(body, **options)
    assert caught.value.status == 400
    return {detail.field: detail.message for detail in caught.value.details}


def test_defaults() -> None:
    named = parse_function(MINIMAL)
    assert named == Named(name="hello", spec=FUNCTION)
    assert parse_function(MINIMAL | {"runtime": "go1.23"}).spec.entrypoint == "handler.Handle"
    assert parse_function(MINIMAL, kind=Kind.SERVICE).spec == replace(FUNCTION, min_instances=None, max_instances=None)


def test_aws_formats_default_to_one_call_at_a_time() -> None:
    aws = parse_function(MINIMAL | {"event_format": "aws-http-v1"})
    assert aws.spec.concurrency == 1
    assert parse_function(MINIMAL | {"event_format": "aws-http-v2", "concurrency": 8}).spec.concurrency == 8
    assert parse_function({"memory_mb": 256}, aws, Mode.MERGE).spec.concurrency == 1
    assert parse_function({"event_format": "sless"}, aws, Mode.MERGE).spec.concurrency == 50
    chosen = parse_function({"concurrency": 8}, aws, Mode.MERGE)
    assert parse_function({"event_format": "sless"}, chosen, Mode.MERGE).spec.concurrency == 8
    assert parse_function({"concurrency": None}, chosen, Mode.MERGE).spec.concurrency == 1


def test_all_errors_are_reported_at_once() -> None:
    body = {
        "name": "Hello_",
        "runtime": "python3",
        "memory": 5,
        "memory_mb": 15,
        "timeout_sec": 901,
        "concurrency": "1",
        "env_vars": {"A": 1, "B-": "x"},
        "event_format": "aws",
        "description": 7,
        "entrypoint": "handler",
    }
    found = fields_of(body)
    assert set(found) == {
        "name",
        "runtime",
        "memory",
        "memory_mb",
        "timeout_sec",
        "concurrency",
        "env_vars.A",
        "env_vars.B-",
        "event_format",
        "description",
        "entrypoint",
    }
    assert found["memory"] == 'unknown field; did you mean "memory_mb"?'
    assert found["memory_mb"] == "expected a whole number from 16 to 8192 or null, found 15"
    assert "python3.11, nodejs20, go1.23" in found["runtime"] and '"python3"' in found["runtime"]


@pytest.mark.parametrize(
    ("kind", "field", "expected"),
    [
        (Kind.FUNCTION, "replicas", "is a field of services, not of a function"),
        (Kind.SERVICE, "run_id", "is a field of jobs, not of a service"),
        (Kind.JOB, "concurrency", "is a field of functions and services, not of a job"),
        (Kind.FUNCTION, "queue", "unknown field"),
    ],
)
def test_the_error_for_another_kinds_field_says_so(kind: Kind, field: str, expected: str) -> None:
    assert fields_of(MINIMAL | {field: 1}, kind=kind)[field] == expected
    nested = fields_of(MINIMAL | {"env_vars": {"A": {"replicas": 1}}}, kind=kind)
    assert "belongs" not in str(nested)


@pytest.mark.parametrize("body", [None, [], "x", 3, True])
def test_not_an_object(body: Any) -> None:
    assert fields_of(body).keys() == {""}


@pytest.mark.parametrize("name", ["a", "a-b", "a" * 40, "a0", "a--b"])
def test_good_names(name: str) -> None:
    assert parse_function(MINIMAL | {"name": name}).name == name


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "A", "0a", "a" * 41, "a.b", "a_b", "a b", "a\n", "ä", "admin", "api", None, 5, "a/b", "a\x00"]
)
def test_bad_names(name: Any) -> None:
    assert "name" in fields_of(MINIMAL | {"name": name})


@pytest.mark.parametrize("entrypoint", ["handler.handle", "pkg/mod.fn", "pkg.mod.fn", "a-b/c_d.F1", "@scope/x.h"])
def test_good_entrypoints(entrypoint: str) -> None:
    assert parse_function(MINIMAL | {"entrypoint": entrypoint}).spec.entrypoint == entrypoint


@pytest.mark.parametrize(
    "entrypoint",
    ["handler", ".handle", "handler.", "/abs.handle", "../up.handle", "a/../b.h", "a//b.h", "a/./b.h", "a..h", "a b.h", "a.h\n", 4, "a.1h"],
)
def test_bad_entrypoints(entrypoint: Any) -> None:
    assert "entrypoint" in fields_of(MINIMAL | {"entrypoint": entrypoint})


@pytest.mark.parametrize("field", ["env_vars", "build_env", "secret_env"])
def test_environment_rules(field: str) -> None:
    values = {"A": "1", "_b": "", "SLESS_MINE": "x", "ü": "1", "1A": "x", "": "x", "B": "a\x00b", "C": None}
    assert set(fields_of(MINIMAL | {field: values})) == {f"{field}.{name}" for name in ("ü", "1A", "", "B", "C")}
    for name in RUNTIME_NAMES:
        found = fields_of(MINIMAL | {field: {f"SLESS_{name}": "x"}})
        assert set(found) == {f"{field}.SLESS_{name}"} and "reserved" in found[f"{field}.SLESS_{name}"]


def test_reserved_variables_may_have_the_value_that_the_runtime_sets() -> None:
    env = {
        "SLESS_FUNCTION_NAME": "hello", "SLESS_ENTRYPOINT": "handler.handle", "SLESS_MEMORY_MB": "128", "SLESS_TIMEOUT_SEC": "30",
        "SLESS_CONCURRENCY": "50", "SLESS_EVENT_FORMAT": "sless",
    }  # fmt: skip
    named = parse_function(MINIMAL | {"env_vars": env})
    assert named.spec.env_vars == env
    wrong = fields_of({"env_vars": env, "memory_mb": 256}, existing=named, mode=Mode.MERGE)
    assert wrong == {"env_vars.SLESS_MEMORY_MB": 'is reserved; the runtime sets it to "256"'}
    assert parse_function({"memory_mb": 256}, named, Mode.MERGE).spec.memory_mb == 256


def test_error_messages_hide_secret_values() -> None:
    for field in ("secret_env", "build_env"):
        assert "hunter2" not in str(fields_of(MINIMAL | {field: {"A": ["hunter2"], "B": "hunter2\x00"}}))
        assert "hunter2" not in str(fields_of(MINIMAL | {field: "hunter2"}))


def test_an_environment_over_its_limit_is_413() -> None:
    limits = SpecLimits(env_bytes=10)
    parse_function(MINIMAL | {"env_vars": {"A": "é" * 4}}, limits=limits)
    with pytest.raises(SlessError) as caught:
        parse_function(MINIMAL | {"env_vars": {"A": "é" * 5}}, limits=limits)
    assert caught.value.code is Code.TOO_LARGE and "env_vars" in caught.value.message and "10 bytes" in caught.value.message


@pytest.mark.parametrize("field", ["env_vars", "secret_env", "build_env"])
def test_half_a_surrogate_pair_is_named(field: str) -> None:
    with pytest.raises(Invalid) as caught:
        parse_function(MINIMAL | {field: {"A": "x\ud800"}})
    (detail,) = caught.value.details
    assert (detail.field, detail.message) == (f"{field}.A", "expected Unicode text, found half a surrogate pair at character 2")


def test_read_only_fields_are_ignored_but_unknown_ones_refused() -> None:
    body = MINIMAL | {"phase": "Ready", "status": 1, "url": None, "active_version": 3, "created_at": [], "kind": "x", "namespace": "other"}
    assert parse_function(body) == parse_function(MINIMAL)
    assert "invoke_url" in fields_of(MINIMAL | {"replicas": 1, "invoke_url": 1}) or "replicas" in fields_of(MINIMAL | {"replicas": 1})


def test_merge_changes_only_given_fields_and_null_restores_the_default() -> None:
    old = parse_function(
        MINIMAL | {"memory_mb": 256, "env_vars": {"A": "1"}, "secret_env": {"S": "1"}, "entrypoint": "app.run", "description": "d"}
    )
    merged = parse_function({"timeout_sec": 5, "memory_mb": None}, old, Mode.MERGE)
    assert merged.spec == replace(old.spec, timeout_sec=5, memory_mb=128)
    cleared = parse_function({"entrypoint": None, "env_vars": None, "secret_env": None, "description": None}, old, Mode.MERGE)
    assert cleared.spec == replace(old.spec, entrypoint="handler.handle", env_vars={}, secret_env={}, description="")
    assert parse_function({"env_vars": {"B": "2"}}, old, Mode.MERGE).spec.env_vars == {"B": "2"}
    assert "runtime" in fields_of({"runtime": None}, existing=old, mode=Mode.MERGE)
    assert parse_function({}, old, Mode.MERGE) == old


def test_the_default_entrypoint_follows_the_runtime() -> None:
    old = parse_function(MINIMAL)
    assert parse_function({"runtime": "go1.23"}, old, Mode.MERGE).spec.entrypoint == "handler.Handle"
    own = parse_function(MINIMAL | {"entrypoint": "app.run"})
    assert parse_function({"runtime": "go1.23"}, own, Mode.MERGE).spec.entrypoint == "app.run"


def test_replace_needs_required_fields_and_keeps_write_only_ones() -> None:
    old = parse_function(MINIMAL | {"memory_mb": 256, "secret_env": {"S": "1"}, "build_env": {"B": "1"}})
    assert "runtime" in fields_of({"memory_mb": 64}, existing=old, mode=Mode.REPLACE)
    replaced = parse_function({"runtime": "nodejs20"}, old, Mode.REPLACE).spec
    assert replaced == replace(FUNCTION, runtime="nodejs20", secret_env={"S": "1"}, build_env={"B": "1"})
    assert parse_function({"runtime": "nodejs20", "secret_env": None}, old, Mode.REPLACE).spec.secret_env == {}


def test_a_name_cannot_be_changed() -> None:
    old = parse_function(MINIMAL)
    assert parse_function({"name": "hello"}, old, Mode.MERGE) == old
    assert "cannot be changed" in fields_of({"name": "other"}, existing=old, mode=Mode.MERGE)["name"]


def test_service() -> None:
    def spec(**more: Any) -> WorkloadSpec:
        return parse_function(MINIMAL | more, kind=Kind.SERVICE).spec

    assert spec(timeout_sec=None).timeout_sec == 0 and spec(timeout_sec=0).timeout_sec == 0
    assert spec(replicas=0).replicas == 0 and spec(replicas=None).replicas == 1 and spec(replicas=2.0).replicas == 2
    assert isinstance(spec(replicas=2.0).replicas, int)
    assert "replicas" in fields_of(MINIMAL | {"replicas": 21}, kind=Kind.SERVICE)
    assert "replicas" in fields_of(MINIMAL | {"replicas": 1}, kind=Kind.FUNCTION)
    assert "timeout_sec" in fields_of(MINIMAL | {"timeout_sec": 901})


def job(**fields: Any) -> WorkloadSpec:
    return parse_function({"name": "j"} | fields, kind=Kind.JOB).spec


def test_a_job_has_its_own_code_or_a_functions() -> None:
    assert job(runtime="python3.11").entrypoint == "handler.handle"
    assert job(function_ref="f").runtime is None and job(function_ref="f").entrypoint is None
    assert "runtime" in fields_of({"name": "j"}, kind=Kind.JOB)
    assert "function_ref" in fields_of({"name": "j", "runtime": "go1.23", "function_ref": "f"}, kind=Kind.JOB)
    assert "entrypoint" in fields_of({"name": "j", "entrypoint": "a.b", "function_ref": "f"}, kind=Kind.JOB)
    own = Named(name="j", spec=job(runtime="python3.11"))
    assert "function_ref" in fields_of({"function_ref": "f"}, existing=own, mode=Mode.MERGE, kind=Kind.JOB)
    switched = parse_function({"function_ref": "f", "runtime": None}, own, Mode.MERGE, kind=Kind.JOB).spec
    assert switched.function_ref == "f" and switched.runtime is None and switched.entrypoint is None


def test_job_overrides_are_remembered() -> None:
    spec = job(function_ref="f", memory_mb=64, timeout_sec=None)
    assert spec.set_fields == ("memory_mb",)
    old = Named(name="j", spec=spec)
    assert parse_function({"timeout_sec": 9}, old, Mode.MERGE, kind=Kind.JOB).spec.set_fields == ("memory_mb", "timeout_sec")
    assert parse_function({"memory_mb": None}, old, Mode.MERGE, kind=Kind.JOB).spec.set_fields == ()
    assert job(runtime="go1.23", memory_mb=64).set_fields == ()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("plain", "plain"),
        ({"a": "é"}, '{"a": "é"}'),
        ([1], "[1]"),
        (0, "0"),
        (False, "false"),
        (None, "{}"),
        ("", ""),
    ],
)
def test_event_json_is_kept_as_text(value: Any, text: str) -> None:
    assert job(runtime="python3.11", event_json=value).event_json == text
    assert job(runtime="python3.11").event_json == "{}"


def test_event_json_over_its_limit() -> None:
    job(runtime="python3.11", event_json="x" * 256 * 1024)
    with pytest.raises(SlessError) as caught:
        job(runtime="python3.11", event_json=["x" * 256 * 1024])
    assert caught.value.code is Code.TOO_LARGE and "event_json" in caught.value.message


@pytest.mark.parametrize("run_id", [-1, 1.5, "1", True, 2**31])
def test_bad_run_ids(run_id: Any) -> None:
    assert "run_id" in fields_of({"name": "j", "runtime": "go1.23", "run_id": run_id}, kind=Kind.JOB)


@pytest.mark.parametrize(
    ("text", "event"),
    [
        ('{"a": 1}', '{"a": 1}'),
        ("5", "5"),
        ('"x"', '"x"'),
        ("", "{}"),
        (" ", "{}"),
        ("plain", '{"body": "plain"}'),
        ("[1", '{"body": "[1"}'),
    ],
)
def test_the_event_of_a_run_is_json(text: str, event: str) -> None:
    assert run_event_of(text) == event


@pytest.mark.parametrize("kind", [Kind.FUNCTION, Kind.SERVICE, Kind.JOB])
def test_zero_values_of_older_clients_are_the_defaults(kind: Kind) -> None:
    zero: dict[str, Any] = {"memory_mb": 0, "entrypoint": ""} | ({"timeout_sec": 0} if kind is Kind.FUNCTION else {})
    spec = parse_function(MINIMAL | zero, kind=kind).spec
    assert (spec.memory_mb, spec.timeout_sec, spec.entrypoint) == (128, 30, "handler.handle")
    existing = parse_function(MINIMAL | {"memory_mb": 512, "entrypoint": "a.b"}, kind=kind)
    assert parse_function(zero, existing, Mode.MERGE, kind=kind).spec.memory_mb == 128


@pytest.mark.parametrize("value", [1, 15, 8193, -1, False])
def test_other_small_values_are_refused(value: Any) -> None:
    assert "from 16 to 8192" in fields_of(MINIMAL | {"memory_mb": value})["memory_mb"]
