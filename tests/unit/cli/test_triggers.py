"""`sless trigger …`: requests, output and exit codes."""

import json

import pytest

from sless.cli.triggers import trigger as trigger_group
from sless.domain.schemas import TRIGGER_FIELDS
from tests.unit.cli.contract_server import NAMESPACE

BASE = f"/v1/namespaces/{NAMESPACE}"


@pytest.fixture
def hello_function(state):
    state.functions["hello"] = {"name": "hello", "phase": "Ready", "url": None}


@pytest.fixture
def cron(run, hello_function):
    assert run("trigger", "create", "cron", "nightly", "hello", "30 2 * * *").code == 0


def sent(state, method="POST", ending="/triggers"):
    return json.loads(state.calls(method, ending)[-1][2])


def test_a_cron_trigger_with_all_options(run, state, hello_function):
    outcome = run(
        "trigger", "create", "cron", "nightly", "hello", "30 2 * * *", "--timezone", "Europe/Berlin", "--event", '{"full": true}',
        "--overlap", "forbid", "--grace", "3600", "--pre-warm", "0", "--disabled",
    )  # fmt: skip
    assert (outcome.code, outcome.err) == (0, 'Created cron trigger "nightly"\n')
    assert sent(state) == {
        "name": "nightly", "type": "cron", "function_ref": "hello", "schedule": "30 2 * * *", "timezone": "Europe/Berlin",
        "event_json": '{"full": true}', "overlap": "forbid", "misfire_grace_seconds": 3600, "pre_warm_seconds": 0, "enabled": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "command", [("cron", "t", "hello", "@daily", "--event"), ("event", "t", "hello", "orders.new", "--amqp-url")], ids=["cron", "event"]
)
def test_a_file_that_is_not_utf8_is_a_usage_error(run, tmp_path, hello_function, command):
    (tmp_path / "file").write_bytes('{"pw": 1}'.encode("utf-16"))
    outcome = run("trigger", "create", *command, f"@{tmp_path / 'file'}")
    assert outcome.code == 2 and f"{command[-1]}: expected UTF-8 text, found byte 0xff at 0" in outcome.err


def test_a_byte_order_mark_is_dropped_from_an_event(run, state, tmp_path, hello_function):
    (tmp_path / "file").write_bytes('{"a": 1}'.encode("utf-8-sig"))
    assert run("trigger", "create", "cron", "t", "hello", "@daily", "--event", f"@{tmp_path / 'file'}").code == 0
    assert sent(state)["event_json"] == '{"a": 1}'


def test_omitted_options_are_not_sent(run, state, cron):
    assert sent(state) == {"name": "nightly", "type": "cron", "function_ref": "hello", "schedule": "30 2 * * *", "enabled": True}


