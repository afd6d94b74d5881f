"""Jobs over REST: run_id starts runs, an upload does not."""

from dataclasses import replace

from sless.domain.model import CallStatus, Kind, Run, VersionState
from tests.contract.rest_harness import Rest, fields_of
from tests.contract.store_steps import claim_run

OWN = {"name": "job", "runtime": "python3.11"}


def runs_of(rest: Rest, name: str = "job") -> list[Run]:
    job = rest.store.workloads.get(rest.namespace, Kind.JOB, name)
    due = rest.store.runs.list_due(job.created_at.replace(year=2999), 100)
    return [rest.store.runs.get(run.id) for run in due if run.workload_id == job.id]


def end(rest: Rest, status: CallStatus, **more: object) -> None:
    run = runs_of(rest)[0]
    assert claim_run(rest.store, run.id, "runner")
    assert rest.store.runs.finish(run.id, status=status, **({"result": None, "message": "", "exit_code": None, "http_status": None} | more))  # type: ignore[arg-type]


def test_run_id_0_is_skipped_and_an_upload_starts_no_run(rest: Rest) -> None:
    body = rest.post("jobs", OWN).json
    assert (body["phase"], body["run_id"], body["event_json"], body["timeout_sec"]) == ("Skipped", 0, "{}", 30)
    rest.built("job", "job")
    assert runs_of(rest) == [] and rest.get("jobs/job").json["phase"] == "Skipped"


def test_a_job_created_with_a_run_id_runs_once_it_has_code(rest: Rest) -> None:
    body = rest.post("jobs", OWN | {"run_id": 1, "event_json": {"a": 1}}).json
    assert body["phase"] == "Pending" and body["event_json"] == '{"a": 1}'
    assert [(run.job_run_id, run.event) for run in runs_of(rest)] == [(1, '{"a": 1}')]
    rest.upload("job", "job")
    assert rest.get("jobs/job").json["phase"] == "Building"
    rest.finish("job", "job")
    assert len(runs_of(rest)) == 1 and "runs" in rest.waker.topics


def test_source_versions_and_calls_of_a_job(rest: Rest) -> None:
    rest.post("jobs", OWN | {"run_id": 1})
    rest.built("job", "job")
    assert list(rest.get("jobs/job/source").json["files"]) == ["handler.py"]
    assert [(item["version"], item["state"]) for item in rest.get("jobs/job/versions").json] == [(1, "ready")]
    assert rest.get("jobs/job/versions/1").json["build_log"] == ""
    assert rest.post("jobs/job/versions/1/cancel").status_code == 409
    (call,) = rest.get("jobs/job/invocations").json
    assert (call["trigger"], rest.get(f"jobs/job/invocations/{call['id']}").json["id"]) == ("job", call["id"])
    assert rest.post("jobs/job/versions/1/activate").status_code == 404


def test_run_id_can_be_raised_or_kept_but_not_lowered(rest: Rest) -> None:
    rest.post("jobs", OWN | {"run_id": 2})
    rest.built("job", "job")
    assert rest.patch("jobs/job", {"run_id": 2, "memory_mb": 64}).status_code == 200 and len(runs_of(rest)) == 1
    for lower in (1, 0, None):
        response = rest.patch("jobs/job", {"run_id": lower})
        assert response.status_code == 409 and response.json["details"][0]["field"] == "run_id"
    assert rest.get("jobs/job").json["run_id"] == 2
    assert rest.patch("jobs/job", {"run_id": 5}).json["run_id"] == 5
    assert sorted(run.job_run_id or 0 for run in runs_of(rest)) == [2, 5]


def test_the_outcome_of_a_run(rest: Rest) -> None:
    rest.post("jobs", OWN | {"run_id": 1})
    rest.built("job", "job")
    end(rest, CallStatus.SUCCEEDED, result='{"n": 1}', exit_code=0)
    body = rest.get("jobs/job").json
    assert (body["phase"], body["message"], body["result"], body["exit_code"]) == ("Succeeded", '{"n": 1}', '{"n": 1}', 0)
    assert body["run_name"] and body["start_time"] and body["completion_time"]
    rest.patch("jobs/job", {"run_id": 2})
    body = rest.get("jobs/job").json
    assert (body["phase"], body["result"], body["completion_time"]) == ("Pending", None, None)
    end(rest, CallStatus.FAILED, message="function exited with code 3", exit_code=3)
    body = rest.get("jobs/job").json
    assert (body["phase"], body["message"], body["exit_code"]) == ("Failed", "function exited with code 3", 3)
    # Only the run failed, the code works: so the job is not replaced.
    assert rest.post("jobs", OWN).status_code == 409


