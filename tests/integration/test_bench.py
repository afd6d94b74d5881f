"""Each benchmark group starts, measures for a moment and prints its rows."""

import shutil
import subprocess
import sys

import pytest

from tests.bench.__main__ import GROUPS
from tests.services import unavailable
from tests.services.product import ROOT

pytestmark = [pytest.mark.xdist_group("bench"), pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_measures(group: str) -> None:
    for program, package in (("wrk", "wrk"), ("nginx", "nginx-light")):
        if shutil.which(program) is None:
            unavailable(program, package)
    command = [sys.executable, "-m", "tests.bench", group, "--moment"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=880)
    assert done.returncode == 0, done.stderr
    assert "| measured |" in done.stdout and "not measured" not in done.stdout
