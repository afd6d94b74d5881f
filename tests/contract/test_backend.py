"""The suite of ports.Backend, for every implementation."""

import contextlib
import http.client
import json
import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from sless.domain.model import CallStatus, CallTrigger, Kind
from sless.domain.ports import BackendUnavailable, RunSpec
from tests.contract.backend_harness import BackendHarness, LocalHarness, wait_until
from tests.contract.kube_harness import KubeHarness, real_harness
from tests.kube import real

HELLO = "def handle(event):\n    return {'hello': event}\n"
WHO = "import os\ndef handle(event):\n    return os.getpid()\n"


@pytest.fixture(params=["local", "stand-in", *(["cluster"] if real.is_given() else [])])
def harness(request: pytest.FixtureRequest) -> Iterator[BackendHarness]:
    """Local processes, pods of the stand-in cluster, pods of a real cluster."""
    harness: Any
    match request.param:
        case "local":
            harness = LocalHarness()
        case "stand-in":
            harness = KubeHarness(kubeconfig=request.getfixturevalue("kube_cluster").kubeconfig)
        case _:
            harness = real_harness()
    yield harness
    harness.close()


here = pytest.mark.parametrize("harness", ["local"], indirect=True)
"""Tests of this machine's own processes and files, or of their timing."""


# --- deployed instances ---------------------------------------------------------------------------------------------------------------


def test_a_deployment_becomes_callable(harness):
    revision = harness.python(HELLO, version=7)
    (endpoint,) = harness.deploy(revision, generation=3)
    assert (endpoint.workload_id, endpoint.version, endpoint.draining) == (revision.workload_id, 7, False)
    assert harness.call(endpoint, "/x?a=1") == {"hello": {"a": "1"}}
    seen = harness.observed(revision)
    assert (seen.generation, seen.message, seen.failing) == (3, "", False)


def test_changes_are_announced(harness):
    harness.apply(harness.python(HELLO))
    assert harness.changes.acquire(timeout=10)


def test_replicas_scale_up_and_down(harness):
    # In a cluster, processes of different pods have the same pids.
    revision = harness.python("import os, socket\ndef handle(event):\n    return [socket.gethostname(), os.getpid()]\n")
    assert len({tuple(harness.call(one)) for one in harness.deploy(revision, replicas=3)}) == 3
    harness.apply(revision, replicas=1, generation=2)
    wait_until(lambda: len(harness.observed(revision).endpoints) == 1, "two gone")
    assert harness.observed(revision).generation == 2


def test_an_unchanged_revision_is_not_rolled_out_again(harness):
    revision = harness.python(WHO)
    before = harness.deploy(revision)
    after = harness.deploy(revision, generation=2)
    assert before == after


def test_a_new_revision_replaces_the_old_one_without_a_gap(harness):
    revision = harness.python(HELLO)
    harness.deploy(revision)
    newer = replace(revision, version=2, code_key=harness.code.add({"handler.py": "def handle(event):\n    return ['new']\n"}))
    harness.apply(newer, generation=2)
    seen: list[tuple[int, ...]] = []

    def only_new() -> bool:
        observed = harness.observed(revision)
        if observed.generation == 2:  # shown as ready: calls must no longer reach the old version
            assert {one.version for one in observed.endpoints if not one.draining} == {2}
        endpoints = harness.endpoints(revision)
        seen.append(tuple(one.version for one in endpoints))
        for endpoint in harness.observed(revision).endpoints:
            if endpoint.version == 2:
                assert harness.call(endpoint) == ["new"]
        return seen[-1] == (2,)

    wait_until(only_new, "version 2 alone")
    assert all(seen), "there was a moment without an instance"


def test_a_draining_instance_still_answers(harness):
    revision = harness.python(HELLO)
    (endpoint,) = harness.deploy(revision)
    began = time.monotonic()
    harness.backend.remove(revision.workload_id)
    wait_until(lambda: (seen := harness.observed(revision)) and seen.endpoints and seen.endpoints[0].draining, "draining")
    assert harness.call(endpoint) == {"hello": {}}
    wait_until(lambda: harness.observed(revision) is None, "gone")
    assert time.monotonic() - began >= 1.4


