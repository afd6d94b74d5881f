"""Fixtures for all tests: a clean environment and real services (see `tests/services`)."""

import gc
import os
import re
import shutil
import subprocess
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sless.builder.failures import BuildFailed
from sless.builder.go_toolchain import Toolchain, find_toolchain
from tests.conformance.go_programs import go_program
from tests.kube.cluster import _kube_server, kube_cluster  # noqa: F401 - fixtures
from tests.services import unavailable
from tests.services.postgres import PostgresServer
from tests.services.product import Product
from tests.services.rabbitmq import RabbitServer
from tests.services.registry import RegistryServer
from tests.services.s3 import S3Server

ROOT = Path(__file__).resolve().parent.parent
NODE_MAJOR = 20
LOG_CHARACTERS = 6000
NAME_CHARACTERS = 80
LONGEST_FIRST = (
    "terraform", "kubernetes", "replicas", "async", "restartable", "kill", "events-soak", "package", "demo", "conformance-product",
    "test_schemathesis", "bench", "examples", "kube-install", "events",
)  # fmt: skip
"""Groups that take half a minute or more, in the order in which they start; tests marked slow follow, then the rest by folder."""
SLOW_FOLDERS = frozenset({"e2e", "conformance"})
SLOW_FILES = ("test_build", "test_kubernetes", "test_go_image", "test_backend")
"""Start builders, containers or Go; files of `tests/unit` with such names do not."""
SERVERS = frozenset({
    "product", "restartable", "own_product", "start_product", "running", "world", "installed", "replicas", "rabbit_server",
})  # fmt: skip
"""Fixtures that start a server or a broker; `make quick` skips tests that use them."""
FOLDERS = ("integration", "e2e", "conformance", "contract", "unit")
ONE_WORKER_EACH = frozenset({
    "test_architecture.py", "test_bad_input_handlers.py", "test_chart.py", "test_front_door.py", "test_function_hosts.py",
    "test_go_only.py", "test_node_only.py", "test_proxied.py", "test_schemathesis.py",
})  # fmt: skip
"""Files whose module fixtures are expensive: all tests of one run in the same worker."""


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Shortens ids of large values. Bytes get a fixed id: an archive contains the time, so its id would differ between workers, and xdist
    would refuse to run."""
    if isinstance(val, bytes) and len(val) > NAME_CHARACTERS:
        return argname
    if isinstance(val, str) and len(val) > NAME_CHARACTERS:
        return f"{val[: NAME_CHARACTERS // 2]}..."
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collects tests with the garbage collector off, and exempts them from later collections: they all live until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before xdist's hook, which reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups the tests of files with expensive fixtures. The longest groups start first, so that the run does not end with one of them."""
    if "TEST_SOAK_MESSAGES" not in os.environ:
        _leave_out(items, [item for item in items if item.get_closest_marker("soak")])
    slow_files = {path for path in {item.path for item in items} if is_slow_file(path)}
    for item in items:
        if _folder_of(item) in SLOW_FOLDERS or not SERVERS.isdisjoint(getattr(item, "fixturenames", ())) or item.path in slow_files:
            item.add_marker(pytest.mark.slow)
        if not item.get_closest_marker("xdist_group"):
            if item.path.name in ONE_WORKER_EACH:
                item.add_marker(pytest.mark.xdist_group(item.path.stem))
            elif "restartable" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.xdist_group("restartable"))
    items.sort(key=_rank)


def _leave_out(items: list[pytest.Item], unwanted: list[pytest.Item]) -> None:
    if unwanted:
        unwanted[0].config.hook.pytest_deselected(items=unwanted)
        left_out = set(unwanted)
        items[:] = [item for item in items if item not in left_out]


def is_slow_file(path: Path) -> bool:
    return path.relative_to(ROOT / "tests").parts[0] != "unit" and path.name.startswith(SLOW_FILES)


