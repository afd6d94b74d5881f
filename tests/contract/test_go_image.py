"""Runs the steps of Go's Dockerfile locally, without a container engine."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sless.builder.go_sources import prepare
from sless.builder.go_toolchain import Toolchain
from tests.conftest import ROOT
from tests.services.product import wait_until

pytestmark = pytest.mark.timeout(300)  # with an empty cache, the standard library is compiled first
RUNTIME = ROOT / "runtimes" / "go1.23"


def stages() -> tuple[str, str]:
    """The build stage and the final stage, with continued lines joined."""
    text = (RUNTIME / "Dockerfile").read_text().replace("\\\n", "")
    _, build, final = re.split(r"^FROM ", text, flags=re.MULTILINE)
    return build, final


def environment_of(stage: str) -> dict[str, str]:
    lines = re.findall(r"^ENV (.*)$", stage, re.MULTILINE)
    return dict(pair.split("=", 1) for line in lines for pair in shlex.split(line))


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serving(program: Path, folder: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = {"SLESS_PORT": str(port), "SLESS_CODE_DIR": str(folder), "SLESS_ENTRYPOINT": "handler.Handle"}
    environment = environment_of(stages()[1]) | given
    process = subprocess.Popen([program], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens(port), "the program listens")
        yield f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        assert process.wait(20) == 0


def test_the_build_stage_produces_a_working_program(tmp_path: Path, go_toolchain: Toolchain, warm_go: None) -> None:
    context, program = tmp_path / "context", tmp_path / "out" / "program"
    shutil.copytree(ROOT / "examples" / "hello-go", context)
    prepare(context, "handler.Handle", RUNTIME)
    program.parent.mkdir()
    # The first step creates the folders. HOME, GOPATH and GOCACHE stay this machine's: its cache is warm.
    _, command = re.findall(r"^RUN (.*)$", stages()[0], re.MULTILINE)
    kept = {name: value for name, value in environment_of(stages()[0]).items() if not value.startswith("/")}
    path = f"{go_toolchain.binary.parent}:{os.environ['PATH']}"
    environment = os.environ | kept | {"GOFLAGS": "", "MOD": "mod", "PATH": path}
    subprocess.run(["sh", "-ec", command.replace("/out/", f"{program.parent}/")], cwd=context, env=environment, check=True, timeout=280)
    with serving(program, context) as url:
        request = urllib.request.Request(url, data=b'{"name": "Ada"}', headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=20) as answer:
            assert json.load(answer)["message"] == "Hello, Ada!"


def test_the_final_image_contains_no_compiler() -> None:
    build, final = stages()
    assert "AS build" in build.splitlines()[0]
    assert final.startswith("${BASE_IMAGE}\n")
    assert re.search(r"^ARG BASE_IMAGE=scratch$", (RUNTIME / "Dockerfile").read_text(), re.MULTILINE)
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", final, re.MULTILINE)
    assert 'ENTRYPOINT ["/program"]' in final
