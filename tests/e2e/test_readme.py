"""The commands in README.md work."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import requests

from tests.e2e.conftest import ok
from tests.services.nginx import running_nginx

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.xdist_group("readme"), pytest.mark.timeout(180)]


def block_after(heading: str) -> str:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.search(rf"^## {heading}\n.*?^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[1]


def run_block(block: str, server, folder: Path) -> str:
    """Run the block as if pasted into a shell with `set -e`; the server is already running."""
    lines = [line for line in block.splitlines() if not line.startswith(("sless serve", "export SLESS_TOKEN", "URL="))]
    script = f'set -eo pipefail\nsless() {{ "{sys.executable}" "{ROOT}/sless.py" "$@"; }}\nURL={server.url}\n' + "\n".join(lines)
    environ = server.place.environ | {"SLESS_URL": server.url, "SLESS_TOKEN": server.token}
    ended = subprocess.run(["bash", "-c", script], cwd=folder, env=environ, capture_output=True, text=True, timeout=150)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def test_five_minutes_by_command_line(server, tmp_path):
    shown = run_block(block_after("Five minutes by command line"), server, tmp_path)
    assert '"hello": "Ada"' in shown
    assert "called with {'name': 'Ada'}" in shown
    assert 'function "hello" deleted' in shown


def test_the_same_by_curl(server, tmp_path):
    shown = run_block(block_after("The same by curl"), server, tmp_path)
    assert '{"hi": {"n": 1}}' in shown
    assert '"result": "{\\"hi\\": {\\"n\\": 2}}"' in shown
    assert '"trigger": "http"' in shown, "the call is on record"
    assert '"error"' not in shown.replace('"error": null', "").replace('"error":null', "")


def test_triggers_and_asynchronous_calls(server, tmp_path):
    shown = run_block(block_after("Triggers"), server, tmp_path)
    assert '{"report": 2026, "trigger": "cron"}' in shown
    assert re.search("^sk-[-A-Za-z0-9_]{40,}$", shown, re.MULTILINE)
    assert re.search("^nightly +cron +report +yes +yes .* succeeded", shown, re.MULTILINE)

    shown = run_block(block_after("Asynchronous calls"), server, tmp_path)
    assert '{"report": 2026, "trigger": "invoke"}' in shown
    assert re.search(r"^\S+Z  dead +500 .* invoke +1 +1 +i[0-9a-f]{20}$", shown, re.MULTILINE)
    assert re.search("^Invocation i[0-9a-f]{20} is (queued|running)$", shown, re.MULTILINE), "what a retry prints"
    assert re.search("^[0-9a-f]{64}$", shown, re.MULTILINE), "the key of the callbacks"


def test_nginx_in_front(server, tmp_path):
    (tmp_path / "shown").mkdir()
    (tmp_path / "shown" / "handler.py").write_text(
        "def handle(event, context):\n    return {name: context.http.headers.get(name) for name in ('Host', 'X-Forwarded-Proto')} | event\n"
    )
    ok(server.sless("deploy", "shown", str(tmp_path / "shown")))
    with running_nginx(tmp_path, server.url) as url, requests.Session() as session:
        session.headers["Host"] = "functions.example.com"
        for number in range(3):
            shown = session.post(f"{url}/fn/{server.namespace}/shown", json={"n": number}, timeout=30)
            assert json.loads(shown.text) == {"Host": "functions.example.com", "X-Forwarded-Proto": "http", "n": number}
