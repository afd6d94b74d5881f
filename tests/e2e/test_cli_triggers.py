"""`sless trigger …` against a real server: every example from its help, and the output."""

import json
import re
import shlex

import pytest

from sless.cli.triggers import create, trigger
from tests.e2e.conftest import ok

pytestmark = [pytest.mark.xdist_group("cli"), pytest.mark.timeout(180)]

HANDLER = "def handle(event, context):\n    return {'event': event, 'trigger': context.trigger}\n"
NAMES = ("report", "fetch", "hello", "ship-order")


def examples() -> list[list[str]]:
    """All examples, with those that create first and those that delete last."""
    groups = [create, trigger]
    commands = [command for group in groups for command in group.commands.values()]
    found = [shlex.split(line) for command in commands for line in re.findall(r"^\s*sless (trigger .+)$", str(command.help), re.MULTILINE)]
    unique = {tuple(words): words for words in found}.values()
    return sorted(unique, key=lambda words: (words[1] == "delete", words[1] != "create"))


@pytest.fixture(scope="module")
def functions(server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("code")
    (folder / "handler.py").write_text(HANDLER)
    for name in NAMES:
        ok(server.sless("deploy", name, str(folder), "--no-http"))


def test_help_examples_work(server, functions, tmp_path):
    """Examples with the same target share its http trigger; queues on the operator's broker are prefixed with the namespace."""
    (tmp_path / "amqp-url.txt").write_text("amqp://u:p@mq.example.org/")
    ran = 0
    for words in examples():
        if words[1:3] == ["create", "event"] and "--amqp-url" not in words:
            words += ["--amqp-url", "amqp://u:p@mq.example.org/"]
        words = [word.replace("@amqp-url.txt", f"@{tmp_path / 'amqp-url.txt'}") for word in words]
        if words[1] == "create":  # several examples create a trigger with the same name
            server.sless("trigger", "delete", words[3])
        if words[1] == "rotate-key":
            ok(server.sless("trigger", "update", words[2], "--auth", "key"))
        ok(server.sless(*words))
        ran += 1
    assert ran >= 15


def test_create_change_and_delete_triggers(server, functions):
    made = json.loads(ok(server.sless("trigger", "create", "cron", "life", "report", "0 0 1 1 *", "--event", "[1]", "--output", "json")))
    assert made["event_json"] == "[1]" and made["next_schedule_time"].endswith("-01-01T00:00:00.000Z")
    assert json.loads(ok(server.sless("trigger", "fire", "life"))) == {"event": [1], "trigger": "cron"}
    assert json.loads(ok(server.sless("trigger", "fire", "life", "-d", '"x"'))) == {"event": "x", "trigger": "cron"}
    line = next(line for line in ok(server.sless("trigger", "list")).splitlines() if line.startswith("life "))
    assert line.split()[:5] == ["life", "cron", "report", "yes", "yes"] and " succeeded " in line
    ok(server.sless("trigger", "disable", "life"))
    shown = ok(server.sless("trigger", "show", "life"))
    assert "enabled                no\n" in shown and "message                disabled\n" in shown and "next_schedule_time" not in shown
    wrong = server.sless("trigger", "update", "life", "--schedule", "0 0 31 2 *")
    assert wrong.returncode == 1 and "the schedule '0 0 31 2 *' never fires" in wrong.stderr
    ok(server.sless("trigger", "delete", "life"))
    assert "not found" in server.sless("trigger", "show", "life").stderr
