"""Each benchmark group starts, measures for a moment and prints its rows."""

import re
import shutil
import subprocess
import sys

import pytest
from click.testing import CliRunner

from tests.bench.__main__ import GROUPS, main
from tests.services import unavailable
from tests.services.product import ROOT

COMMANDS = frozenset({"starts", "cluster"})
"""Groups that run in a separate process, as with `make bench`; the others run in this one, which has imported most of what they need."""
pytestmark = [pytest.mark.xdist_group("bench"), pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_measures(group: str) -> None:
    for program, package in (("wrk", "wrk"), ("nginx", "nginx-light")):
        if shutil.which(program) is None:
            unavailable(program, package)
    if group in COMMANDS:
        command = [sys.executable, "-m", "tests.bench", group, "--moment"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=880)
        code, printed, errors = done.returncode, done.stdout, done.stderr
    else:
        result = CliRunner().invoke(main, [group, "--moment"], catch_exceptions=False)
        code, printed, errors = result.exit_code, result.stdout, result.stderr
    assert code == 0, errors
    assert re.search(r"\| measured +\|", printed) and "not measured" not in printed
