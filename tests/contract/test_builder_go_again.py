"""Rebuilds of a Go function: faster when only code changed, always identical to the go command's output."""

import os
import re
import threading
from collections.abc import Iterator, Mapping

import pytest

from tests.contract.backend_harness import wait_until
from tests.contract.builder_harness import LocalBuilderHarness
from tests.contract.test_builder_go import GO, HANDLE

pytestmark = [pytest.mark.timeout(300), pytest.mark.slow, pytest.mark.xdist_group("go-again")]

SOAK = "TEST_SOAK_MESSAGES" in os.environ
AGAIN, IN_FULL = "go: compiled what changed", "go build: compiling with"
Files = dict[str, str]

BASE: Files = {
    "go.mod": "module example.com/app\n\ngo 1.23\n",
    "handler.go": 'package handler\n\nimport "example.com/app/inner"\n\nfunc Handle(event any) any { return inner.Word + "one" }\n',
    "more.go": "package handler\n\nvar more = 1\n",
    "inner/inner.go": 'package inner\n\nimport (\n\t_ "embed"\n\t"strings"\n)\n\n//go:embed data.txt\nvar data string\n\n'
    'const Word = "word"\n\nvar Up = strings.ToUpper(data)\n',
    "inner/data.txt": "data",
    "inner/inner_test.go": "package inner\n",
    "apart/apart.go": "package apart\n",
}  # fmt: skip


class Builds:
    def __init__(self, harness: LocalBuilderHarness, plain: LocalBuilderHarness) -> None:
        self.harness, self.plain = harness, plain

    def learn(self, files: Mapping[str, str], **fields: str) -> None:
        assert self.build(files, **fields) == IN_FULL

    def build(self, files: Mapping[str, str], **fields: str) -> str:
        """Returns how it was compiled, AGAIN or IN_FULL; output and errors must equal those of the go command."""
        spec, status = self.harness.build(files, **GO | fields)
        plain, expected = self.plain.build(files, **GO | fields)
        assert (status.ready, status.message) == (expected.ready, expected.message)
        if expected.ready:
            ours, theirs = (
                harness.material_of(built, ended).program.read_bytes()
                for harness, built, ended in ((self.harness, spec, status), (self.plain, plain, expected))
            )
            assert without_id(ours) == without_id(theirs)
        wait_until(lambda: all(thread.name != f"build-{spec.id}" for thread in threading.enumerate()), "it has learnt", 60)
        return AGAIN if self.harness.log[spec.id][0].startswith(AGAIN) else IN_FULL


def without_id(program: bytes) -> bytes:
    return re.sub(rb"[\w-]{20}/[\w-]{20}/[\w-]{20}/[\w-]{20}", b"", program, count=1)


@pytest.fixture(scope="module")
def plain(warm_go: None) -> Iterator[LocalBuilderHarness]:
    """Compiles the same code once for all tests: it has nothing to learn."""
    harness = LocalBuilderHarness()
    yield harness
    harness.close()


@pytest.fixture
def builds(plain: LocalBuilderHarness) -> Iterator[Builds]:
    harness = LocalBuilderHarness(again=True)
    yield Builds(harness, plain)
    harness.close()


def edited(files: Files, path: str, old: str, new: str) -> Files:
    assert old in files[path]
    return {**files, path: files[path].replace(old, new)}


def test_changed_code_is_recompiled(builds):
    builds.learn(BASE)
    for path, old, new in (
        ("handler.go", '"one"', '"two"'),
        ("inner/inner.go", '"word"', '"other"'),  # Its value is compiled into its importers.
        ("inner/inner.go", "const Word =", "func init() { println(data) }\n\nvar Word ="),
        ("more.go", "var more = 1", "var less = 2"),
        ("handler.go", 'import "example.com/app/inner"', 'import (\n\t"example.com/app/inner"\n)'),
    ):
        assert builds.build(edited(BASE, path, old, new)) == AGAIN, (path, new)
    alone = edited(edited(BASE, "handler.go", 'import "example.com/app/inner"', ""), "handler.go", "inner.Word + ", "")
    assert builds.build(alone) == AGAIN, "a package less"
    both = {**BASE, "handler.go": BASE["handler.go"].replace("one", "three"), "more.go": "package handler\n\nvar x = 3\n"}
    assert builds.build(both) == AGAIN


