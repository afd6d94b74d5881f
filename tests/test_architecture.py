"""Checks the repository against the architecture rules, and each rule against a violation."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import architecture_rules as rules
from tests.architecture_rules import Source

ROOT = Path(__file__).resolve().parent.parent

# file:function → why it catches any exception. All other handlers name the exceptions they expect.
BLIND_EXCEPTS: dict[str, str] = {
    "sless/store/signals.py:Signals._run": "top of the listening thread; the driver raises many kinds, and loops also poll",
    "sless/app/lifecycle.py:run_steps": "a step that fails must not skip the others",
    "sless/asgi/application.py:Application._http": "edge of a request: becomes a 500 with a request id, logged",
    "sless/asgi/application.py:Application._lifespan": "edge of start and stop: reported to the server, which ends",
    "sless/asgi/overviews.py:Overviews._update": "body of the loop: a failed read must not end the updates of all open pages, logged",
    "sless/backend/kubernetes/observer.py:Observer._observe": "body of the loop: a failed observation changes nothing, logged",
    "sless/backend/kubernetes/run_log.py:RunLogs._conclude": "top of a pool thread: the run ends with a message, logged",
    "sless/backend/kubernetes/runs.py:KubernetesRuns._end": "a listener's mistake must not keep the others from being notified",
    "sless/backend/kubernetes/writer.py:Writer._do": "top of a pool thread: the write has failed with a message, logged",
    "sless/backend/runs.py:LocalRuns._guard": "top of a pool thread: ends the run with a message",
    "sless/backend/runs.py:LocalRuns._conclude": "a listener's mistake must not keep the run's folder and slot",
    "sless/backend/supervisor.py:Supervisor._serve": "loop's edge: one bad tick must not end supervision",
    "sless/backend/supervisor.py:Supervisor._start_now": "top of a pool thread: becomes the instance's end reason",
    "sless/builder/kubernetes.py:KubernetesBuilder._build_image": "top of a thread: the build fails with a message, logged",
    "sless/builder/local.py:LocalBuilder._build_artifact": "top of a pool thread: the build fails with a message, logged",
    "sless/dev/reloads.py:Reloads._run": "top of a thread: the next save tries again, logged",
    "sless/host/memory.py:MemoryWatch._serve": "loop's edge: the watch continues",
    "sless/host/process.py:Processes._serve": "loop's edge: the other children are still served",
    "sless/proxy/history_sink.py:SinkLink._write": "loop's edge: the batch is kept and retried",
    "sless/proxy/routes.py:RouteTable._poll": "loop's edge: the routes in memory stay",
    "sless/reconcile/builds.py:BuildsLoop._isolated": "one failing build backs off and never stops the others",
    "sless/reconcile/builds.py:BuildsLoop._start": "one build that cannot start fails and never stops the others",
    "sless/reconcile/instances.py:InstancesLoop._apply": "one failing workload backs off and never stops the others",
    "sless/reconcile/listener.py:Listener._listen": "loop's edge: the listener continues on another channel",
    "sless/reconcile/consumer.py:QueueConsumer._handle": "top of a task: the channel is closed, so that the message is requeued",
    "sless/reconcile/loop.py:Loops._tick": "loop's edge: the next tick works from the whole state",
    "sless/reconcile/callbacks.py:CallbacksLoop._send": "top of a pool thread: the callback stays due",
    "sless/reconcile/runs.py:RunsLoop._start": "one run that cannot start fails and never stops the others",
    "sless/proxy/accepting.py:Acceptor._try": "a batch's failure is raised in each call that waits for it",
    "sless/store/history_process.py:HistoryWriter._write_part": "loop's edge: refused rows must not block the rest, logged",
    "sless/terraform/servicer.py:_answer": "edge of a call of the plugin protocol: becomes a diagnostic",
    "sless/children.py:_run_forked": "top of a process: it ends and never returns into the copied stack, traceback printed",
    "sless/server/cycle.py:Cycle.run_asgi": "edge of a connection: it is closed, logged",
}


@pytest.fixture(scope="module")
def package() -> list[Source]:
    return rules.read_sources(ROOT, ["sless"], {".py"})


@pytest.fixture(scope="module")
def runtimes() -> list[Source]:
    return rules.read_sources(ROOT, ["runtimes"], {".py"})


@pytest.fixture(scope="module")
def measured(package: list[Source], runtimes: list[Source]) -> list[Source]:
    scripts = rules.read_sources(ROOT, ["runtimes", "static"], {".js", ".mjs", ".go"})
    return package + runtimes + scripts + rules.read_sources(ROOT, [".ci/release"], {".py", ".js"})


def expect_none(violations: list[str]) -> None:
    assert not violations, "\n" + "\n".join(violations)


class TestRepository:
    def test_sources_are_found(self, package, runtimes, measured):
        assert len(package) > 10
        assert runtimes
        assert {source.path.suffix for source in measured} >= {".py", ".mjs", ".go"}

    def test_every_part_has_a_row(self, package):
        expect_none(rules.unknown_parts(package))

    def test_imports_follow_the_table(self, package):
        expect_none(rules.table_violations(package))

    def test_no_import_cycles(self, package):
        expect_none(rules.cycles(package))

    def test_each_library_has_one_home(self, package):
        expect_none(rules.library_violations(package))

    def test_runtimes_need_the_standard_library_only(self, runtimes):
        expect_none(rules.runtime_import_violations(runtimes))

    def test_the_environment_is_read_in_one_place(self, package):
        expect_none(rules.environment_violations(package))

    def test_each_package_has_a_charter(self, package):
        expect_none(rules.charter_violations(package))

    def test_blind_excepts_are_listed_with_a_reason(self, package):
        expect_none(rules.blind_except_violations(package, BLIND_EXCEPTS))
        assert all(len(reason) > 15 for reason in BLIND_EXCEPTS.values())

    def test_blind_excepts_of_runtimes_are_explained(self, runtimes):
        expect_none(rules.unexplained_blind_excepts(runtimes))

    def test_suppressed_warnings_are_explained(self, package, runtimes):
        expect_none(rules.unexplained_suppressions(package + runtimes))

    def test_files_are_short(self, measured):
        expect_none(rules.file_length_violations(measured))

    def test_functions_are_short(self, measured):
        expect_none(rules.function_length_violations(measured))


def source(path: str, text: str = "") -> Source:
    return Source(Path(path), text)


PACKAGES = [source(f"sless/{name}/__init__.py") for name in ("domain", "store", "http", "usecases", "proxy", "reconcile")]


class TestImportTable:
    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("sless/domain/spec.py", "from sless.store import tables"),
            ("sless/domain/spec.py", "from sless import store"),
            ("sless/http/functions.py", "import sless.store.tables"),
            ("sless/http/functions.py", "def view():\n    from ..store import tables"),
            ("sless/http/__init__.py", "from ..store import tables"),
            ("sless/proxy/forward.py", "from sless.http import errors"),
            ("sless/usecases/workloads.py", "import sless.proxy"),
            ("sless/store/engine.py", "import sless.app"),
            ("sless/config.py", "from sless.domain import model"),
            ("sless/server.py", "from sless import http"),
            ("sless/__init__.py", "from sless import errors"),
        ],
    )
    def test_a_forbidden_import_is_reported(self, path: str, text: str):
        assert len(rules.table_violations([*PACKAGES, source(path, text)])) == 1

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("sless/domain/spec.py", "from sless import errors\nfrom sless.domain.model import Function\nfrom . import phase"),
            ("sless/http/functions.py", "from sless.usecases import workloads\nimport flask\nimport json"),
            ("sless/reconcile/loop.py", "from sless.store import lease\nfrom sless.proxy import routes"),
            ("sless/app.py", "from sless import http, store, reconcile"),
            ("sless/errors.py", "from sless.ids import new_id"),
        ],
    )
    def test_an_allowed_import_is_not_reported(self, path: str, text: str):
        assert rules.table_violations([*PACKAGES, source(path, text)]) == []

    def test_a_new_part_needs_a_row(self):
        assert rules.unknown_parts([source("sless/utils/__init__.py"), source("sless/helpers.py")]) == [
            "sless/utils/__init__.py: the import table has no row for utils",
            "sless/helpers.py: the import table has no row for helpers",
        ]


class TestOtherRules:
    def test_a_cycle_is_reported(self):
        first, second, third = (
            source("sless/store/a.py", "from sless.store.b import x"),
            source("sless/store/b.py", "def f():\n    from . import c"),
            source("sless/store/c.py", "import sless.store.a"),
        )
        assert rules.cycles([first, second, third]) == ["import cycle: sless.store.a → sless.store.b → sless.store.c → sless.store.a"]
        assert rules.cycles([first, second, source("sless/store/c.py", "import json")]) == []

    def test_two_cycles_through_one_module_are_both_reported(self):
        found = rules.cycles(
            [
                source("sless/a.py", "import sless.b\nimport sless.c"),
                source("sless/b.py", "import sless.a"),
                source("sless/c.py", "import sless.a"),
            ]
        )
        assert len(found) == 2

    @pytest.mark.parametrize(
        ("path", "text", "message"),
        [
            ("sless/http/__init__.py", "import kubernetes", "kubernetes is imported in sless.kube only"),
            ("sless/code/folder.py", "from botocore.config import Config", "botocore is imported in sless.code.s3 only"),
            ("sless/kube2.py", "import kubernetes.client", "kubernetes is imported in sless.kube only"),
            ("sless/store/engine.py", "def f():\n    import numpy", "numpy has no home in LIBRARY_HOMES"),
        ],
    )
    def test_a_library_outside_its_home_is_reported(self, path: str, text: str, message: str):
        assert [found.split(": ", 1)[1] for found in rules.library_violations([source(path, text)])] == [message]

    def test_a_library_at_home_is_allowed(self):
        assert rules.library_violations([source("sless/code/s3.py", "import boto3\nimport os.path\nfrom . import folder")]) == []

    def test_a_runtime_may_not_import_packages_or_other_runtimes(self):
        runtime = source("runtimes/python3.11/runtime.py", "import socket\nimport inside.loop\nimport requests")
        own = source("runtimes/python3.11/inside/loop.py", "from . import events\nfrom inside import events")
        other = source("runtimes/python2.7/inside/loop.py")
        assert [found.rsplit(" ", 1)[1] for found in rules.runtime_import_violations([runtime, own, other])] == ["requests"]
        assert len(rules.runtime_import_violations([runtime, other])) == 2

    @pytest.mark.parametrize(
        "text", ["import os\nos.environ['A']", "import os\nos.getenv('A')", "from os import path, environ", "import os as system"]
    )
    def test_reading_the_environment_elsewhere_is_reported(self, text: str):
        assert len(rules.environment_violations([source("sless/store/engine.py", text)])) == 1
        assert rules.environment_violations([source("sless/config.py", text), source("sless/cli/serve.py", text)]) == []

    def test_a_missing_or_short_charter_is_reported(self):
        assert rules.charter_violations([source("sless/store/__init__.py", '"""Store."""')])
        assert rules.charter_violations([source("sless/store/__init__.py", "X = 1")])
        assert not rules.charter_violations([source("sless/store/__init__.py", f'"""{"Why. " * 20}"""')])

    @pytest.mark.parametrize(
        "text",
        [
            "def f():\n    try:\n        g()\n    except Exception:\n        pass",
            "def f():\n    try:\n        g()\n    except:\n        pass",
            "def f():\n    try:\n        g()\n    except (ValueError, BaseException) as error:\n        log(error)",
            "def f():\n    with contextlib.suppress(Exception):\n        g()",
        ],
    )
    def test_a_blind_except_is_reported_unless_it_is_listed(self, text: str):
        place = "sless/store/engine.py:f"
        engine = source("sless/store/engine.py", text)
        assert len(rules.blind_except_violations([engine], {})) == 1
        assert rules.blind_except_violations([engine], {place: "a reason"}) == []
        assert rules.blind_except_violations([source("sless/store/engine.py")], {place: "a reason"}) != []

    @pytest.mark.parametrize(
        "handler",
        [
            "except ValueError:\n    pass",
            "except BaseException:\n    undo()\n    raise",
            "except Exception as e:\n    raise X from e",
        ],
    )
    def test_narrow_or_raising_excepts_are_allowed(self, handler: str):
        assert rules.blind_except_violations([source("sless/x.py", f"try:\n    g()\n{handler}")], {}) == []

    def test_a_blind_except_without_a_reason_is_reported(self):
        unexplained = "try:\n    g()\nexcept BaseException as error:\n    log(error)"
        explained = unexplained.replace("error:", "error:  # a handler may raise anything")
        assert len(rules.unexplained_blind_excepts([source("runtimes/x/y.py", unexplained)])) == 1
        assert rules.unexplained_blind_excepts([source("runtimes/x/y.py", explained)]) == []

    def test_a_file_over_300_lines_is_reported(self):
        assert rules.file_length_violations([source("sless/x.py", "x = 1\n" * 300)]) == []
        assert len(rules.file_length_violations([source("static/x.js", "x = 1\n" * 301)])) == 1

    def test_a_long_python_function_is_reported(self):
        assert rules.function_length_violations([source("sless/x.py", "def f():\n" + "    x = 1\n" * 48)]) == []
        assert (
            len(rules.function_length_violations([source("sless/x.py", "class A:\n    async def f(self):\n" + "        x = 1\n" * 49)]))
            == 1
        )

    @pytest.mark.parametrize(
        "head",
        [
            "export async function load(event) {",
            "const load = async (event) => {",
            "  async load(event, context) {",
            "server.on('request', (request, response) => {",
            "  static #load(event) {",
        ],
    )
    def test_a_long_script_function_is_reported(self, head: str):
        indent = head[: len(head) - len(head.lstrip())]
        body = f"{indent}  if (x) {{\n{indent}    y()\n{indent}  }}\n"
        long = f"{head}\n{body * 16}{indent}}}\n"
        assert len(rules.function_length_violations([source("static/x.mjs", long)])) == 1
        go = "func (c *call) run(a int) error {\n" + "\tx()\n" * 50 + "}\n"
        assert len(rules.function_length_violations([source("runtimes/x/x.go", go)])) == 1
        assert rules.function_length_violations([source("static/x.mjs", f"{head}\n{body * 15}{indent}}}\n")]) == []

    @pytest.mark.parametrize("mark", ["noqa: N802", "noqa", "type: ignore", "type: ignore[misc]", "type: ignore[a, b]  # why"])
    def test_a_suppressed_warning_without_a_reason_is_reported(self, mark: str):
        assert len(rules.unexplained_suppressions([source("sless/x.py", f"a = 1  # {mark}\n")])) == 1
        assert rules.unexplained_suppressions([source("sless/x.py", f"a = 1  # {mark}  # the base class has other types\n")]) == []

    def test_a_long_block_is_not_a_function(self):
        text = "if (x) {\n" + "  y()\n" * 60 + "}\nfor (const a of b) {\n" + "  y()\n" * 60 + "} \n"
        assert rules.function_length_violations([source("static/x.js", text)]) == []


def test_ruff_checks_every_python_file():
    """A pattern in ruff's `extend-exclude` matches a folder of that name anywhere, unless it has a slash."""
    listed = subprocess.run(
        [Path(sys.prefix, "bin", "ruff"), "check", "--show-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    tracked = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    unseen = {ROOT / path for path in tracked.stdout.splitlines()} - set(map(Path, listed.stdout.splitlines()))
    assert {path for path in unseen if path.exists()} == set()


@pytest.mark.parametrize("part", ["domain", "store", "kube", "backend", "backend/kubernetes", "builder", "code", "proxy", "reconcile"])
def test_a_charter_that_lists_modules_lists_them_all(part: str):
    folder = ROOT / "sless" / part
    charter = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    assert [path.stem for path in sorted(folder.glob("*.py")) if path.stem != "__init__" and f"`{path.stem}`" not in charter] == []


WALK = re.compile(r"^- `(?P<path>[\w/]+\.py)` `(?P<name>[\w.]+)`: ", re.MULTILINE)


def names_in(path: Path) -> set[str]:
    """Functions and classes of a file, methods as `Class.method`."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{item.name}" for item in node.body if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)}
    return found


def test_the_walks_in_contributing_name_files_and_functions_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text().split("## Four walks")[1].split("\n## ")[0]
    walks = text.split("\n### ")[1:]
    assert [len(WALK.findall(walk)) >= 10 for walk in walks] == [True] * 4
    assert len(WALK.findall(text)) == text.count("\n- ")
    missing = [f"{path}: {name}" for path, name in WALK.findall(text) if not (ROOT / path).is_file() or name not in names_in(ROOT / path)]
    assert missing == []
    assert [path for path in re.findall(r"`(sless/[\w/]+\.py)`", text) if not (ROOT / path).is_file()] == []


def test_each_migration_follows_the_one_before():
    """Two changes that land at the same time may both take the next number; no database could be opened then."""
    texts = {path.name: path.read_text() for path in sorted((ROOT / "sless/store/migrations/versions").glob("v*.py"))}
    found = [(name[1:5], *re.findall(r'^(?:down_)?revision = "?(\w+)"?$', text, re.MULTILINE)) for name, text in texts.items()]
    numbers = [f"{number:04}" for number in range(1, len(found) + 1)]
    assert found == [(own, own, before) for own, before in zip(numbers, ["None", *numbers], strict=False)]
    assert f'HEAD = "{numbers[-1]}"' in (ROOT / "sless/store/migrations/__init__.py").read_text()
