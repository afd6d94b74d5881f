"""Child processes that start with every upload or build import little, because their start takes most of their time."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("module", ["sless.code.intake_child", "sless.builder.context_child", "sless.validators.rules_child"])
def test_a_child_imports_nothing_of_the_server(module: str):
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {module}; print(*sys.modules, sep=chr(10))"
    shown = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert module in shown
    heavy = {"sqlalchemy", "prometheus_client", "requests", "sless.host.process", "sless.builder.local", "sless.validators.chain"}
    assert not heavy & set(shown)
