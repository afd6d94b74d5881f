"""The modules that a server loads before it is ready, which takes most of the time of a start."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sless import app
from sless.config import Settings

LATER = (
    "alembic", "aiormq", "bandit", "boto3", "botocore", "cryptography.x509", "flask", "jinja2", "jsonschema", "jwt", "kubernetes",
    "psycopg", "requests", "urllib3", "werkzeug", "yaml", "sless.backend.kubernetes", "sless.builder.kubernetes", "sless.client",
    "sless.dev", "sless.http", "sless.kube", "sless.terraform", "sless.validators.llm",
)  # fmt: skip
"""Not needed for the first call on one machine."""
MOST_MODULES = 820
"""802 today. Loading takes about half a millisecond each."""
START = """
import json, sys
from pathlib import Path
from sless.cli import main, server_commands
from sless import app, log, server
from sless.config import Settings
app.build(Settings(data_dir=Path(sys.argv[1]), run_dir=Path(sys.argv[2]), auth_mode="local", local_sandbox="none"))
print(json.dumps(list(sys.modules)))
"""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Names of the modules of a process that has everything for `sless serve` but has not started it."""
    data_dir, run_dir = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("run")
    app.migrate(Settings(data_dir=data_dir, run_dir=run_dir, auth_mode="local"))
    root = Path(__file__).resolve().parents[3]
    ended = subprocess.run([sys.executable, "-c", START, data_dir, run_dir], cwd=root, capture_output=True, text=True, check=True)
    names: list[str] = json.loads(ended.stdout)
    return names


def test_modules_that_a_first_call_does_not_need_are_loaded_later(loaded: list[str]) -> None:
    assert [name for name in LATER if name in loaded] == []


def test_a_start_loads_few_modules(loaded: list[str]) -> None:
    assert len(loaded) <= MOST_MODULES