def test_draining_waits_for_running_calls(harness):
    revision = harness.python("import time\ndef handle(event):\n    time.sleep(3)\n    return ['done']\n")
    (endpoint,) = harness.deploy(revision)
    answers = []
    caller = threading.Thread(target=lambda: answers.append(harness.call(endpoint)))
    caller.start()
    wait_until(lambda: harness.call(endpoint, "/_sless/health", X_Sless_Control="1")["active"] == 1, "the call runs")
    harness.backend.remove(revision.workload_id)
    caller.join()
    assert answers == [["done"]]


def test_removing_an_unknown_workload_is_not_an_error(harness):
    harness.backend.remove("unknown")


def test_a_crash_is_explained_and_the_instance_restarted(harness):
    revision = harness.python("import os\ndef handle(event):\n    os._exit(3)\n")
    (endpoint,) = harness.deploy(revision)
    with pytest.raises((http.client.HTTPException, OSError)):
        harness.call(endpoint)
    wait_until(lambda: harness.backend.why_gone(endpoint.id), "the reason")
    assert harness.backend.why_gone(endpoint.id) == "function exited with code 3"
    (successor,) = wait_until(
        lambda: [one for one in harness.endpoints(revision) if one.id != endpoint.id], "a new instance", harness.noticed_sec
    )
    assert harness.backend.why_gone(successor.id) is None


@here
def test_an_instance_that_has_served_is_replaced_without_backoff(harness):
    revision = harness.python("import os\ndef handle(event):\n    os._exit(3)\n")
    (endpoint,) = harness.deploy(revision)
    began = time.monotonic()
    for _ in range(5):
        with pytest.raises((http.client.HTTPException, OSError)):
            harness.call(endpoint)
        gone = endpoint.id
        (endpoint,) = wait_until(lambda gone=gone: [one for one in harness.endpoints(revision) if one.id != gone], "a new instance")
    assert time.monotonic() - began < 10, "with a back-off: 0 + 2 + 4 + 8 + 16 s"


def test_a_signal_is_named(harness):
    revision = harness.python("import os, signal, time\ndef handle(event):\n    os.kill(os.getpid(), signal.SIGSEGV)\n    time.sleep(9)\n")
    (endpoint,) = harness.deploy(revision)
    with pytest.raises((http.client.HTTPException, OSError)):
        harness.call(endpoint)
    reason = wait_until(lambda: harness.backend.why_gone(endpoint.id), "the reason")
    assert reason == "function was ended by SIGSEGV (segmentation fault)"


def test_the_message_has_the_crash_report_of_the_process(harness):
    """A panic in a goroutine, a fatal error of an interpreter."""
    (endpoint,) = harness.deploy(harness.python("import os\ndef handle(event):\n    os.abort()\n"))
    with pytest.raises((http.client.HTTPException, OSError)):
        harness.call(endpoint)
    reason = wait_until(lambda: harness.backend.why_gone(endpoint.id), "the reason")
    assert reason == "function was ended by SIGABRT (aborted): Fatal Python error: Aborted"


def test_code_that_cannot_start_is_failing_with_the_reason(harness):
    revision = harness.python("raise RuntimeError('no such luck')\n")
    harness.apply(revision)
    seen = harness.wait_failing(revision, "RuntimeError")
    assert seen.generation == 0 and seen.endpoints == ()
    assert seen.message.startswith("function exited with code 1\n")
    assert "RuntimeError: no such luck" in seen.message


def test_a_new_revision_that_cannot_start_leaves_the_old_one_serving(harness):
    revision = harness.python(HELLO)
    (endpoint,) = harness.deploy(revision)
    harness.apply(replace(revision, version=2, code_key=harness.code.add({"handler.py": "1 / 0\n"})), generation=2)
    harness.wait_failing(revision)
    assert harness.endpoints(revision) == [endpoint]
    assert harness.observed(revision).generation == 1
    harness.deploy(replace(revision, version=3), generation=3)


def test_missing_code_is_reported(harness):
    revision = replace(harness.python(HELLO), code_key="ns/gone.zip")
    harness.apply(revision)
    seen = harness.wait_failing(revision)
    assert 'code "ns/gone.zip" not found' in seen.message


def test_a_program_that_was_never_compiled_is_reported(harness):
    revision = replace(harness.python(HELLO), runtime="go1.23")
    harness.apply(revision)
    seen = harness.wait_failing(revision)
    assert seen.message == "this version has not been compiled for go1.23: upload it again"


