"""Asynchronous calls on a running server: kill -9, callbacks, cancelling; and jobs, contract §2."""

import hashlib
import hmac
import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from werkzeug import Request, Response
from werkzeug.datastructures import Headers

from tests.services.fake_http import serving
from tests.services.product import Product, Tenant, running_product, wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.xdist_group("async")]

HANDLER = """\
import os, time

def handle(event, context):
    if "marks" in event:
        file = os.open(event["marks"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, (str(event["n"]) + "\\n").encode())
        os.close(file)
    time.sleep(event.get("sleep", 0))
    if event.get("n", 0) % 10 == 3:
        raise ValueError("never")
    return {"n": event.get("n"), "http": context.http and context.http.path, "trigger": context.trigger}
"""
JOB = """\
import os, sys, time

def handle(event):
    time.sleep(event.get("sleep", 0))
    if "exit" in event:
        print("the last line")
        os._exit(event["exit"])
    if event.get("boom"):
        print("the last line")
        raise ValueError("boom")
    return {"event": event, "a": os.environ.get("A")}
"""


class Receiver:
    """Collects callbacks by invocation ID. Answers 500 to the first `refusals` of each call, and waits while `hold` is clear."""

    url = ""

    def __init__(self, refusals: int = 0) -> None:
        self.got: dict[str, list[dict[str, Any]]] = {}
        self.sent: dict[str, list[tuple[Headers, bytes]]] = {}
        self.refusals = refusals
        self.hold = threading.Event()
        self.hold.set()

    def answer(self, request: Request) -> Response:
        body = request.get_data()
        call = json.loads(body)
        seen = self.got.setdefault(call["id"], [])
        self.sent.setdefault(call["id"], []).append((request.headers, body))
        seen.append(call)
        number = len(seen)
        self.hold.wait(60)
        return Response(status=500 if number <= self.refusals else 204)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver(refusals=1)
    with serving(made.answer) as url:
        made.url = url + "/"
        yield made


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """One server for all tests, each with a tenant of its own; those that kill it start it again."""
    with running_product(tmp_path_factory.mktemp("async"), SLESS_OUTBOUND_ALLOW="127.0.0.0/8", SLESS_MAX_RUNS="3") as started:
        yield started


def statuses(tenant: Tenant, name: str) -> Counter[str]:
    found: Counter[str] = Counter()
    path: str | None = f"functions/{name}/invocations?limit=1000"
    while path:
        answer = tenant.get(path)
        found.update(call["status"] for call in answer.json() if call["trigger"] in ("http", "invoke"))
        link = answer.headers.get("Link")
        path = link.partition("<")[2].partition(">")[0] if link else None
        path = "/v1/" + path.partition("/v1/")[2] if path else None
    return found


def accept(tenant: Tenant, path: str, event: dict[str, Any], callback_url: str) -> str | None:
    """The call's ID, or None if the server is down. With one attempt only, as back-off would slow the test down."""
    headers = {"Prefer": "respond-async", "X-Sless-Callback-Url": callback_url, "X-Sless-Max-Attempts": "1"}
    try:
        answer = tenant.post(path, event, headers=headers)
    except requests.ConnectionError:
        return None
    if answer.status_code != 202:
        assert answer.status_code in (404, 503), answer.text  # just started, routes not loaded yet
        return None
    return str(answer.json()["id"])


