"""Objects and code of the earlier operator, as this interface has them."""

import io
import tarfile
import zipfile

import pytest

from sless.code.earlier import zip_of_context
from sless.domain.earlier import order_of, plan_of
from sless.errors import SlessError

NAMESPACE = "sless-0123456789abcdef"


def item(kind, name="x", namespace=NAMESPACE, annotations=None, **spec):
    return {"kind": kind, "metadata": {"name": name, "namespace": namespace, "annotations": annotations}, "spec": spec}


def test_fields_of_a_function():
    plan = plan_of(
        item("Function", runtime="python3.11", entrypoint="m.f", s3Bucket="b", s3Key="k", memoryMB=64, timeoutSec=9, env={"A": 1})
    )  # fmt: skip
    expected = {"name": "x", "runtime": "python3.11", "entrypoint": "m.f", "env_vars": {"A": "1"}, "memory_mb": 64, "timeout_sec": 9}
    assert (plan.kind, plan.body, plan.code, plan.problem, plan.notes) == ("function", expected, ("b", "k"), "", ())


def test_a_service_without_a_limit_and_code_that_was_not_built():
    plan = plan_of(item("Service", runtime="go1.23", s3Key="new", annotations={"sless.kube5s.ru/last-built-s3key": "old"}, timeoutSec=0))
    assert plan.body["timeout_sec"] == 0 and "entrypoint" not in plan.body
    assert "new had not been built" in plan.notes[0]


def test_the_entrypoint_of_node_functions_was_ignored():
    plan = plan_of(item("Function", runtime="nodejs20", entrypoint="index.main", s3Key="k"))
    assert plan.body["entrypoint"] == "handler.main" and "was ignored" in plan.notes[0]
    assert plan_of(item("Function", runtime="nodejs20", entrypoint="handler.run", s3Key="k")).notes == ()


def test_a_job_keeps_its_number_and_result():
    job = item("FunctionJob", runtime="python3.11", s3Key="k", runId=4, eventJson="{}") | {"status": {"phase": "Succeeded", "message": "1"}}
    plan = plan_of(job)
    assert (plan.run_id, plan.result, plan.body["event_json"], "run_id" in plan.body) == (4, "1", "{}", False)
    assert plan_of(job | {"status": {"phase": "Failed", "message": "boom"}}).result is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (item("Function", runtime="ruby"), 'runtime "ruby"'),
        (item("Function", namespace="team", runtime="python3.11"), "namespace team"),
        (item("Trigger", type="mqtt"), 'type "mqtt"'),
        (item("Function", runtime="python3.11", memoryMB="256Mi"), "a field of spec has another type: invalid literal"),
        (item("Service", runtime="python3.11", env=[{"name": "A", "value": 1}, 3]), "a field of spec has another type"),
        (item("Trigger", type="cron", schedule="* * * * *", preWarmSeconds=[]), "a field of spec has another type"),
    ],
)
def test_objects_that_cannot_be_imported_have_the_reason(given, problem):
    assert problem in plan_of(given).problem


def test_triggers_come_last():
    plans = [plan_of(item("Trigger", "a", type="http", functionRef="x")), plan_of(item("Function", "x", runtime="python3.11"))]
    assert [plan.kind for plan in sorted(plans, key=order_of)] == ["function", "trigger"]


def test_the_operators_own_files_are_left_out():
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as archive:
        for name, mode in (
            ("./handler.py", 0o644),
            ("./run.sh", 0o755),
            ("./Dockerfile", 0o644),
            ("./server.js", 0o644),
            ("./lib/server.js", 0o644),
        ):
            info = tarfile.TarInfo(name)
            info.mode, info.size = mode, 1
            archive.addfile(info, io.BytesIO(b"x"))
    with zipfile.ZipFile(io.BytesIO(zip_of_context(target.getvalue()))) as made:
        assert made.namelist() == ["handler.py", "run.sh", "lib/server.js"]
        assert made.getinfo("run.sh").external_attr >> 16 & 0o111


def test_a_plain_zip_stays_and_anything_else_is_refused():
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("handler.py", "x")
    assert zip_of_context(target.getvalue()) == target.getvalue()
    for bad in (b"", b"text", b"\x1f\x8b\x08\x00broken"):
        with pytest.raises(SlessError):
            zip_of_context(bad)