def test_an_instance_over_its_memory_limit_is_killed_with_the_reason(harness):
    revision = harness.python("import time\ndef handle(event):\n    x = b'x' * 2**20 * 200\n    time.sleep(10)\n", memory_mb=64)
    (endpoint,) = harness.deploy(revision)
    with pytest.raises((http.client.HTTPException, OSError)):
        harness.call(endpoint)
    reason = wait_until(lambda: harness.backend.why_gone(endpoint.id), "the reason")
    # A cluster does not report how much memory was used.
    found = re.fullmatch(r"out of memory: (?:used (\d+)|over the limit) of 64 MB", reason)
    assert found and (found[1] is None or 64 < int(found[1]) < 300)
    assert (found[1] is not None) == (harness.name == "local")


def test_garbage_is_collected_before_it_exceeds_the_memory_limit(harness):
    # At most about 60 MB are live; without a limit V8 lets garbage grow to another 160 MB.
    source = """
    exports.handle = async () => {
      let kept = [];
      for (let round = 0; round < 6000; round += 1) {
        const object = {};
        for (let i = 0; i < 400; i += 1) object[`k${i}`] = { i, text: `x${round}-${i}`, pair: [i, round] };
        kept.push(object);
        if (kept.length > 400) kept = kept.slice(200);
        if (round % 100 === 0) await new Promise(setImmediate);
      }
      return ["done"];
    };
    """
    revision = harness.revision({"handler.js": source}, runtime="nodejs20", memory_mb=128)
    (endpoint,) = harness.deploy(revision)
    assert harness.call(endpoint, timeout_sec=90) == ["done"]
    assert harness.backend.why_gone(endpoint.id) is None


def test_memory_of_child_processes_counts(harness):
    source = (
        "import subprocess, sys\n"
        "def handle(event):\n"
        "    subprocess.run([sys.executable, '-c', 'import time; x = b\"x\" * 2**20 * 200; time.sleep(20)'])\n"
    )
    (endpoint,) = harness.deploy(harness.python(source, memory_mb=64))
    with pytest.raises((http.client.HTTPException, OSError)):
        harness.call(endpoint)
    assert wait_until(lambda: harness.backend.why_gone(endpoint.id), "the reason").startswith("out of memory: ")


def test_an_unresponsive_instance_is_replaced_before_it_is_stopped(harness):
    revision = harness.python("import time\ndef handle(event):\n    time.sleep(60)\n", timeout_sec=1)
    (endpoint,) = harness.deploy(revision)
    with pytest.raises((http.client.HTTPException, OSError)):
        harness.call(endpoint, timeout_sec=1, X_Sless_Timeout_Ms="200")
    harness.backend.report_unresponsive(endpoint.id)
    wait_until(lambda: endpoint.id not in {one.id for one in harness.endpoints(revision)}, "the unresponsive one left")
    if harness.name == "local":
        assert len(harness.endpoints(revision)) == 1
    wait_until(lambda: len(harness.endpoints(revision)) == 1, "its successor")
    wait_until(lambda: harness.backend.why_gone(endpoint.id), "ended")


def test_a_hanging_instance_is_replaced(harness):
    never_ends = "import re\ndef handle(event):\n    re.match('(a+)+$', 'a' * 60 + 'b')\n"  # and never releases the GIL
    revision = harness.python(never_ends)
    (endpoint,) = harness.deploy(revision)
    threading.Thread(target=_call_in_vain, args=(harness, endpoint), daemon=True).start()
    wait_until(lambda: not _answers(harness, endpoint), "it hangs")
    harness.backend.report_unresponsive(endpoint.id)
    reason = wait_until(lambda: harness.backend.why_gone(endpoint.id), "ended")
    assert reason == "instance stopped answering and was replaced"
    assert len(harness.endpoints(revision)) == 1


def test_a_false_alarm_replaces_nothing(harness):
    revision = harness.python(HELLO)
    (endpoint,) = harness.deploy(revision)
    harness.backend.report_unresponsive(endpoint.id)
    time.sleep(2.5)
    assert harness.endpoints(revision) == [endpoint]


