"""Images are built from bases that cannot change by themselves."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted(str(path.relative_to(ROOT)) for path in [ROOT / "Dockerfile", *ROOT.glob("runtimes/*/Dockerfile")])
COMPILER = "golang:1.23"
"""Comes from the setting RUNTIME_IMAGE_GO123 and is in no image that runs."""


@pytest.mark.parametrize("path", DOCKERFILES)
def test_base_images_are_named_by_digest(path: str) -> None:
    text = (ROOT / path).read_text()
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    bases = [re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], base) for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE)]
    loose = [base for base in bases if base not in ("scratch", COMPILER) and not re.fullmatch(r"[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}", base)]
    assert bases and loose == []
