"""The suite of the protocol ports.Builder, for every implementation."""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sless.builder.dependencies import find_installation
from sless.domain.durations import Durations
from sless.domain.ports import BuildStatus
from sless.ids import new_id
from tests.contract.backend_harness import wait_until
from tests.contract.builder_harness import LocalBuilderHarness, wheel_of
from tests.contract.builder_harness_kube import KubernetesBuilderHarness, RealBuilderHarness
from tests.kube import real

HELLO = {"handler.py": "def handle(event):\n    return 1\n"}
USES_GREETING = {"handler.py": "import greeting\ndef handle(event):\n    return greeting.TEXT\n"}
OFFLINE = "--no-index\n--find-links ./wheels\n"


@pytest.fixture(params=["local", "kubernetes", *(["cluster"] if real.is_given() else [])])
def harness(request: pytest.FixtureRequest) -> Iterator[LocalBuilderHarness]:
    if request.param == "local":
        made = LocalBuilderHarness()
    elif request.param == "cluster":
        made = RealBuilderHarness()
    else:
        KubernetesBuilderHarness.cluster = request.getfixturevalue("kube_cluster")
        KubernetesBuilderHarness.registry = request.getfixturevalue("registry_server")
        made = KubernetesBuilderHarness()
    yield made
    made.close()


near = pytest.mark.parametrize("harness", ["local", "kubernetes"], indirect=True)
"""Builds that touch files of this machine."""
here = pytest.mark.parametrize("harness", ["local"], indirect=True)
"""About this machine's own folders and processes; the cluster's counterpart is in test_builder_kubernetes."""


def with_greeting(requirements: str | bytes, version: str = "1.0") -> dict[str, str | bytes]:
    wheel = wheel_of("greeting", version, f"TEXT = 'hello {version}'\n")
    return {**USES_GREETING, "requirements.txt": requirements, f"wheels/greeting-{version}-py3-none-any.whl": wheel}


def message_lines(status) -> list[str]:
    assert status.ready is False
    return status.message.splitlines()


# --- nothing to install ---------------------------------------------------------------------------------------------------------------


def test_code_without_dependencies_becomes_ready(harness):
    spec, status = harness.build(HELLO)
    assert (status.ready, status.message) == (True, "")
    assert harness.is_unbuilt(status)
    assert harness.log[spec.id][-1] == "imported handler.handle: version 1 is ready"
    assert harness.changes.acquire(timeout=1)


def test_tenants_do_not_share_dependencies_built_from_their_code(harness):
    """The requirement is a path without `./`."""
    backend = "def build_wheel(folder, *_, **__):\n    import shutil, glob\n    file, = glob.glob('../../wheels/*.whl')\n"
    backend += "    shutil.copy(file, folder)\n    return file.rpartition('/')[2]\n"
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project += '[project]\nname = "greeting"\ndynamic = ["version"]\n'
    local = {"own/pkg/backend.py": backend, "own/pkg/pyproject.toml": project}
    specs = [
        harness.spec({**with_greeting("--no-index\nown/pkg\n", version), **local}, namespace=namespace)
        for version, namespace in (("1.0", "sless-0000000000000001"), ("2.0", "sless-0000000000000002"))
    ]
    texts = []
    for spec in specs:
        harness.start(spec)
        status = harness.wait(spec)
        assert status.ready, (status.message, harness.log[spec.id])
        texts.append((harness.deps_of(spec, status) / "greeting.py").read_text())
    assert texts[0] != texts[1]


@pytest.mark.parametrize("requirements", ["", "\n\n", "# nothing yet\n", b"\xef\xbb\xbf# nothing\r\n"])
def test_an_empty_requirements_file_installs_nothing(harness, requirements):
    _, status = harness.build({**HELLO, "requirements.txt": requirements})
    assert status.ready and harness.is_unbuilt(status)


def test_an_unknown_build_is_none(harness):
    assert harness.builder.poll("unknown") is None
    harness.builder.cancel("unknown")


def test_a_known_build_is_not_started_again(harness):
    spec = harness.spec({"handler.py": "import time\ntime.sleep(0.5)\ndef handle(event): pass\n"})
    harness.start(spec)
    wait_until(lambda: harness.builder.poll(spec.id).ready, "the build has ended")
    harness.start(spec)
    assert harness.builder.poll(spec.id).ready
    assert harness.wait(spec).ready


