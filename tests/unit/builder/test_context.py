"""Dockerfiles and build contexts."""

import gzip
import io
import resource
import shlex
import subprocess
import tarfile
from pathlib import Path

import pytest

from sless.builder.context import ImageRecipe, build_args_of, dockerfile_of, env_file_of
from sless.builder.dependencies import Tool
from sless.builder.failures import BuildFailed
from sless.builder.packing import SMALL_BYTES, SMALL_FILES, packed
from tests.contract.backend_harness import MemoryCode
from tests.contract.builder_harness import LocalBuilderHarness

HELLO = {"handler.py": "def handle(event):\n    return 1\n"}
WITH_ENV = "if [ -f /sless-build/env ]; then . /sless-build/env; fi; "


def dockerfile(**fields) -> list[str]:
    return dockerfile_of(ImageRecipe(**{"runtime": "python3.11", "image": "mirror/python:1", **fields})).splitlines()


def test_code_without_dependencies_is_one_layer():
    assert dockerfile() == [
        "ARG RUNTIME_IMAGE=mirror/python:1",
        "FROM ${RUNTIME_IMAGE}",
        "USER 65532:65532",
        "WORKDIR /app/function",
        "COPY code/ /app/function/",
    ]


def test_dependencies_are_a_layer_below_the_code():
    lines = dockerfile(tool=Tool.PIP, manifests=("requirements.txt",))
    assert lines[4] == "COPY --chown=65532:65532 code/requirements.txt /app/function/"
    assert lines[5].startswith(f"RUN {WITH_ENV}python3 -m pip install ")
    assert lines[5].endswith(" --target /app/deps --requirement requirements.txt")
    assert lines[6:] == ["COPY code/ /app/function/"]


def test_code_is_copied_first_for_an_installer_that_needs_it():
    lines = dockerfile(tool=Tool.PIP, manifests=("requirements.txt",), needs_code=True)
    assert lines[4] == "COPY --chown=65532:65532 code/ /app/function/"
    assert len(lines) == 6


def test_lock_file_selects_npm_ci():
    lines = dockerfile(runtime="nodejs20", tool=Tool.NPM_CI, manifests=("package.json", "package-lock.json"))
    assert lines[4] == "COPY --chown=65532:65532 code/package.json code/package-lock.json /app/function/"
    assert lines[5].startswith(f"RUN {WITH_ENV}npm ci --omit=dev ")
    assert "npm install" in dockerfile(runtime="nodejs20", tool=Tool.NPM_INSTALL, manifests=("package.json",))[5]


@pytest.mark.parametrize("tool", [None, *Tool])
def test_nothing_runs_as_root(tool):
    lines = dockerfile(runtime="nodejs20", tool=tool, manifests=("package.json",))
    assert lines.index("USER 65532:65532") < min([n for n, line in enumerate(lines) if line.startswith("RUN")], default=9)


def test_base_images_are_arguments():
    assert build_args_of(ImageRecipe(runtime="python3.11", image="mirror.example/python:1")) == {"RUNTIME_IMAGE": "mirror.example/python:1"}
    go = build_args_of(ImageRecipe(runtime="go1.23", image="golang:1.23", vendored=True))
    assert go == {"GO_IMAGE": "docker.io/library/golang:1.23", "MOD": "vendor"}


def test_env_file_quotes_values_for_the_shell():
    values = {"A": 'it\'s $HOME `id` "x"', "B": "two\nlines", "C": ""}
    script = env_file_of(values) + 'printf "%s|%s|%s" "$A" "$B" "$C"'
    assert subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout == "|".join(values.values())
    assert shlex.split(env_file_of({"A": "b c"})) == ["export", "A=b c"]


# --- packing ---------------------------------------------------------------------------------------------------------------------------


def unpacked(path: Path) -> dict[str, tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(path.read_bytes()))) as archive:
        return {item.name: item for item in archive.getmembers()}


