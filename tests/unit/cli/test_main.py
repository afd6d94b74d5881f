"""Start and exit of the command line, run as a process."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from sless._version import __version__
from sless.cli.main import COMMANDS, HOMES, group
from sless.cli.older_settings import OLDER_NAMES, unread_names
from sless.config import Settings
from tests.services.command_line import run_command
from tests.services.product import ROOT
from tests.unit.cli.contract_server import TOKEN

HEAVY = (
    "flask",
    "sqlalchemy",
    "requests",
    "uvicorn",
    "gunicorn",
    "jwt",
    "boto3",
    "kubernetes",
    "sless.client",
    "sless.app",
    "sless.server",
)


def command(repository: Path, *arguments: str) -> list[str]:
    return [sys.executable, str(repository / "sless.py"), *arguments]


def test_every_command_has_a_module_a_section_and_examples():
    assert sorted(HOMES) == sorted(name for names in COMMANDS.values() for name in names)
    for name in HOMES:
        found = group.get_command(None, name)
        assert found.name == name
        assert "Example" in found.help, name
        assert f"sless {name}" in found.help, name


def test_version_imports_only_what_it_needs(repository):
    code = f"import sys; from sless.cli import main; main(['version']); print([m for m in {HEAVY} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True).stdout
    assert shown == f"{__version__}\n[]\n"


def test_client_commands_do_not_import_the_server(repository):
    code = f"import sys, sless.cli.deploying, sless.cli.calling; print([m for m in {HEAVY} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=True).stdout
    assert shown == "['requests', 'sless.client']\n"


def test_the_default_command_is_the_demo(repository, tmp_path):
    (tmp_path / "file").write_text("")
    environ = os.environ | {"SLESS_DATA_DIR": str(tmp_path / "file" / "inside")}
    ended = subprocess.run(command(repository), env=environ, capture_output=True, text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith("Error: SLESS_DATA_DIR: ")


def test_unknown_command_is_a_usage_error(ask):
    ended = ask("bogus")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "No such command 'bogus'" in ended.stderr


def test_ctrl_c_ends_quietly(repository, server, state):
    state.functions["hello"] = {"name": "hello"}
    state.hold_logs = True
    environ = os.environ | {"SLESS_URL": server.url, "SLESS_TOKEN": TOKEN, "PYTHONUNBUFFERED": "1"}
    # Background processes of a shell ignore SIGINT; this test is about one in the foreground.
    hearing = ["env", "--default-signal=INT", *command(repository, "logs", "hello", "-f")]
    process = subprocess.Popen(hearing, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "first\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in errors


def test_a_closed_pipe_is_not_an_error(repository, server, state):
    state.functions["hello"] = {"name": "hello"}
    state.log_lines = tuple("x" * 100 for _ in range(5000))
    environ = os.environ | {"SLESS_URL": server.url, "SLESS_TOKEN": TOKEN}
    process = subprocess.Popen(command(repository, "logs", "hello"), env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        assert process.stdout.readline() == "x" * 100 + "\n"
        process.stdout.close()
        assert process.stderr.read() == ""


@pytest.fixture
def ask(tmp_path):
    def run(*arguments, **environ):
        environ = {"SLESS_DATA_DIR": str(tmp_path / "data")} | {name: str(value) for name, value in environ.items()}
        return run_command(arguments, os.environ | environ)

    return run


class TestToken:
    def test_is_the_only_output_and_is_accepted(self, ask, tmp_path):
        from sless import tokens
        from sless.config import load

        ended = ask("token", "--sub", "alice", "--ttl", "30m")
        assert (ended.returncode, ended.stderr, ended.stdout.count("\n")) == (0, "", 1)
        verifier = tokens.TokenVerifier(load({"SLESS_DATA_DIR": str(tmp_path / "data")}))
        assert verifier.verify(f"Bearer {ended.stdout.strip()}").sub == "alice"

    def test_lives_a_day_by_default(self, ask):
        assert json.loads(ask("token", "--sub", "a", "--output", "json").stdout)["ttl_sec"] == 86400

    def test_fails_if_tokens_come_from_elsewhere(self, ask):
        ended = ask("token", "--sub", "a", SLESS_AUTH_MODE="jwks", SLESS_JWKS_URL="http://x")
        assert (ended.returncode, ended.stdout) == (1, "")
        assert "SLESS_AUTH_MODE=jwks: tokens come from" in ended.stderr

    @pytest.mark.parametrize("arguments", [(), ("--sub", "a", "--ttl", "soon"), ("--sub", "a", "--ttl", "0h"), ("--sub", " ")])
    def test_usage_errors(self, ask, arguments):
        assert ask("token", *arguments).returncode == 2


class TestConfig:
    def test_shows_where_each_value_comes_from(self, ask, tmp_path):
        (tmp_path / "secret").write_text("s" * 40 + "\n")
        rows = json.loads(ask("config", "--output", "json", SLESS_PORT=8081, SLESS_JWT_SECRET_FILE=tmp_path / "secret").stdout)
        found = {row["name"]: (row["value"], row["source"]) for row in rows}
        assert found["SLESS_PORT"] == ("8081", "environment")
        assert found["SLESS_HOST"] == ("127.0.0.1", "default")
        assert found["SLESS_JWT_SECRET"] == ("(set)", f"file {tmp_path}/secret")
        assert "s" * 40 not in json.dumps(rows)

    def test_lists_all_settings(self, ask):
        rows = {row["name"]: row for row in json.loads(ask("config", "--output", "json", SLESS_PORT=8081).stdout)}
        assert len(rows) == len(fields(Settings)) and all(row["help"] for row in rows.values())
        assert rows["SLESS_PORT"]["default"] == "9090"
        assert rows["SLESS_AUTH_MODE"]["help"].endswith("(local | secret | jwks | public-key | perimeter)")

    def test_hides_user_info_in_urls(self, ask):
        rows = ask(
            "config", "--output", "json", SLESS_S3_ENDPOINT="https://u:secret@s3.example.org", SLESS_HARBOR_URL="http://a@b@h/x"
        ).stdout
        found = {row["name"]: row["value"] for row in json.loads(rows)}
        assert (found["SLESS_S3_ENDPOINT"], found["SLESS_HARBOR_URL"]) == ("https://***@s3.example.org", "http://***@h/x")

    def test_a_locale_that_cannot_name_the_data_folder(self, tmp_path):
        """A process of its own: Python chooses the encoding of file names when it starts."""
        environ = {"SLESS_DATA_DIR": tmp_path / "данные", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        command = [sys.executable, str(ROOT / "sless.py"), "serve", "--port", "0"]
        ended = subprocess.run(command, env=os.environ | environ, capture_output=True, text=True, timeout=60)
        assert (ended.returncode, "SLESS_DATA_DIR: this locale cannot name" in ended.stderr) == (1, True), ended.stderr
        assert "PYTHONUTF8=1" in ended.stderr

    def test_names_older_settings(self):
        environ = {"S3_ENDPOINT": "x", "POSTGRES_DSN": "x", "API_PORT": "1", "SLESS_PORT": "1", "HARBOR_PASS": "x", "HARBOR_URL": ""}
        environ |= {"SLESS_HARBOR_PASSWORD_FILE": "/x"}
        expected = ["POSTGRES_DSN is not read; set SLESS_DATABASE_URL instead", "S3_ENDPOINT is not read; set SLESS_S3_ENDPOINT instead"]
        assert sorted(unread_names(environ)) == expected

    def test_the_server_logs_older_settings_at_start(self, ask):
        ended = ask("serve", "--database-url", "nosuch://x", POSTGRES_DSN="postgres://x")
        assert ended.returncode == 1 and "POSTGRES_DSN is not read; set SLESS_DATABASE_URL instead" in ended.stderr

    def test_names_of_clients_stop_nothing(self, ask):
        ended = ask("config", SLESS_API_TOKEN="t", SLESS_ENDPOINT="http://h", SLESS_TOKEN="t")
        assert (ended.returncode, ended.stderr) == (0, "")

    def test_every_older_name_has_a_setting(self):
        assert set(OLDER_NAMES.values()) <= {item.name.upper() for item in fields(Settings)}

    def test_reports_all_errors_at_once(self, ask):
        ended = ask("config", SLESS_PORT="--80", SLESS_HOTS="x")
        assert ended.returncode == 1
        assert "SLESS_PORT: expected a whole number" in ended.stderr
        assert "did you mean SLESS_HOST?" in ended.stderr


def test_a_data_folder_allows_only_one_server(tmp_path):
    from sless.cli import installation
    from sless.errors import ConfigError

    with installation.hold_data_folder(tmp_path):
        code = (
            f"from pathlib import Path; from sless.cli.installation import *; \nwith hold_data_folder(Path({str(tmp_path)!r}), 0.2): pass"
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[3])
        assert f"is in use by another sless server (process {os.getpid()})" in ended.stderr
    with installation.hold_data_folder(tmp_path):
        pass
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot use"), installation.hold_data_folder(tmp_path / "file"):
        pass