# --- the import ------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import nosuch\n", "No module named 'nosuch'"),
        ("raise RuntimeError('not today')\n", "not today"),
        ("import sys\nsys.exit(3)\n", "exited with code 3 while it was imported"),
        ("handel = 1\n", "handle"),
        ("import os\nos._exit(5)\n", "function exited with code 5"),
        ("import os\nos.kill(os.getpid(), 9)\n", "function was ended by SIGKILL (killed)"),
    ],
)
def test_failed_import_fails_the_build_with_its_reason(harness, source, reason):
    _, status = harness.build({"handler.py": source})
    first = message_lines(status)[0]
    assert first.startswith("handler.handle cannot be imported: ")
    assert reason in status.message


def test_a_missing_module_is_reported(harness):
    _, status = harness.build({"other.py": "x = 1\n"})
    assert "handler" in message_lines(status)[0]


def test_the_import_has_the_functions_environment_but_not_the_build_env(harness):
    source = "import os\nassert os.environ['GREETING'] == 'hi'\nassert 'TOKEN' not in os.environ, 'leaked'\ndef handle(event): pass\n"
    _, status = harness.build({"handler.py": source}, env={"GREETING": "hi"}, build_env={"TOKEN": "sesame-open"})
    assert status.ready, status.message


def test_import_over_the_memory_limit(harness):
    _, status = harness.build({"handler.py": "import time\nx = b'x' * 2**20 * 200\ntime.sleep(20)\n"}, memory_mb=64)
    assert message_lines(status)[0].startswith("importing handler.handle: out of memory: ")


def test_a_hanging_import(harness):
    harness.hurry(Durations(import_sec=1.0))
    began = time.monotonic()
    _, status = harness.build({"handler.py": "import time\ntime.sleep(60)\n"})
    assert message_lines(status)[0] == "importing handler.handle took more than 1 s"
    assert time.monotonic() - began < 30, "the module sleeps for 60 s"


# --- pip -------------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "requirements",
    [
        OFFLINE + "greeting==1.0\n",
        ("\ufeff" + OFFLINE + "greeting==1.0\n").replace("\n", "\r\n").encode(),
        "./wheels/greeting-1.0-py3-none-any.whl\n",
    ],
    ids=["plain", "bom-crlf", "path"],
)
def test_requirements_are_installed(harness, requirements):
    spec, status = harness.build(with_greeting(requirements))
    assert status.ready, status.message
    assert (harness.deps_of(spec, status) / "greeting.py").is_file()
    assert any((harness.deps_of(spec, status) / "__pycache__").glob("greeting.*.pyc")), "bytecode is compiled once, here"
    assert "Successfully installed greeting-1.0" in harness.log[spec.id]


def test_the_same_requirements_are_installed_once(harness):
    files = with_greeting(OFFLINE + "greeting==1.0\n")
    first, one = harness.build(files)
    again = replace(first, id=new_id(), version=2)
    harness.start(again)
    two = harness.wait(again)
    assert one.artifact == two.artifact != ""
    assert not any("Successfully installed" in line for line in harness.log[again.id])


@here
def test_concurrent_builds_share_one_installation(harness):
    first = harness.spec(with_greeting(OFFLINE + "greeting==1.0\n"))
    second = replace(first, id=new_id(), version=2)
    harness.start(first)
    harness.start(second)
    assert harness.wait(first).artifact == harness.wait(second).artifact
    installed = [line for spec in (first, second) for line in harness.log[spec.id] if line.startswith("Successfully installed")]
    assert len(installed) == 1


def test_requirements_that_name_files_are_not_shared(harness):
    requirements = OFFLINE + "greeting\n"
    _first, one = harness.build(with_greeting(requirements, "1.0"))
    second, two = harness.build(with_greeting(requirements, "2.0"))
    assert one.artifact != two.artifact
    assert "2.0" in (harness.deps_of(second, two) / "greeting.py").read_text()


@here
def test_dependencies_with_a_build_env_are_not_shared_between_namespaces(harness):
    files = {**HELLO, "requirements.txt": "--no-index\nnosuch==1\n"}
    keys = set()
    for namespace, build_env in (("a", {"T": "sesame"}), ("b", {"T": "sesame"}), ("a", {}), ("b", {})):
        spec = harness.spec(files, namespace=namespace, build_env=build_env)
        found = find_installation(harness.material_of(spec, BuildStatus(ready=True)).code_dir, spec)
        keys.add(found.key)
    assert len(keys) == 3