NEED_GO = {
    "import": ("handler.go", 'import "example.com/app/inner"', 'import "example.com/app/inner"\nimport _ "fmt"'),
    "tag": ("more.go", "package", "//go:build !sless_hooks\n\npackage"),
    "embedded file": ("inner/data.txt", "data", "other"),
    "left out": ("more.go", "package", "//go:build ignore\n\npackage"),
    "embedded pattern": ("inner/inner.go", "embed data.txt", "embed inner_test.go"),
    "test file": ("inner/inner_test.go", "package inner", "package inner // more"),
    "go.mod": ("go.mod", "1.23", "1.22"),
    "package not in the program": ("apart/apart.go", "package apart", "package apart // more"),
}  # fmt: skip
IN_SHORT = 3
"""Each takes five seconds; only `make soak` runs these."""


@pytest.mark.parametrize(
    ("path", "old", "new"), [pytest.param(*NEED_GO[name], id=name) for name in list(NEED_GO)[: None if SOAK else IN_SHORT]]
)
def test_changes_that_need_the_go_command_are_built_in_full(builds, path, old, new):
    builds.learn(BASE)
    changed = edited(BASE, path, old, new)
    assert builds.build(changed) == IN_FULL
    assert builds.build(edited(changed, "handler.go", "one", "two")) == AGAIN, "the full build produced a new recipe"


def test_added_and_removed_files(builds):
    builds.learn(BASE)
    assert builds.build({**BASE, "new.go": "package handler\n\nvar fresh = 1\n"}) == IN_FULL
    assert builds.build({path: text for path, text in BASE.items() if path != "more.go"}) == IN_FULL
    assert builds.build({**BASE, "notes.txt": "x"}) == IN_FULL


def test_another_entrypoint(builds):
    files = {**BASE, "more.go": "package handler\n\nfunc Other(event any) any { return 2 }\n"}
    builds.learn(files)
    assert builds.build(files, entrypoint="handler.Other") == AGAIN, "only the main package differs"


def test_mistakes_get_the_go_commands_errors_and_corrections_are_fast(builds):
    builds.learn(BASE)
    assert builds.build(edited(BASE, "handler.go", "inner.Word", "inner.Words")) == IN_FULL
    assert builds.build(edited(BASE, "handler.go", "one", "two")) == AGAIN
    assert builds.build(edited(BASE, "inner/inner.go", "Word", "Term")) == IN_FULL
    assert builds.build(edited(BASE, "handler.go", "one", "three")) == AGAIN


def test_a_main_package_and_vendored_modules(builds):
    files = {
        "go.mod": "module example.com/app\n\ngo 1.21\n\nrequire example.com/greeting v1.2.0\n",
        "main.go": f'package main\n\nimport "example.com/greeting"\n\nvar text = greeting.Text\n\nfunc main() {{}}\n\n{HANDLE}',
        "vendor/modules.txt": "# example.com/greeting v1.2.0\n## explicit; go 1.21\nexample.com/greeting\n",
        "vendor/example.com/greeting/greeting.go": 'package greeting\n\nconst Text = "vendored"\n',
    }
    builds.learn(files)
    assert builds.build(edited(files, "main.go", "return event", "return text")) == AGAIN
    assert builds.build(edited(files, "vendor/example.com/greeting/greeting.go", "vendored", "new")) == IN_FULL


def test_assembly_needs_the_go_command(builds):
    files = {
        **BASE,
        "inner/add.go": "package inner\n\nfunc Add() int\n",
        "inner/add_amd64.s": '#include "textflag.h"\n\nTEXT ·Add(SB), NOSPLIT, $0-8\n\tMOVQ $1, ret+0(FP)\n\tRET\n',
    }
    if builds.plain.build(files, **GO)[1].ready:
        builds.learn(files)
        assert builds.build(edited(files, "handler.go", "one", "two")) == IN_FULL
