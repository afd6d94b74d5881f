"""Images are built from bases that cannot change by themselves."""

import re
from pathlib import Path

import pytest

from sless.config import Settings

ROOT = Path(__file__).parents[2]
DOCKERFILES = sorted(str(path.relative_to(ROOT)) for path in [ROOT / "Dockerfile", *ROOT.glob("runtimes/*/Dockerfile")])
PINNED = re.compile(r"[a-z]+:[\w.-]+@sha256:[0-9a-f]{64}")


@pytest.mark.parametrize("path", DOCKERFILES)
def test_base_images_are_named_by_digest(path: str) -> None:
    text = (ROOT / path).read_text()
    arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    bases = [re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], base) for base in re.findall(r"^FROM (\S+)", text, re.MULTILINE)]
    loose = [base for base in bases if base != "scratch" and not PINNED.fullmatch(base)]
    assert bases and loose == []


def test_the_go_compiler_is_the_one_of_the_dockerfile() -> None:
    assert f"ARG GO_IMAGE={Settings().runtime_image_go123}\n" in (ROOT / "runtimes/go1.23/Dockerfile").read_text()