def test_a_requirement_that_does_not_exist_is_reported_with_pips_message(harness):
    _, status = harness.build({**HELLO, "requirements.txt": "--no-index\nnosuch==9\n"})
    lines = message_lines(status)
    assert lines[0] == 'pip could not install "nosuch==9" from requirements.txt, line 2'
    assert "ERROR: No matching distribution found for nosuch==9" in lines
    assert len(lines) <= 51


def test_a_bad_line_of_a_utf16_file_is_reported(harness):
    _, status = harness.build({**HELLO, "requirements.txt": "--no-index\r\nnosuch==9\r\n".encode("utf-16")})
    assert message_lines(status)[0] == 'pip could not install "nosuch==9" from requirements.txt, line 2'


def test_an_unused_lock_file_is_logged(harness):
    spec, status = harness.build({**HELLO, "uv.lock": "version = 1\n"})
    assert status.ready and "note: uv.lock is not read: list the packages in requirements.txt" in harness.log[spec.id]


@here
def test_pip_does_not_see_the_servers_own_packages(harness):
    wheel = wheel_of("urllib3", "0.0.1", "")
    files = {**HELLO, "requirements.txt": OFFLINE + "urllib3==0.0.1\n", "wheels/urllib3-0.0.1-py3-none-any.whl": wheel}
    spec, status = harness.build(files)
    assert status.ready and not [line for line in harness.log[spec.id] if "requires urllib3" in line or "incompatible" in line]


def test_a_bad_requirements_file_is_reported(harness):
    _, status = harness.build({**HELLO, "requirements.txt": "this is ; not a requirement\n"})
    assert message_lines(status)[0].startswith('pip could not install "this is')


def test_build_env_reaches_the_installer_but_not_the_log(harness):
    files = {**HELLO, "requirements.txt": "--no-index\nnosuch==1\n"}
    build_env = {"PIP_INDEX_URL": "https://me:sesame42@index.invalid/simple", "PIP_FIND_LINKS": "/nosuch-sesame43"}
    spec, status = harness.build(files, build_env=build_env)
    assert not status.ready
    everything = "\n".join([*harness.log[spec.id], status.message])
    assert "***" in everything, "pip shows where it looked"
    assert "sesame" not in everything


@here
def test_server_environment_does_not_reach_the_installer(harness, monkeypatch, tmp_path):
    monkeypatch.setenv("SLESS_JWT_SECRET", "s" * 32)
    monkeypatch.setenv("SERVER_SECRET", "42")
    wheelhouse = _source_package("import os, json; open(os.environ['SEEN_AT'], 'w').write(json.dumps(dict(os.environ)))")
    seen = tmp_path / "seen.json"
    harness.build({**HELLO, **wheelhouse, "requirements.txt": "--no-index\n./pkg\n"}, build_env={"SEEN_AT": str(seen)})
    environment = json.loads(seen.read_text())
    assert environment["SEEN_AT"] == str(seen)
    assert not {"SERVER_SECRET", "SLESS_JWT_SECRET"} & set(environment)


def _source_package(code: str) -> dict[str, str]:
    """A package whose build runs `code`."""
    project = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    backend = f"def prepare_metadata_for_build_wheel(*_, **__):\n    {code}\n    raise SystemExit(1)\n"
    return {"pkg/pyproject.toml": project, "pkg/backend.py": backend}


def test_a_hanging_build_times_out(harness):
    harness.builder.close()
    harness.make(build_timeout_sec=3)
    files = {**HELLO, **_source_package("import time; time.sleep(60)"), "requirements.txt": "--no-index\n./pkg\n"}
    began = time.monotonic()
    _, status = harness.build(files)
    assert message_lines(status)[0] == "build timed out after 3 s"
    assert time.monotonic() - began < 10


@near
def test_cancel_ends_every_process_and_forgets_the_build(harness, tmp_path):
    pid_file = tmp_path / "pid"
    hang = f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    spec = harness.spec({**HELLO, **_source_package(hang), "requirements.txt": "--no-index\n./pkg\n"})
    harness.start(spec)
    pid = int(wait_until(lambda: pid_file.exists() and pid_file.read_text(), "pip works", 30))
    harness.builder.cancel(spec.id)
    assert harness.builder.poll(spec.id) is None
    wait_until(lambda: not _runs(pid), "gone")