def test_the_environment_has_the_users_variables_and_none_of_the_servers(harness, monkeypatch):
    monkeypatch.setenv("SERVER_SECRET", "42")
    revision = harness.python("import os\ndef handle(event):\n    return dict(os.environ)\n", env={"GREETING": "hi"})
    (endpoint,) = harness.deploy(revision)
    environment = harness.call(endpoint)
    assert environment["GREETING"] == "hi"
    assert environment["SLESS_FUNCTION_NAME"] == "hello"
    # A pod also has the API server's address and its image's variables.
    own = {name for name in environment if not name.startswith(("SLESS_", "KUBERNETES_"))}
    assert own <= {"GREETING", "PATH", "LANG", "HOME", "TMPDIR", "LC_CTYPE", *harness.image_env}
    assert environment["SLESS_ENTRYPOINT"] == "handler.handle" and "SLESS_SOCKET" not in environment and "SLESS_PORT" not in environment


@here
def test_each_instance_has_its_own_home_and_temporary_folder(harness):
    (endpoint,) = harness.deploy(harness.python("import os\ndef handle(event):\n    return dict(os.environ)\n"))
    environment = harness.call(endpoint)
    for name in ("HOME", "TMPDIR"):
        assert environment[name].startswith(str(harness.root)) and os.stat(environment[name]).st_mode & 0o777 == 0o700


@here
def test_log_lines_reach_the_sink(harness):
    revision = harness.python("import sys\nsys.stderr.write('loud\\n')\ndef handle(event):\n    return 1\n")
    (endpoint,) = harness.deploy(revision)
    line = wait_until(lambda: harness.lines and harness.lines[0], "a line")
    assert (line.source_id, line.workload_id, line.stream, line.text) == (endpoint.id, revision.workload_id, "stderr", "loud")


# --- runs -----------------------------------------------------------------------------------------------------------------------------


def test_a_run_returns_its_result(harness):
    revision = harness.python("def handle(event):\n    print('working')\n    return {'got': event}\n", kind=Kind.JOB)
    run = harness.run(revision, {"x": [1, "ä"]})
    assert (run.status, run.exit_code, run.message) == (CallStatus.SUCCEEDED, 0, "")
    assert json.loads(run.outcome.result) == {"got": {"x": [1, "ä"]}}
    assert run.outcome.status == 200 and run.started_at <= run.ended_at
    (line,) = harness.lines
    assert (line.invocation_id, line.stream, line.text) == (run.id, "stdout", "working")
    assert harness.backend.observe_runs()[run.id] == run


def test_starting_a_run_does_not_block_the_caller(harness):
    revision = harness.python("import time\ndef handle(event):\n    time.sleep(event)\n")
    harness.run(revision, 0)
    began = time.perf_counter()
    _, ended, _ = harness.start_run(revision, 2)
    assert time.perf_counter() - began < 1, "the run takes 2 s"
    assert ended.wait(20)


def test_a_known_run_is_not_started_again(harness):
    revision = harness.python(HELLO)
    first = harness.run(revision)
    again = RunSpec(id=first.id, revision=revision, event="1", request_id="r", trigger=CallTrigger.JOB)
    harness.backend.start_run(again, lambda run: pytest.fail("ran again"))
    assert harness.run(revision).status is CallStatus.SUCCEEDED
    assert harness.backend.observe_runs()[first.id] == first


def test_a_failed_run_has_the_error_and_its_last_log_lines(harness):
    run = harness.run(harness.python("def handle(event):\n    raise ValueError('bad input')\n"))
    assert (run.status, run.exit_code, run.outcome.ok, run.outcome.error) == (CallStatus.FAILED, 1, False, "bad input")
    lines = run.message.splitlines()
    assert (lines[0], lines[1], lines[-1]) == ("bad input", "Traceback (most recent call last):", "ValueError: bad input")


def test_a_run_over_its_timeout_is_stopped(harness):
    began = time.monotonic()
    run = harness.run(harness.python("import time\ndef handle(event):\n    time.sleep(30)\n", timeout_sec=1))
    assert run.status is CallStatus.TIMEOUT
    assert run.message.splitlines()[0] == "timed out after 1 s"
    assert time.monotonic() - began < (6 if harness.name == "local" else 25), "the handler sleeps for 30 s"


def test_a_run_that_ignores_sigterm_is_killed_after_its_timeout(harness):
    source = "import signal, time\ndef handle(event):\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    time.sleep(60)\n"
    run = harness.run(harness.python(source, timeout_sec=1))
    # The pod of a Job past its deadline is gone, including its exit code.
    assert (run.status, run.exit_code) == (CallStatus.TIMEOUT, -signal.SIGKILL if harness.name == "local" else None)