@pytest.mark.parametrize("count", [150, 1000] if "TEST_SOAK_MESSAGES" in os.environ else [150])
def test_all_accepted_calls_finish_after_kill_9_of_everything(
    product: Product, tenant: Tenant, receiver: Receiver, tmp_path: Path, count: int
) -> None:
    url = tenant.deploy("f", HANDLER, concurrency=20)
    tenant.patch("triggers/f", {"callbacks": True})
    marks = tmp_path / "marks"
    accepted: list[str] = []

    def send(numbers: range) -> None:
        for number in numbers:
            event = {"n": number, "marks": str(marks), "sleep": 0.02}
            while (call_id := accept(tenant, url if number % 2 else "functions/f/invoke", event, receiver.url)) is None:
                time.sleep(0.05)
            accepted.append(call_id)

    with ThreadPoolExecutor(8) as pool:
        senders = [pool.submit(send, range(start, count, 8)) for start in range(8)]
        wait_until(lambda: len(accepted) > count // 2, "half of them are accepted", 120)
        product.kill(master=True, worker=True)
        wait_until(lambda: product.place.processes() == [], "nothing runs any more", 40)
        product.start()
        for sender in senders:
            sender.result(120)
    # A call whose 202 was lost in the kill may have been queued as well, so there may be more calls than accepted.
    wait_until(lambda: not {"queued", "running"} & statuses(tenant, "f").keys(), "all have ended", 200)
    ended = statuses(tenant, "f")
    assert set(ended) == {"succeeded", "dead"} and sum(ended.values()) >= count, ended
    assert {int(mark) for mark in marks.read_text().split()} == set(range(count)), "each ran at least once"
    for call_id in accepted[:: max(1, count // 40)]:
        found = tenant.invocation("f", call_id)
        assert len(found["attempts_detail"]) == found["attempts"] >= 1
        assert (found["status"] == "dead") == ("never" in (found["error"] or ""))
    wait_until(
        lambda: set(accepted) <= {key for key, calls in receiver.got.items() if len(calls) >= 2}, "every callback is sent twice", 200
    )
    one = receiver.got[accepted[0]][-1]
    assert one["status"] in ("succeeded", "dead") and one["finished_at"]


def test_an_interrupted_callback_is_signed_and_sent_again(product: Product, tenant: Tenant, receiver: Receiver) -> None:
    """All processes are killed when the receiver has the request but has not answered yet."""
    tenant.deploy("f", "def handle(event):\n    return {'n': event['n']}\n")
    receiver.hold.clear()
    call_id = accept(tenant, "functions/f/invoke", {"n": 1}, receiver.url)
    assert call_id is not None
    wait_until(lambda: len(receiver.got.get(call_id, ())) == 1, "the receiver has it")
    assert tenant.invocation("f", call_id)["callback"]["status"] == "pending"
    product.kill(master=True, worker=True)
    wait_until(lambda: product.place.processes() == [], "nothing runs any more", 40)
    receiver.hold.set()
    receiver.refusals = 0
    product.start()
    wait_until(lambda: len(receiver.got[call_id]) == 2, "it is sent again")
    wait_until(lambda: tenant.invocation("f", call_id)["callback"]["status"] == "delivered", "the delivery is recorded")
    first, second = receiver.got[call_id]
    assert first == second and first["result"] == '{"n": 1}'
    key = tenant.get("callback-key").json()["key"]
    for headers, body in receiver.sent[call_id]:
        signed = f"{headers['X-Sless-Timestamp']}.{receiver.url}.".encode() + body
        assert headers["X-Sless-Signature"] == "v1=" + hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()


def test_asynchronous_calls_over_fn_pass_the_request(tenant: Tenant) -> None:
    url = tenant.deploy("f", HANDLER)
    answer = tenant.post(f"{url}/a/b", {"n": 1}, headers={"Prefer": "respond-async"})
    ended = tenant.ended_call("f", answer.json()["id"])
    assert json.loads(ended["result"]) == {"n": 1, "http": "/a/b", "trigger": "http"}
    assert (ended["method"], ended["path"], ended["cold"]) == ("POST", f"{url}/a/b", False)


def test_cancel_stop_and_run_again(product: Product, tenant: Tenant) -> None:
    tenant.deploy("f", HANDLER, http=False, timeout_sec=60)
    call_id = tenant.invoke_later("f", {"n": 1, "sleep": 50})
    path = f"functions/f/invocations/{call_id}"
    wait_until(lambda: tenant.get(path).json()["status"] == "running", "it runs")
    runs = product.place.data_dir / "runs"
    assert tenant.call("DELETE", path).json()["status"] == "cancelled"
    wait_until(lambda: not [item for item in runs.rglob("*") if call_id in item.name], "its process and folder are gone")
    assert tenant.call("DELETE", path).status_code == 409
    assert tenant.post(f"{path}/retry").status_code == 202
    wait_until(lambda: tenant.get(path).json()["attempts"] == 2, "it runs again")
    assert tenant.post(f"{path}/retry").status_code == 409
    assert tenant.call("DELETE", path).status_code == 202


CRASH = """\
import os, time

def handle(event):
    if event.get("exit"):
        open(event["flag"], "w").close()
        time.sleep(0.3)
        os._exit(3)
    beside = not os.path.exists(event["flag"])
    while not os.path.exists(event["flag"]):
        time.sleep(0.01)
    time.sleep(20 if beside else 0.6)
"""


def test_a_call_that_crashes_the_instance_fails_no_other_call(tenant: Tenant, tmp_path: Path) -> None:
    """At first, the other calls run next to it and are lost with the instance."""
    flag = str(tmp_path / "flag")
    tenant.deploy("f", CRASH)
    innocent = [tenant.invoke_later("f", {"flag": flag}) for _ in range(5)]
    poison = tenant.invoke_later("f", {"flag": flag, "exit": True})
    assert tenant.ended_call("f", poison)["status"] == "dead"
    calls = [tenant.ended_call("f", call_id) for call_id in innocent]
    assert {call["status"] for call in calls} == {"succeeded"}, calls
    assert min(call["attempts"] for call in calls) > 1, calls


# --- jobs, contract §2 ---


def test_a_job_waits_for_its_build_and_reports_its_result(tenant: Tenant) -> None:
    made = tenant.create("j", "job", run_id=1, event_json={"n": 1}, env_vars={"A": "own"})
    assert made["phase"] == "Pending"
    assert tenant.upload("j", {"handler.py": JOB, "requirements.txt": ""}, "job").json()["phase"] in ("Building", "Pending")
    ended = tenant.ended_job("j")
    assert (ended["phase"], ended["exit_code"]) == ("Succeeded", 0)
    assert json.loads(ended["message"]) == json.loads(ended["result"]) == {"event": {"n": 1}, "a": "own"}
    assert ended["created_at"] <= ended["start_time"] <= ended["completion_time"] and ended["run_name"]
    # Neither an upload nor an old run_id starts a run; a higher run_id does.
    assert tenant.upload("j", JOB + "# new\n", "job").status_code == 202
    wait_until(lambda: tenant.get("jobs/j").json()["latest_state"] == "ready", "built")
    assert tenant.get("jobs/j").json()["run_name"] == ended["run_name"]
    assert tenant.patch("jobs/j", {"run_id": 0}).status_code == 409
    again = tenant.patch("jobs/j", {"run_id": 3, "event_json": '{"n": 2}'}).json()
    assert again["phase"] in ("Pending", "Running") and again["completion_time"] is None
    assert json.loads(tenant.ended_job("j")["message"])["event"] == {"n": 2}


def test_failed_jobs_show_the_reason_and_the_exit_code(tenant: Tenant) -> None:
    table: list[tuple[str, str, dict[str, Any], tuple[str, ...], int | None]] = [
        ("raises", JOB, {"event_json": {"boom": 1}}, ("boom", "the last line"), None),
        ("exits", JOB, {"event_json": {"exit": 3}}, ("function exited with code 3", "the last line"), 3),
        ("slow", JOB, {"event_json": {"sleep": 30}, "timeout_sec": 1}, ("timed out after 1 s",), None),
        ("unbuilt", "import nowhere\n\ndef handle(event):\n    return 1\n", {}, ("nowhere",), None),
    ]
    for name, code, fields, _, _ in table:
        tenant.create(name, "job", run_id=1, **fields)
        tenant.upload(name, code, "job")
    for name, _, _, expected, exit_code in table:
        ended = tenant.ended_job(name)
        assert ended["phase"] == "Failed" and all(text in ended["message"] for text in expected), ended["message"]
        assert ended["result"] is None and (exit_code is None or ended["exit_code"] == exit_code)


def test_a_job_overrides_settings_of_its_function(tenant: Tenant) -> None:
    tenant.deploy("f", JOB, http=False, env_vars={"A": "function"}, timeout_sec=40)
    body = {"name": "plain", "function_ref": "f", "run_id": 1, "event_json": {"n": 1}}
    assert tenant.post("jobs", body).status_code == 201
    assert tenant.post("jobs", body | {"name": "other", "env_vars": {"A": "job"}}).status_code == 201
    assert tenant.post("jobs", body | {"name": "slow", "event_json": {"sleep": 30}, "timeout_sec": 1}).status_code == 201
    assert json.loads(tenant.ended_job("plain")["message"])["a"] == "function"
    assert json.loads(tenant.ended_job("other")["message"])["a"] == "job"
    assert "timed out after 1 s" in tenant.ended_job("slow")["message"]


def test_jobs_respect_the_concurrency_limit_and_stop_when_deleted(product: Product, tenant: Tenant) -> None:
    tenant.deploy("f", JOB, http=False)
    names = [f"j{number}" for number in range(20)]
    for name in names:
        body = {"name": name, "function_ref": "f", "run_id": 1, "event_json": {"sleep": 0.3}}
        assert tenant.post("jobs", body).status_code == 201
    most = 0

    def all_ended() -> bool:
        nonlocal most
        phases = Counter(job["phase"] for job in tenant.get("jobs").json())
        most = max(most, phases["Running"])
        return phases["Succeeded"] == 20

    wait_until(all_ended, "all have ended", 120)
    assert most == 2  # of three slots: one is left to other tenants
    other = product.tenant("other")
    other.deploy("f", JOB, http=False)
    for number in range(5):
        tenant.post("jobs", {"name": f"hold{number}", "function_ref": "f", "run_id": 1, "event_json": {"sleep": 60}, "timeout_sec": 100})
    wait_until(lambda: sum(job["phase"] == "Running" for job in tenant.get("jobs").json()) == 2, "both of its slots are used")
    other.post("jobs", {"name": "short", "function_ref": "f", "run_id": 1, "event_json": {"sleep": 0}})
    assert other.ended_job("short", 15)["phase"] == "Succeeded"
    for number in range(5):
        assert tenant.call("DELETE", f"jobs/hold{number}").status_code == 202
    tenant.post("jobs", {"name": "long", "function_ref": "f", "run_id": 1, "event_json": {"sleep": 60}, "timeout_sec": 100})
    wait_until(lambda: tenant.get("jobs/long").json()["phase"] == "Running", "it runs")
    assert tenant.call("DELETE", "jobs/long").json()["phase"] == "Deleting"
    wait_until(lambda: tenant.get("jobs/long").status_code == 404, "it is gone", 60)
    assert tenant.post("jobs", {"name": "long", "function_ref": "f"}).status_code == 201, "its name is free again"