def test_a_cancelled_installation_does_not_spoil_the_next(harness):
    spec = harness.spec(with_greeting(OFFLINE + "greeting==1.0\n"))
    harness.start(spec)
    wait_until(lambda: harness.poll(spec) or harness.log[spec.id], "it began")
    harness.builder.cancel(spec.id)
    again = replace(spec, id=new_id())
    harness.start(again)
    assert harness.wait(again).ready


@near
def test_log_lines_arrive_during_the_build(harness, tmp_path):
    gate = tmp_path / "gate"
    wait = f"import os, time\n    while not os.path.exists({str(gate)!r}): time.sleep(0.02)"
    spec = harness.spec({**HELLO, **_source_package(wait), "requirements.txt": "--no-index\n./pkg\n"})
    harness.start(spec)
    wait_until(lambda: harness.poll(spec) is None and any(line.startswith("Processing") for line in harness.log[spec.id]), "a line", 30)
    gate.touch()
    assert harness.wait(spec).ready is False


# --- npm -------------------------------------------------------------------------------------------------------------------------------

NODE = {"handler.js": "const {text} = require('greeting');\nexports.handle = () => text;\n"}
GREETING = {
    "greeting/package.json": json.dumps({"name": "greeting", "version": "1.0.0", "main": "index.js"}),
    "greeting/index.js": "exports.text = 'hello';\n",
}


def package_json(**fields) -> dict[str, str]:
    return {"package.json": json.dumps({"name": "fn", "version": "1.0.0", **fields})}


def test_packages_are_installed(harness, node_binary):
    files = {**NODE, **GREETING, **package_json(dependencies={"greeting": "file:./greeting"})}
    spec, status = harness.build(files, runtime="nodejs20")
    assert status.ready, status.message
    assert (harness.code_of(spec, status) / "node_modules" / "greeting" / "index.js").is_file()
    assert any(line.startswith("added 1 package") for line in harness.log[spec.id])


def test_requirements_beside_the_entrypoint(harness):
    given = with_greeting("--no-index\n--find-links wheels\ngreeting\n")
    _spec, status = harness.build({f"src/{name}": content for name, content in given.items()}, entrypoint="src/handler.handle")
    assert status.ready and not harness.is_unbuilt(status), status.message


def test_lock_file_is_obeyed(harness, node_binary):
    lock = {"name": "fn", "version": "1.0.0", "lockfileVersion": 3, "requires": True, "packages": {"": {"name": "fn", "version": "1.0.0"}}}
    files = {**NODE, **GREETING, **package_json(dependencies={"greeting": "file:./greeting"}), "package-lock.json": json.dumps(lock)}
    _spec, status = harness.build(files, runtime="nodejs20")
    assert message_lines(status)[0] == 'npm could not install "greeting@1.0.0" from package-lock.json'
    assert "in sync" in status.message and "Usage" not in status.message


def test_uploaded_node_modules_are_used(harness, node_binary):
    modules = {f"node_modules/{name}": text for name, text in GREETING.items()}
    _spec, status = harness.build({**NODE, **modules, **package_json(dependencies={"greeting": "^7.0.0"})}, runtime="nodejs20")
    assert status.ready and harness.is_unbuilt(status), status.message


def test_a_package_json_without_dependencies_installs_nothing(harness, node_binary):
    files = {"handler.mjs": "export const handle = () => 1;\n", **package_json(type="module")}
    _, status = harness.build(files, runtime="nodejs20")
    assert status.ready and harness.is_unbuilt(status), status.message


def test_a_broken_package_json_is_reported(harness, node_binary):
    _, status = harness.build({**NODE, "package.json": "{oops"}, runtime="nodejs20")
    assert message_lines(status)[0].startswith("package.json is not valid JSON: ")


def test_a_node_handler_that_throws(harness, node_binary):
    _, status = harness.build({"handler.js": "throw new Error('not today');\n"}, runtime="nodejs20")
    assert message_lines(status)[0] == "handler.handle cannot be imported: handler.js:1: Error: not today"


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