def test_a_run_that_exits_by_itself(harness):
    run = harness.run(harness.python("import os\ndef handle(event):\n    print('last words', flush=True)\n    os._exit(9)\n"))
    assert (run.status, run.exit_code, run.outcome) == (CallStatus.FAILED, 9, None)
    assert run.message == "function exited with code 9\nlast words"


def test_a_run_over_its_memory_limit(harness):
    run = harness.run(harness.python("import time\ndef handle(event):\n    x = b'x' * 2**20 * 200\n    time.sleep(20)\n", memory_mb=64))
    assert run.status is CallStatus.FAILED
    assert run.message.startswith("out of memory: ") and " of 64 MB" in run.message


def test_job_and_call_results_have_separate_limits(harness):
    revision = harness.python("def handle(event):\n    return 'x' * 2000\n", kind=Kind.JOB)
    run = harness.run(revision)
    assert (run.status, run.outcome, run.message, run.non_retryable) == (
        CallStatus.FAILED, None, "result is 2000 bytes, over the limit of 1000", True,
    )  # fmt: skip
    assert harness.run(replace(revision, kind=Kind.FUNCTION)).status is CallStatus.SUCCEEDED


def test_a_removed_run_is_cancelled_and_forgotten(harness):
    run_id, ended, results = harness.start_run(harness.python("import time\ndef handle(event):\n    print('on')\n    time.sleep(60)\n"))
    wait_until(lambda: harness.lines, "it runs")
    assert harness.backend.observe_runs()[run_id].status is CallStatus.RUNNING
    harness.backend.remove_run(run_id)
    assert ended.wait(10) and results[0].status is CallStatus.CANCELLED
    wait_until(lambda: run_id not in harness.backend.observe_runs(), "forgotten")


def test_an_outcome_survives_a_restart_until_it_is_removed(harness):
    run = harness.run(harness.python(HELLO, kind=Kind.JOB), 5)
    harness.restart()
    # On a cluster the log has to be read again.
    found = wait_until(lambda: (one := harness.backend.observe_runs()[run.id]).status is not CallStatus.RUNNING and one, "its outcome")
    assert (found.status, found.outcome, found.message) == (run.status, run.outcome, run.message)
    harness.backend.remove_run(run.id)
    wait_until(lambda: run.id not in harness.backend.observe_runs(), "forgotten")
    harness.restart()
    assert run.id not in harness.backend.observe_runs()


@here
def test_close_leaves_no_process(harness):
    revision = harness.python(WHO)
    pids = [harness.call(one) for one in harness.deploy(revision, replicas=2)]
    began = time.monotonic()
    harness.backend.close()
    assert time.monotonic() - began < 3
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_desired_state_that_changes_during_a_rollout(harness):
    revision = harness.python(HELLO)
    harness.apply(revision, replicas=3)
    harness.apply(replace(revision, version=2), replicas=1, generation=2)
    harness.wait_ready(revision, generation=2)
    wait_until(lambda: len(harness.observed(revision).endpoints) == 1, "one is left")
    assert harness.endpoints(revision)[0].version == 2


def test_a_removed_workload_can_be_deployed_again(harness):
    revision = harness.python(HELLO)
    (old,) = harness.deploy(revision)
    harness.backend.remove(revision.workload_id)
    wait_until(lambda: not harness.endpoints(revision), "draining")
    (new,) = harness.deploy(revision, generation=2)
    assert new.id != old.id and harness.call(new)


def _call_in_vain(harness, endpoint) -> None:
    with contextlib.suppress(http.client.HTTPException, OSError):
        harness.call(endpoint)


def _answers(harness, endpoint) -> bool:
    with contextlib.suppress(TimeoutError):
        harness.call(endpoint, "/_sless/health", timeout_sec=1, X_Sless_Control="1")
        return True
    return False