def test_an_http_trigger_with_all_options(run, state, hello_function):
    outcome = run(
        "trigger", "create", "http", "front", "hello", "--method", "get", "--method", "POST", "--auth", "token", "--rate-limit", "60",
        "--cors-origin", "https://a.example", "--cors-origin", "https://b.example", "--cors-method", "GET", "--cors-header", "X-A",
        "--cors-expose", "X-B", "--cors-credentials", "--cors-max-age", "60",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    assert sent(state) | {"methods": ["GET", "POST"], "auth": "token", "rate_limit": 60, "enabled": True} == sent(state)
    assert sent(state)["cors"] == {
        "allow_origins": ["https://a.example", "https://b.example"], "allow_methods": ["GET"], "allow_headers": ["X-A"],
        "expose_headers": ["X-B"], "allow_credentials": True, "max_age_sec": 60,
    }  # fmt: skip


def test_only_a_new_key_goes_to_stdout(run, state, hello_function):
    made = {"name": "front", "type": "http", "api_key": "sk-1", "url": "http://x/fn/a/hello"}
    state.replies["POST", f"{BASE}/triggers"] = (201, {"Content-Type": "application/json"}, json.dumps(made).encode())
    outcome = run("trigger", "create", "http", "front", "hello", "--auth", "key")
    assert outcome.out == "sk-1\n" and "shown only once" in outcome.err


def test_an_event_trigger_with_all_options(run, state, hello_function, tmp_path):
    (tmp_path / "url").write_text("amqp://u:hunter2@mq.example.org/\n")
    outcome = run(
        "trigger", "create", "event", "orders", "hello", "orders.new", "--amqp-url", f"@{tmp_path / 'url'}", "--prefetch", "20",
        "--max-concurrency", "5", "--max-attempts", "3",
    )  # fmt: skip
    assert outcome.code == 0 and "hunter2" not in outcome.out + outcome.err
    assert sent(state) == {
        "name": "orders", "type": "event", "function_ref": "hello", "queue": "orders.new", "amqp_url": "amqp://u:hunter2@mq.example.org/",
        "prefetch": 20, "max_concurrency": 5, "max_attempts": 3, "enabled": True,
    }  # fmt: skip


@pytest.mark.parametrize("event", ["{", "@/no/such/file", ""])
def test_an_event_that_is_not_json_is_a_usage_error(run, state, hello_function, event):
    outcome = run("trigger", "create", "cron", "t", "hello", "@daily", "--event", event)
    assert outcome.code == 2 and "--event: " in outcome.err and state.triggers == {}


@pytest.mark.parametrize("kind", TRIGGER_FIELDS)
def test_every_field_has_an_option(kind):
    """Except `rotate_key`, which is a command."""
    create = trigger_group.commands["create"].commands[str(kind)]
    update = trigger_group.commands["update"]
    cors = {"allow_origins", "allow_methods", "allow_headers", "expose_headers", "allow_credentials", "max_age_sec"}
    for command in (create, update):
        names = {parameter.name for parameter in command.params}
        assert (set(TRIGGER_FIELDS[kind]) - {"rotate_key", "cors"}) | (cors if kind == "http" else set()) <= names


def test_list_and_its_filters(run, state, cron):
    run("trigger", "create", "http", "front", "hello")
    state.triggers["nightly"] |= {"next_schedule_time": "2026-02-01T01:30:00.000Z", "last_status": "missed"}
    lines = run("trigger", "list").out.splitlines()
    assert lines[0].split() == ["TRIGGER", "TYPE", "FUNCTION", "ENABLED", "ACTIVE", "WHAT", "NEXT", "LAST", "MESSAGE"]
    assert lines[2].split() == [
        "nightly", "cron", "hello", "yes", "yes", "30", "2", "*", "*", "*", "2026-02-01T01:30:00.000Z", "missed", "-",
    ]  # fmt: skip
    assert run("triggers").out == run("trigger", "list").out
    assert [item["name"] for item in run("trigger", "list", "--type", "cron", "--output", "json").json] == ["nightly"]
    assert run("trigger", "list", "--function", "other").err == "No triggers\n"
    state.triggers["front"] |= {"active": False}
    for option, name in (("--active", "nightly"), ("--inactive", "front")):
        assert [item["name"] for item in run("trigger", "list", option, "--output", "json").json] == [name]


def test_show(run, state, cron):
    out = run("trigger", "show", "nightly").out
    assert out.startswith("name          nightly\ntype          cron\n") and "schedule      30 2 * * *\n" in out
    assert run("trigger", "show", "nightly", "--output", "json").json["schedule"] == "30 2 * * *"
    assert run("trigger", "describe", "nightly").out == out
    outcome = run("trigger", "show", "nothing")
    assert outcome.code == 1 and 'trigger "nothing" not found' in outcome.err


def test_update_sends_only_given_options(run, state, cron):
    outcome = run("trigger", "update", "nightly", "--schedule", "0 4 * * *", "--grace", "0")
    assert (outcome.code, outcome.err) == (0, 'Changed cron trigger "nightly"\n')
    assert sent(state, "PATCH", "/nightly") == {"schedule": "0 4 * * *", "misfire_grace_seconds": 0}
    assert run("trigger", "update", "nightly").code == 2


def test_update_of_an_http_trigger_merges_nested_fields(run, state, hello_function):
    run("trigger", "create", "http", "front", "hello", "--cors-origin", "https://a.example", "--rate-limit", "5", "--method", "GET")
    run("trigger", "update", "front", "--cors-max-age", "60", "--rate-limit", "0")
    assert sent(state, "PATCH", "/front") == {
        "cors": {"allow_origins": ["https://a.example"], "max_age_sec": 60}, "rate_limit": None,
    }  # fmt: skip
    run("trigger", "update", "front", "--no-cors", "--all-methods")
    assert sent(state, "PATCH", "/front") == {"cors": None, "methods": []}


def test_enable_disable_and_delete_several(run, state, cron):
    run("trigger", "create", "http", "front", "hello")
    outcome = run("trigger", "disable", "nightly", "front")
    assert outcome.err == 'trigger "nightly" disabled\ntrigger "front" disabled\n'
    assert not state.triggers["nightly"]["enabled"] and not state.triggers["front"]["enabled"]
    state.triggers["nightly"]["next_schedule_time"] = "2026-02-01T01:30:00.000Z"
    assert run("trigger", "enable", "nightly").err == 'trigger "nightly" enabled; next at 2026-02-01T01:30:00.000Z\n'
    assert state.triggers["nightly"]["enabled"] is True
    assert run("trigger", "delete", "nightly", "front").err == 'trigger "nightly" deleted\ntrigger "front" deleted\n'
    assert state.triggers == {}


def fired(state, **invocation):
    accepted = {"id": "i1", "request_id": "i1", "status": "queued"}
    headers = {"Content-Type": "application/json"}
    state.replies["POST", f"{BASE}/triggers/nightly/fire"] = (202, headers, json.dumps(accepted).encode())
    found = {"id": "i1", "status": "succeeded", "result": '{"n": 1}', "error": None} | invocation
    state.replies["GET", f"{BASE}/functions/hello/invocations/i1"] = (200, headers, json.dumps(found).encode())


def test_fire_waits_for_the_result(run, state, cron):
    fired(state)
    outcome = run("trigger", "fire", "nightly", "-d", '{"n": 1}')
    assert (outcome.code, outcome.out) == (0, '{"n": 1}\n')
    assert state.calls("POST", "/fire")[-1][2] == b'{"n": 1}'
    run("trigger", "fire", "nightly")
    assert state.calls("POST", "/fire")[-1][2] == b""
    assert run("trigger", "fire", "nightly", "--output", "json").json["status"] == "succeeded"


def test_fire_without_waiting(run, state, cron):
    fired(state, status="running")
    assert run("trigger", "fire", "nightly", "--no-wait").out == "i1\n"
    assert run("trigger", "fire", "nightly", "--no-wait", "--output", "json").json["status"] == "queued"


def test_fire_that_fails(run, state, cron):
    fired(state, status="failed", result=None, error="division by zero")
    outcome = run("trigger", "fire", "nightly")
    assert (outcome.code, outcome.out, outcome.err) == (1, "", "Error: invocation i1 failed: division by zero\n")


def test_rotate_key(run, state, hello_function):
    run("trigger", "create", "http", "front", "hello")
    outcome = run("trigger", "rotate-key", "front")
    assert outcome.code == 1 and 'expected auth "key"' in outcome.err
    state.triggers["front"]["api_key"] = "sk-2"
    assert run("trigger", "rotate-key", "front").out == "sk-2\n"
    assert sent(state, "PATCH", "/front") == {"rotate_key": True}


def test_every_command_has_examples():
    create = trigger_group.commands["create"]
    commands = [*trigger_group.commands.values(), *create.commands.values()]
    assert len(commands) == 13
    assert all("Example" in str(command.help) and "sless trigger" in str(command.help) for command in commands)