def pack(files, *, executable=(), small_bytes=0, **fields):
    code = MemoryCode()
    return packed(
        code, LocalBuilderHarness.spec_of(code_key=code.add(files, executable=executable), **fields), "img", small_bytes=small_bytes
    )


def test_a_context_holds_the_dockerfile_and_the_code():
    with pack({**HELLO, "bin/tool": "#!/bin/sh\n", "requirements.txt": "six\n"}, executable=("bin/tool",)) as context:
        members = unpacked(context.path)
        assert (context.form, context.tool, context.manifest) == ("image", "pip", "requirements.txt")
    assert sorted(members) == ["Dockerfile", "code/bin/tool", "code/handler.py", "code/requirements.txt"]
    assert (members["code/bin/tool"].mode, members["code/handler.py"].mode) == (0o755, 0o644)
    assert {(item.uid, item.mtime) for item in members.values()} == {(0, 0)}
    assert not context.path.exists(), "gone at the end"


def test_equal_uploads_give_equal_contexts():
    digests = set()
    for _ in range(2):
        with pack({**HELLO, "requirements.txt": "six\n"}) as context:
            digests.add(context.sha256)
    assert len(digests) == 1


def children() -> int:
    """Grows when a child process of this one has ended."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def test_only_much_code_is_packed_by_a_child_process():
    before = children()
    with pack(HELLO, small_bytes=700 * 1024) as context:
        assert (context.form, children()) == ("code", before)
    for files in ({**HELLO, "data": "x" * SMALL_BYTES}, {**HELLO, **{f"{n}.py": "" for n in range(SMALL_FILES)}}):
        before = children()
        with pack(files, small_bytes=700 * 1024) as context:
            assert context.form == "code"
            assert children() > before


@pytest.mark.parametrize("more", [{}, {f"{n}.js": "" for n in range(SMALL_FILES)}], ids=["small", "large"])
def test_a_manifest_that_is_nested_too_deeply_is_reported_to_the_user(more):
    files = {**HELLO, "package.json": '{"a": ' + "[" * 100_000, **more}
    with pytest.raises(BuildFailed, match=r"package\.json is not valid JSON: maximum recursion depth"), pack(files, runtime="nodejs20"):
        pass


def test_small_code_without_dependencies_is_not_built():
    with pack(HELLO, small_bytes=700 * 1024) as context:
        assert (context.form, sorted(unpacked(context.path))) == ("code", ["handler.py"])
    with pack({**HELLO, "requirements.txt": "# none\n"}, small_bytes=700 * 1024) as context:
        assert context.form == "code"


@pytest.mark.parametrize(
    ("files", "fields"),
    [
        ({**HELLO, "requirements.txt": "six\n"}, {}),
        ({"handler.js": "x", "package.json": '{"dependencies": {"a": "1"}}'}, {"runtime": "nodejs20"}),
        ({"handler.go": "package main\n\nfunc Handle(e any) any { return e }\n"}, {"runtime": "go1.23", "entrypoint": "handler.Handle"}),
    ],
)
def test_code_to_install_or_compile_becomes_an_image(files, fields):
    with pack(files, small_bytes=700 * 1024, **fields) as context:
        assert context.form == "image"


def test_code_over_the_limit_becomes_an_image():
    with pack(HELLO, small_bytes=50) as context:
        assert context.form == "image"


def test_go_context_is_prepared_for_its_dockerfile():
    files = {"handler.go": "package main\n\nfunc Handle(e any) any { return e }\n", "node_modules/x": "y"}
    with pack(files, runtime="go1.23", entrypoint="handler.Handle") as context:
        members = unpacked(context.path)
    assert {"code/go.mod", "code/sless_entry_main/main.go", "code/sless_runtime/main.go"} <= set(members)
    assert not any("node_modules" in name for name in members)
    assert "go build -mod=${MOD}" in context.dockerfile and context.functions == ["Handle"]


def test_unreadable_manifest_is_reported_to_the_user():
    with pytest.raises(BuildFailed, match=r"package\.json is not valid JSON"), pack({"package.json": "{oops"}, runtime="nodejs20"):
        pass