def _rank(item: pytest.Item) -> tuple[int, int]:
    group = item.get_closest_marker("xdist_group")
    name = str(group.args[0]) if group else ""
    folder = _folder_of(item)
    return (
        LONGEST_FIRST.index(name) if name in LONGEST_FIRST else len(LONGEST_FIRST) + (item.get_closest_marker("slow") is None),
        FOLDERS.index(folder) if folder in FOLDERS else len(FOLDERS),
    )


def _folder_of(item: pytest.Item) -> str:
    """The folder below `tests`; "" for a file there."""
    parts = item.nodeid.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the last output of the servers that a failed test used."""
    report = yield
    if report.failed:
        for log_file in _logs_of(getattr(item, "funcargs", {}).values()):
            report.sections.append((f"end of {log_file}", log_file.read_text(errors="replace")[-LOG_CHARACTERS:]))
    return report


def _logs_of(used: Iterable[Any]) -> set[Path]:
    """Log files of the servers among the fixtures of a test, and among their attributes: a tenant has one server, replicas are two."""
    held = [item for value in used for item in (value, *getattr(value, "__dict__", {}).values())]
    return {item.log_file for item in held if isinstance(item, Product) and item.log_file.exists()}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Shows why a test that then passed had to run again (`--reruns`, see CONTRIBUTING): it is a fault to fix."""
    for report in terminalreporter.stats.get("rerun", []):
        terminalreporter.section(f"failed, then ran again: {report.nodeid}")
        terminalreporter.write_line(report.longreprtext[-LOG_CHARACTERS:])


@pytest.fixture(scope="session", autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Hides the developer's settings and data folder from tests."""
    before = dict(os.environ)
    for name in list(os.environ):
        # Without bytecode, a child process takes three seconds longer to start.
        if name.startswith("SLESS_") or name in {"PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "DATABASE_URL"}:
            del os.environ[name]
    folder = tmp_path_factory.mktemp("xdg")
    os.environ.update({f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("DATA", "CONFIG", "STATE")})
    os.environ.setdefault("GOCACHE", str(ROOT / "build" / "go-cache"))  # compiling Go's standard library takes half a minute
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A running PostgreSQL, one per test process; `create_database()` returns the URL of a new database."""
    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> str:
    """The URL of a new, empty PostgreSQL database (about 50 ms)."""
    return postgres_server.create_database()


@pytest.fixture(scope="session")
def registry_server() -> Iterator[RegistryServer]:
    """A real image registry with a password."""
    server = RegistryServer(password=True)
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """A running S3 server, one per test process, with the bucket that `tests.services.s3` names."""
    server = S3Server()
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def go_toolchain() -> Toolchain:
    """The Go toolchain that builds use."""
    try:
        return find_toolchain()
    except BuildFailed as missing:
        unavailable(str(missing), "golang-go")


@pytest.fixture(scope="session")
def warm_go(go_toolchain: Toolchain) -> None:
    """Compiles Go's standard library in one worker (half a minute) while the others wait."""
    go_program(ROOT / "tests" / "bench" / "functions" / "go", "handler.Handle")


@pytest.fixture(scope="session")
def node_binary() -> str:
    """Path of Node.js 20 or newer."""
    path = shutil.which("node")
    if path is None:
        unavailable(f"Node.js {NODE_MAJOR}", "nodejs npm")
    version = subprocess.run([path, "--version"], check=True, capture_output=True, text=True).stdout
    major = re.match(r"v(\d+)", version)
    if major is None or int(major[1]) < NODE_MAJOR:
        unavailable(f"Node.js {NODE_MAJOR} (found {version.strip()})", "nodejs npm")
    return path


@pytest.fixture(scope="session")
def rabbit_server() -> Iterator[RabbitServer]:
    """A running RabbitMQ, one per test process. A test that stops it must start it again."""
    server = RabbitServer()
    try:
        server.start()
        yield server
    finally:
        server.close()