def test_a_run_lost_in_a_crash_is_created_by_the_next_patch(rest: Rest) -> None:
    rest.post("jobs", OWN)
    job = rest.store.workloads.get(rest.namespace, Kind.JOB, "job")
    rest.store.workloads.update_spec(job.id, replace(job.spec, run_id=1))
    assert runs_of(rest) == []
    rest.patch("jobs/job", {"run_id": 1})
    assert len(runs_of(rest)) == 1


def test_function_ref(rest: Rest) -> None:
    body = rest.post("jobs", {"name": "job", "function_ref": "hello", "memory_mb": 64, "run_id": 1}).json
    assert (body["function_ref"], body["memory_mb"], body["timeout_sec"], body["runtime"]) == ("hello", 64, None, None)
    assert body["phase"] == "Pending" and "hello" in body["message"]
    rest.function()
    rest.built()
    assert rest.get("jobs/job").json["phase"] == "Pending"
    end(rest, CallStatus.SUCCEEDED, result="1")
    assert [item["phase"] for item in rest.get("jobs").json] == ["Succeeded"]


def test_invalid_requests(rest: Rest) -> None:
    assert fields_of(rest.post("jobs", {"name": "job"})) == {"runtime"}
    assert fields_of(rest.post("jobs", OWN | {"function_ref": "x"})) == {"function_ref"}
    assert fields_of(rest.post("jobs", OWN | {"run_id": -1, "timeout_sec": 3601, "concurrency": 1})) == {
        "run_id",
        "timeout_sec",
        "concurrency",
    }
    response = rest.post("jobs", OWN | {"event_json": "x" * (256 * 1024 + 1)})
    assert response.status_code == 413 and "event_json" in response.json["error"]
    assert rest.put("jobs/job", OWN).status_code == 405


def test_replace_a_job_that_never_worked(rest: Rest) -> None:
    rest.post("jobs", OWN | {"run_id": 1})
    rest.built("job", "job", state=VersionState.FAILED, message="no module")
    assert rest.get("jobs/job").json["phase"] == "Failed"
    response = rest.post("jobs", OWN | {"run_id": 1, "memory_mb": 64})
    assert response.status_code == 201 and response.json["phase"] == "Pending" and len(runs_of(rest)) == 1


def test_delete(rest: Rest) -> None:
    rest.post("jobs", OWN)
    etag = rest.get("jobs/job").headers["ETag"]
    rest.patch("jobs/job", {"memory_mb": 64})
    assert rest.delete("jobs/job", headers={"If-Match": etag}).status_code == 412
    assert rest.delete("jobs/job").json["phase"] == "Deleting" and rest.get("jobs/job").json["phase"] == "Deleting"
    rest.gone("job", "job")
    assert rest.get("jobs/job").status_code == 404


def test_a_read_job_can_be_sent_back(rest: Rest) -> None:
    for body in (OWN, {"name": "ref", "function_ref": "x"}):
        rest.post("jobs", body)
        read = rest.get(f"jobs/{body['name']}").json
        assert rest.patch(f"jobs/{body['name']}", read).json == read


def test_updated_at_changes_with_builds_and_runs(rest: Rest) -> None:
    def updated_at(path: str) -> str:
        return str(rest.get(path).json["updated_at"])

    rest.function()
    moments = [updated_at("functions/hello")]
    rest.built(state=VersionState.FAILED, message="no module x")
    moments.append(updated_at("functions/hello"))
    assert moments[0] < moments[1]
    rest.post("jobs", {"name": "job", "runtime": "python3.11", "run_id": 1})
    rest.built("job", "job")
    moments = [updated_at("jobs/job")]
    job = rest.store.workloads.get(rest.namespace, Kind.JOB, "job")
    run = rest.store.runs.newest_of([job.id])[job.id]
    claim_run(rest.store, run.id, "h")
    moments.append(updated_at("jobs/job"))
    rest.store.runs.finish(run.id, status=CallStatus.SUCCEEDED)
    moments.append(updated_at("jobs/job"))
    assert moments[0] < moments[1] < moments[2]