def test_the_id_of_a_removed_run_can_be_used_again(harness):
    revision = harness.python("def handle(event):\n    print(event)\n    return event\n")
    first = harness.run(revision, 1)
    harness.backend.remove_run(first.id)
    ended, results = threading.Event(), []
    again = RunSpec(id=first.id, revision=revision, event="2", request_id="r", trigger=CallTrigger.JOB)
    harness.backend.start_run(again, lambda run: (results.append(run), ended.set()))
    assert ended.wait(20) and results[0].outcome.result == "2"
    wait_until(lambda: {line.text for line in harness.lines} == {"1", "2"}, "lines of both attempts")
    assert len({(line.source_id, line.seq) for line in harness.lines if line.invocation_id == first.id}) == 2, "one is stored twice"


def test_a_run_removed_while_it_ran_can_start_again(harness):
    revision = harness.python(
        "import time\ndef handle(event):\n    print('on', flush=True)\n    time.sleep(60 if event == 1 else 0)\n    return event\n"
    )
    run_id, _, _ = harness.start_run(revision, 1)
    wait_until(lambda: harness.lines, "it runs")
    harness.backend.remove_run(run_id)
    ended, results = threading.Event(), []
    again = RunSpec(id=run_id, revision=revision, event="2", request_id="r", trigger=CallTrigger.JOB)

    def begins():
        try:
            harness.backend.start_run(again, lambda run: (results.append(run), ended.set()))
        except BackendUnavailable:
            return False
        return True

    wait_until(begins, "the remains of the first run have ended")
    assert ended.wait(30) and results[0].outcome.result == "2"


def test_a_closed_backend_starts_no_run(harness):
    revision = harness.python(HELLO)
    harness.backend.close()
    with pytest.raises(BackendUnavailable, match="stopping"):
        harness.start_run(revision)


def test_node(harness, node_binary):
    source = "exports.handle = (event) => { console.log('on'); return {node: process.version.startsWith('v'), event}; };\n"
    revision = harness.revision({"handler.js": source}, runtime="nodejs20")
    (endpoint,) = harness.deploy(revision)
    assert harness.call(endpoint, "/?a=1") == {"node": True, "event": {"a": "1"}}
    run = harness.run(replace(revision, workload_id="other"), 5)
    assert json.loads(run.outcome.result) == {"node": True, "event": 5}
    # A line may be delivered while the run lasts and again at its end; the store knows it by its number.
    assert [text for _, text in sorted({(line.seq, line.text) for line in harness.lines if line.invocation_id == run.id})] == ["on"]


@here
def test_a_run_interrupted_by_a_stop_is_not_shown_and_can_start_again(harness):
    harness.restart(close_sec=0.2)
    revision = harness.python("import time\ndef handle(event):\n    print('on')\n    time.sleep(event)\n    return 'done'\n")
    run_id, ended, results = harness.start_run(revision, 60)
    wait_until(lambda: harness.lines, "it runs")
    harness.restart()
    assert ended.wait(1) and results[0].message.splitlines() == ["the server stopped while this ran", "on"]
    assert harness.backend.observe_runs() == {}
    again, done = RunSpec(id=run_id, revision=revision, event="0", request_id="r", trigger=CallTrigger.JOB), threading.Event()
    harness.backend.start_run(again, lambda run: done.set())
    assert done.wait(20) and harness.backend.observe_runs()[run_id].status is CallStatus.SUCCEEDED


@here
def test_failing_starts_back_off(harness):
    revision = harness.python("raise RuntimeError('never')\n")
    harness.apply(revision)
    wait_until(lambda: harness.observed(revision).failing, "failing")
    time.sleep(2.5)
    starts = {line.source_id for line in harness.lines}
    assert 1 <= len(starts) <= 2, "the second start comes after two seconds, the third after four more"


def test_corrected_code_does_not_wait_for_the_backoff(harness):
    revision = harness.python("raise RuntimeError('never')\n")
    harness.apply(revision)
    harness.wait_failing(revision)
    began = time.monotonic()
    harness.deploy(replace(revision, version=2, code_key=harness.code.add({"handler.py": HELLO})), generation=2)
    assert time.monotonic() - began < (1.5 if harness.name == "local" else harness.noticed_sec)


@here
def test_an_instance_that_ignores_the_stop_is_killed(harness):
    harness.restart(stop_sec=1.0)
    revision = harness.python(WHO, timeout_sec=1)
    (endpoint,) = harness.deploy(revision)
    os.kill(harness.call(endpoint), signal.SIGSTOP)
    harness.backend.remove(revision.workload_id)
    wait_until(lambda: harness.observed(revision) is None, "gone", 10)
