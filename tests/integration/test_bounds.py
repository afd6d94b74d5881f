"""sless serves a function with the lowest and the highest versions that setup.cfg allows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.services import unavailable
from tests.services.product import ROOT, free_port, new_place

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
# Shortly after `make lock` these are the versions that all other tests use.
LATER = pytest.mark.skipif("TEST_SOAK_MESSAGES" not in os.environ, reason="half a minute; part of make soak")
UV = Path(sys.executable).with_name("uv")


@pytest.fixture
def index() -> dict[str, str]:
    """Package index settings for uv, which does not read pip's."""
    asked = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
    url = os.environ.get("PIP_INDEX_URL") or asked.stdout.strip()
    return {"UV_DEFAULT_INDEX": url} if url else {}


@pytest.mark.parametrize("resolution", ["lowest-direct", pytest.param("highest", marks=LATER)])
def test_a_function_is_served(resolution: str, index: dict[str, str], tmp_path: Path) -> None:
    if not UV.exists():
        unavailable("uv", "nothing: make venv")
    environment = tmp_path / "venv"
    install = [UV, "pip", "install", "-q", "-p", environment / "bin" / "python", "--resolution", resolution, "-r", ROOT / "setup.cfg"]
    for command in ([UV, "venv", "-q", "-p", sys.executable, environment], install):
        done = subprocess.run(command, env=index | os.environ, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
    with new_place(tmp_path) as place:
        demo = [environment / "bin" / "python", ROOT / "sless.py", "demo", "--exit", "--port", str(free_port())]
        done = subprocess.run(demo, env=place.environ, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        assert '"message": "Hello, Ada!"' in done.stdout
