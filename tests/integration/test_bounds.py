"""sless serves a function with the lowest and the highest versions that pyproject.toml allows."""

import subprocess
from pathlib import Path

import pytest

from tests.services import uv
from tests.services.product import ROOT, free_port, new_place

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("resolution", ["lowest-direct", "highest"])
def test_a_function_is_served(resolution: str, tmp_path: Path) -> None:
    python = uv.make_environment(tmp_path / "venv", "--resolution", resolution, "-r", ROOT / "pyproject.toml", "--extra", "server")
    with new_place(tmp_path) as place:
        demo = [python, ROOT / "sless.py", "demo", "--exit", "--port", str(free_port())]
        done = subprocess.run(demo, env=place.environ, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stdout + done.stderr
        assert '"message": "Hello, Ada!"' in done.stdout
