"""`sless jobs …` against a real server: every example from its help, and the output."""

import json
import re
import shlex

import pytest

from sless.cli.jobs import jobs
from tests.e2e.conftest import ok

pytestmark = [pytest.mark.xdist_group("cli"), pytest.mark.timeout(180)]

HANDLER = """import os
def handle(event, context):
    print("counting", event)
    if event.get("year") == 1999:
        raise ValueError("no such year")
    return {"event": event, "region": os.environ.get("REGION"), "trigger": context.trigger}
"""


def examples() -> list[list[str]]:
    """All examples, with those that create first and those that delete last."""
    texts = [str(command.help) for command in (*jobs.commands.values(), jobs)]
    found = [shlex.split(line) for text in texts for line in re.findall(r"^\s*sless (jobs.*)$", text, re.MULTILINE)]
    unique = {tuple(words): words for words in found}.values()
    return sorted(unique, key=lambda words: (words[1:2] == ["delete"], words[1:2] != ["create"]))


@pytest.fixture(scope="module")
def code_folder(server, tmp_path_factory):
    """The code of a job, which is also deployed as the function `report`."""
    folder = tmp_path_factory.mktemp("code")
    (folder / "handler.py").write_text(HANDLER)
    ok(server.sless("deploy", "report", str(folder), "--no-http"))
    return folder


def test_help_examples_work(server, code_folder, tmp_path):
    (tmp_path / "event.json").write_text("{}")
    commands = examples()
    assert len(commands) >= 13
    for words in commands:
        replacements = {"./table": str(code_folder), "@event.json": f"@{tmp_path / 'event.json'}"}
        words = [replacements.get(word, word) for word in words if word != "-f"]  # -f follows until Ctrl-C
        if words[1:2] == ["create"]:
            server.sless("jobs", "delete", words[2])
        if words[1:2] == ["delete"]:
            server.sless("jobs", "create", "table", "--function", "report")
            server.sless("jobs", "create", "again", "--function", "report")
        ok(server.sless(*words))


def test_create_run_and_delete_a_job(server, code_folder):
    made = ok(server.sless("jobs", "create", "life", str(code_folder), "-d", '{"year": 2026}', "--env", "REGION=eu", "--wait"))
    assert json.loads(made) == {"event": {"year": 2026}, "region": "eu", "trigger": "job"}
    again = json.loads(ok(server.sless("jobs", "run", "life", "-d", '{"year": 2027}', "--wait", "--output", "json")))
    assert (again["run_id"], again["phase"], json.loads(again["message"])["event"]) == (2, "Succeeded", {"year": 2027})
    changed = json.loads(ok(server.sless("jobs", "update", "life", "--env", "ZONE=1", "--unset", "REGION", "--output", "json")))
    assert (changed["env_vars"], changed["run_id"]) == ({"ZONE": "1"}, 2)
    failed = server.sless("jobs", "run", "life", "-d", '{"year": 1999}', "--wait")
    assert (failed.returncode, failed.stdout) == (1, "") and 'Error: job "life" Failed: no such year' in failed.stderr
    shown = ok(server.sless("jobs", "show", "life"))
    assert re.search(r"^phase +Failed$", shown, re.MULTILINE) and re.search(r"^run_id +3$", shown, re.MULTILINE)
    assert "counting {'year': 2026}" in ok(server.sless("jobs", "logs", "life"))
    assert re.search(r"^life +Failed +3 ", ok(server.sless("jobs")), re.MULTILINE)
    assert 'job "life" deleted' in server.sless("jobs", "delete", "life").stderr
    missing = server.sless("jobs", "show", "life")
    assert missing.returncode == 1 and 'job "life" not found' in missing.stderr


def test_rejected_code_leaves_no_job(server, tmp_path):
    (tmp_path / "handler.py").write_text("def handle(event:\n")
    refused = server.sless("jobs", "create", "broken", str(tmp_path), "--wait")
    assert refused.returncode == 1 and "handler.py" in refused.stderr, refused.stderr
    (tmp_path / "handler.py").write_text("def handle(event):\n    return 1\n")
    assert ok(server.sless("jobs", "create", "broken", str(tmp_path), "--wait")) == "1\n"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("create", "x"), "found neither"),
        (("create", "x", ".", "--function", "f"), "found both"),
        (("create", "x", "--function", "f", "--no-run", "--wait"), "nothing runs with --no-run"),
        (("update", "x"), "nothing to change"),
        (("run", "x", "-d", "{"), "expected JSON"),
    ],
)
def test_wrong_usage_says_what_is_wrong(server, words, message):
    ended = server.sless("jobs", *words)
    assert ended.returncode == 2 and message in ended.stderr, ended.stderr
