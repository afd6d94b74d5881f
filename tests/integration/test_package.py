"""Installation: the lock files, the wheel, and sless.pyz on other machines."""

import ast
import fcntl
import functools
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import pytest

from sless import _version
from sless.cli.main import HOMES
from tests.integration.helm.chart import one, render
from tests.services import skip_or_fail, uv
from tests.services.product import free_port
from tests.services.zipapp import bare_python, built_zipapp

# One process for all of them, so that the wheel and the zipapp are built once.
pytestmark = [pytest.mark.xdist_group("package"), pytest.mark.timeout(400)]

ROOT = Path(__file__).resolve().parents[2]
DATA_FOLDERS = ("static", "runtimes", "examples")
LOCKS = ("requirements.txt", ".ci/release/requirements.txt", "tests/requirements.txt", "tests/node.txt", ".ci/release/provider.txt")


def run(*command: str | Path, env: dict[str, str] | None = None, **options) -> subprocess.CompletedProcess[str]:
    options = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 300, **options}
    return subprocess.run([str(part) for part in command], env=env, check=False, **options)


def run_well(*command: str | Path, **options) -> str:
    done = run(*command, **options)
    assert done.returncode == 0, f"{command} exited {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def data_files(folder: str) -> set[str]:
    return {
        str(path.relative_to(ROOT))
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts)
    }


def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


class TestLock:
    @pytest.mark.parametrize("name", LOCKS)
    def test_is_exact_and_independent_of_the_machine(self, name: str):
        text = (ROOT / name).read_text()
        assert "://" not in text
        assert not re.search(r"^\s*(-|#|/)(?!-hash=)", text, re.MULTILINE)
        requirements = [line for line in text.splitlines() if not line.startswith(" ")]
        assert requirements
        assert all(re.fullmatch(r"[a-z0-9.-]+==\S+( ; .*)? \\", line) for line in requirements)
        assert text.count("--hash=sha256:") >= len(requirements)

    def test_contains_every_requirement_of_the_package(self):
        locked = set(re.findall(r"^([a-z0-9.-]+)==", (ROOT / "requirements.txt").read_text(), re.MULTILINE))
        project = pyproject()["project"]
        named = [re.match(r"[a-z0-9-]+", line)[0] for line in project["dependencies"] + project["optional-dependencies"]["server"]]
        assert len(named) >= 15
        assert set(named) - {"tomli"} <= locked  # tomli is for Python 3.10

    def test_tests_use_the_same_versions_as_users(self):
        pins = [dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", (ROOT / name).read_text(), re.MULTILINE)) for name in LOCKS[:3]]
        for name, version in {**pins[0], **pins[1]}.items():
            assert pins[2][name] == version, name


class TestPackageList:
    def test_pyproject_lists_every_package(self):
        listed = set(pyproject()["tool"]["setuptools"]["packages"])
        found = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "sless").rglob("*.py")}
        assert listed == found | {f"sless.{folder}" for folder in DATA_FOLDERS}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy, as setuptools writes into the source tree."""
    source, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("sless", *DATA_FOLDERS):
        shutil.copytree(ROOT / name, source / name)
    command = ["pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--wheel-dir", str(output), str(source)]
    run_well(sys.executable, "-m", *command)
    return next(output.glob("*.whl"))


@dataclass(frozen=True)
class Environment:
    """An isolated virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def variables(self) -> dict[str, str]:
        return {"PATH": f"{self.folder / 'bin'}:{os.defpath}", "HOME": str(self.folder / "home"), "LC_ALL": "C.UTF-8"}


@pytest.fixture(scope="module")
def locked_environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Contains only what the lock file lists. `make soak` runs `pip install -r requirements.txt` as in the README; `make test` leaves it to
    uv, which takes seconds."""
    environment = Environment(tmp_path_factory.mktemp("venv") / "venv")
    if "TEST_SOAK_MESSAGES" in os.environ:
        run_well(sys.executable, "-m", "venv", environment.folder)
        run_well(environment.python, "-m", "pip", "install", "-qq", "--no-compile", "-r", ROOT / "requirements.txt")
    else:
        uv.make_environment(environment.folder, "-r", ROOT / "requirements.txt")
    (environment.folder / "home").mkdir()
    return environment


@pytest.fixture(scope="module")
def installed_environment(locked_environment: Environment, wheel: Path) -> Environment:
    run_well(locked_environment.python, "-m", "pip", "install", "-qq", "--no-index", wheel)
    return locked_environment


class TestWheel:
    pytestmark = pytest.mark.slow

    def test_wheel_contains_only_code_and_data(self, wheel: Path):
        names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
        code = {str(path.relative_to(ROOT)) for path in (ROOT / "sless").rglob("*.py")}
        data = {f"sless/{name}" for folder in DATA_FOLDERS for name in data_files(folder)}
        assert data
        assert names >= code | data
        assert {name for name in names - code - data if not name.startswith("sless/") or "node_modules" in name or ".pyc" in name} == set()


class TestInstalled:
    def test_the_lock_is_enough_to_run_from_a_checkout(self, locked_environment: Environment, tmp_path: Path):
        output = run_well(locked_environment.python, ROOT / "sless.py", "version", cwd=tmp_path, env=locked_environment.variables)
        assert _version.__version__ in output

    def test_the_lock_satisfies_the_ranges(self, installed_environment: Environment):
        assert "No broken requirements" in run_well(installed_environment.python, "-m", "pip", "check")

    def test_command_works_from_any_folder(self, installed_environment: Environment, tmp_path: Path):
        command = installed_environment.folder / "bin" / "sless"
        assert _version.__version__ in run_well(command, "version", cwd=tmp_path, env=installed_environment.variables)

    def test_assets_are_inside_the_package(self, installed_environment: Environment, tmp_path: Path):
        code = "from sless import assets; print(assets.static_dir(), assets.runtime_dir('python3.11'), assets.example_dir('hello-python'))"
        output = run_well(installed_environment.python, "-c", code, cwd=tmp_path, env=installed_environment.variables)
        assert output.count("site-packages/sless/") == 3

    @pytest.mark.soak  # the zipapp's demo runs the same code
    def test_demo_works_installed(self, installed_environment: Environment, tmp_path: Path):
        variables = {**installed_environment.variables, "SLESS_DATA_DIR": str(tmp_path / "data"), "SLESS_PORT": "0"}
        output = run_well(installed_environment.folder / "bin" / "sless", "demo", "--exit", cwd=tmp_path, env=variables)
        assert "hello-python" in output


@pytest.fixture(scope="module")
def client_environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path) -> Environment:
    """Contains the wheel and what its extra `client` needs."""
    environment = Environment(tmp_path_factory.mktemp("client") / "venv")
    uv.make_environment(environment.folder, f"sless[client] @ {wheel.as_uri()}")
    (environment.folder / "home").mkdir()
    return environment


class TestClientAlone:
    """The command line without the server's packages."""

    pytestmark = pytest.mark.slow

    @staticmethod
    def sless(environment: Environment, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run(environment.folder / "bin" / "sless", *arguments, cwd=environment.folder / "home", env=environment.variables)

    def test_has_few_packages(self, client_environment: Environment):
        code = "from importlib import metadata; print(*(found.name for found in metadata.distributions()))"
        names = set(run_well(client_environment.python, "-c", code, cwd="/", env=client_environment.variables).split())
        assert names == {"sless", "click", "requests", "urllib3", "pathspec", "certifi", "charset-normalizer", "idna"}

    def test_help_lists_every_command(self, client_environment: Environment):
        done = self.sless(client_environment, "--help")
        assert done.returncode == 0, done.stderr
        assert set(HOMES) <= set(re.findall(r"^  (\S+)", done.stdout, re.MULTILINE))
        assert self.sless(client_environment, "serve", "--help").returncode == 0

    def test_whoami_without_a_server(self, client_environment: Environment):
        done = self.sless(client_environment, "whoami", "--url", "http://127.0.0.1:1", "--token", "t")
        assert done.returncode == 1
        assert done.stderr.startswith("Error: no answer from http://127.0.0.1:1"), done.stderr

    def test_packs_a_folder(self, client_environment: Environment):
        assert self.sless(client_environment, "init", "packed").returncode == 0
        code = "from pathlib import Path; from sless.client import pack_folder; print(pack_folder(Path('packed')).files)"
        home = client_environment.folder / "home"
        assert "handler.py" in run_well(client_environment.python, "-c", code, cwd=home, env=client_environment.variables)

    @pytest.mark.parametrize("command", [[], ["serve"], ["console"], ["token", "--sub", "alice"], ["migrate"], ["dev"], ["gc"]])
    def test_server_commands_say_what_they_need(self, client_environment: Environment, command: list[str]):
        done = self.sless(client_environment, *command)
        assert done.returncode == 1
        expected = r"Error: `sless \S+` needs Python 3\.11 and the server's packages, but \w+ is not installed: .* 'sless\[server\]'\n"
        assert re.fullmatch(expected, done.stderr), done.stderr

    def test_server_commands_refuse_another_python(self, client_environment: Environment):
        code = "import sys, sless.cli; sys.version_info = (3, 13, 0, 'final', 0); sys.exit(sless.cli.main(['serve']))"
        done = run(client_environment.python, "-c", code, cwd="/", env=client_environment.variables)
        assert done.returncode == 1
        assert "needs Python 3.11 and the server's packages, but this is Python 3.13" in done.stderr

    def test_its_modules_are_written_for_python_3_10(self, tmp_path: Path):
        """Those that commands import, except inside commands of the server."""
        code = (
            "import importlib, sys; from sless.cli.main import HOMES\n"
            "for home in HOMES.values(): importlib.import_module('sless.cli.' + home.partition(':')[0])\n"
            "print(*(module.__file__ for name, module in sys.modules.items() if name.startswith('sless')), sep='\\n')"
        )
        files = run_well(sys.executable, "-c", code, cwd=ROOT).splitlines()
        assert len(files) > 40
        assert str(ROOT / "sless/server/serve.py") not in files
        mypy = [sys.executable, "-m", "mypy", "--python-version", "3.10", "--follow-imports", "silent", "--cache-dir", tmp_path / "cache"]
        # `make types` checks the use of the other libraries: reading them all takes 20 s of processor time.
        (tmp_path / "typed").mkdir()
        (tmp_path / "typed" / "click").symlink_to(Path(click.__file__).parent)
        mypy += ["--no-site-packages", "--ignore-missing-imports"]
        assert "Success" in run_well(*mypy, *files, cwd=ROOT, env=os.environ | {"MYPYPATH": str(tmp_path / "typed")})


@pytest.fixture(scope="module")
def zipapp() -> Path:
    return built_zipapp()


@pytest.fixture(scope="module")
def zipapp_home(zipapp: Path) -> Iterator[Path]:
    """A home where the zipapp has unpacked itself despite PYTHONDONTWRITEBYTECODE. The path is short enough for server sockets."""
    folder = Path(tempfile.mkdtemp(prefix="sless-", dir="/tmp"))
    unpacked = folder / ".cache" / "sless"
    for name in ("sless.pyz_old", "sless.pyz_running", "other_old"):
        (unpacked / name / "site-packages").mkdir(parents=True)
    variables = {"PATH": os.defpath, "HOME": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    with (unpacked / ".sless.pyz_running_used").open("a") as running:
        fcntl.flock(running, fcntl.LOCK_SH)
        run_well(bare_python(), "-s", zipapp, "version", cwd=folder, env=variables)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def short_folder() -> Iterator[Path]:
    """A temporary folder with a path short enough for server sockets."""
    folder = Path(tempfile.mkdtemp(prefix="sless-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


class TestZipapp:
    pytestmark = pytest.mark.slow

    def test_is_small(self, zipapp: Path):
        assert zipapp.stat().st_size <= 30 * 1024 * 1024
        assert zipapp.stat().st_mode & stat.S_IXOTH

    def test_contains_two_botocore_services_and_no_tests(self, zipapp: Path):
        names = zipfile.ZipFile(zipapp).namelist()
        services = {name.split("/")[3] for name in names if name.startswith("site-packages/botocore/data/") and name.count("/") > 4}
        assert services == {"s3", "sts"}
        assert [name for name in names if "/tests/" in name or name.endswith(".pyi")] == []
        assert {name for name in names if name.startswith("site-packages/sless/runtimes/")}

    def test_needs_only_python(self, zipapp: Path, zipapp_home: Path, tmp_path: Path):
        variables = {"PATH": os.defpath, "HOME": str(zipapp_home)}
        assert _version.__version__ in run_well(bare_python(), "-s", zipapp, "version", cwd=tmp_path, env=variables)

    def test_the_first_start_of_a_build_removes_unused_older_ones(self, zipapp: Path, zipapp_home: Path, tmp_path: Path):
        """`sless gc` removes those that were in use then."""
        names = sorted(path.name for path in (zipapp_home / ".cache" / "sless").iterdir() if not path.name.startswith("."))
        assert names[:2] == ["other_old", next(name for name in names if "running" not in name and name.startswith("sless.pyz_"))]
        assert len(names) == 3 and "sless.pyz_old" not in names and "sless.pyz_running" in names
        run = functools.partial(run_well, bare_python(), "-s", zipapp, cwd=tmp_path, env={"PATH": os.defpath, "HOME": str(zipapp_home)})
        run("migrate", "--data-dir", tmp_path / "data")
        for options in (("--dry-run",), ()):
            (found,) = json.loads(run("gc", "--output", "json", "--data-dir", tmp_path / "data", *options))
            assert found["kind"] == "zipapp" and found["name"].endswith("/sless.pyz_running")
        left = {path.name for path in (zipapp_home / ".cache" / "sless").iterdir() if not path.name.startswith(".")}
        assert left == {*names} - {"sless.pyz_running"}

    def test_bytecode_is_kept_despite_the_environment(self, zipapp_home: Path):
        assert list((zipapp_home / ".cache" / "sless").rglob("sless/cli/__pycache__/main.*.pyc"))

    def test_s3_and_kubernetes_libraries_work_unpacked(self, zipapp: Path, zipapp_home: Path, tmp_path: Path):
        code = (
            "import boto3, kubernetes, pip, alembic.command, psycopg; "
            "boto3.client('s3', region_name='x', aws_access_key_id='x', aws_secret_access_key='x'); "
            "kubernetes.client.CoreV1Api(); print(pip.__version__)"
        )
        variables = {"PATH": os.defpath, "HOME": str(zipapp_home), "SHIV_INTERPRETER": "1"}
        run_well(bare_python(), "-s", zipapp, "-c", code, cwd=tmp_path, env=variables)

    def test_demo(self, zipapp: Path, zipapp_home: Path):
        variables = {"PATH": os.defpath, "HOME": str(zipapp_home), "SLESS_PORT": "0"}
        output = run_well(bare_python(), "-s", zipapp, "demo", "--exit", cwd=zipapp_home, env=variables)
        assert "hello-python" in output

    def test_completion_as_the_readme_sets_it_up(self, zipapp: Path, zipapp_home: Path, tmp_path: Path):
        """The program is `sless` on the PATH; bash asks it for words."""
        (tmp_path / "sless").symlink_to(zipapp)
        script = 'eval "$(sless completion bash)"; COMP_WORDS=(sless invo); COMP_CWORD=1; _sless_completion sless; echo "${COMPREPLY[@]}"'
        path = os.pathsep.join((str(tmp_path), str(Path(bare_python()).parent), os.defpath))
        shown = run_well("bash", "-c", script, cwd=tmp_path, env={"PATH": path, "HOME": str(zipapp_home)})
        assert shown.split() == ["invoke", "invocations"]

    def test_home_not_writable(self, zipapp: Path, short_folder: Path):
        variables = {"PATH": os.defpath, "HOME": "/proc/nowhere", "TMPDIR": str(short_folder)}
        run_well(bare_python(), "-s", zipapp, "version", cwd="/", env=variables)
        (unpacked,) = short_folder.iterdir()
        assert stat.S_IMODE(unpacked.stat().st_mode) == 0o700

    def test_a_temporary_folder_writable_by_others_is_rejected(self, zipapp: Path, short_folder: Path):
        trap = short_folder / f"sless-{os.geteuid()}"
        trap.mkdir()
        trap.chmod(0o777)
        variables = {"PATH": os.defpath, "HOME": "/proc/nowhere", "TMPDIR": str(short_folder)}
        done = run(bare_python(), "-s", zipapp, "version", cwd="/", env=variables)
        assert done.returncode == 1
        assert done.stderr == f"sless: {trap} is not a folder of this user alone. Remove it or name another: SHIV_ROOT=/some/folder\n"
        assert list(trap.iterdir()) == []


IN_THE_IMAGE = """
set -eu
mount --make-rprivate /
mount --bind "$PYTHON_HOME" "$FOLDER/python"
mount -t tmpfs -o mode=0750,uid=10001,gid=10001 tmpfs "$FOLDER/data"
mount -t tmpfs -o mode=1777 tmpfs "$FOLDER/tmp"
export LD_LIBRARY_PATH="$FOLDER/python/lib" SHIV_ROOT="$FOLDER/unpacked" PATH="$FOLDER/python/bin:/usr/bin:/bin" TMPDIR="$FOLDER/tmp"
ln -sf python3.11 "$FOLDER/bin/python"
SHIV_COMPILE_PYC=1 python3.11 "$FOLDER/sless.pyz" version
chmod -R a+rX "$FOLDER"
mount -o remount,ro,bind /
! touch "$FOLDER/sless.pyz" 2> /dev/null
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs sh -euc "$RUN"
"""
"""The setup of the Dockerfile and the chart: read-only root, non-root user, writable /data and /tmp."""


# Compiling all packages takes half a minute. In make test, the demo of the zipapp and the chart test of test_kube_install show the same.
@pytest.mark.soak
class TestInTheImage:
    pytestmark = pytest.mark.slow

    def test_helm_test_passes_on_a_read_only_root(self, zipapp: Path, short_folder: Path):
        """Runs the server, and the chart's test script against it."""
        if os.geteuid() != 0 or run("unshare", "-m", "true").returncode:
            skip_or_fail("a mount namespace needs root and `unshare` of util-linux")
        for name in ("python", "data", "tmp", "bin"):
            (short_folder / name).mkdir()
        short_folder.chmod(0o755)
        shutil.copy(zipapp, short_folder)
        script = one(render({"backend": "local"}), "Pod", "sless-test")["spec"]["containers"][0]["args"][0]
        script = re.sub(r"/tmp\b", str(short_folder / "tmp"), script).replace("/opt/sless/sless.pyz", str(short_folder / "sless.pyz"))
        run_both = (
            'python "$FOLDER/sless.pyz" serve & server=$!; '
            'until python -c \'import os, urllib.request as u; u.urlopen(os.environ["SLESS_URL"] + "/readyz")\' 2> /dev/null; '
            'do kill -0 $server; sleep 0.2; done; sh -euc "$TEST_SCRIPT"; kill $server; wait $server'
        )
        url = f"http://127.0.0.1:{free_port()}"
        variables = {
            "PATH": os.defpath, "HOME": str(short_folder / "tmp"), "FOLDER": str(short_folder), "PYTHON_HOME": sys.base_prefix,
            "RUN": run_both, "TEST_SCRIPT": script, "SLESS_URL": url, "SLESS_PORT": url.rpartition(":")[2], "SLESS_AUTH_MODE": "secret",
            "SLESS_JWT_SECRET": "s" * 40, "SLESS_DATA_DIR": str(short_folder / "data"), "SLESS_BACKEND": "local", "NAME": "helm-test",
            "TEST_SUBJECT": "helm-test",
        }  # fmt: skip
        output = run_well("unshare", "-m", "sh", "-c", IN_THE_IMAGE, env=variables)
        assert output.splitlines()[-1] == '{"hello": "helm"}'


class TestZipappMain:
    """`zipapp_main.py` on other Python versions and machines, simulated by changing `sys` and the machine it was built for."""

    MAIN = ROOT / ".ci" / "release" / "zipapp_main.py"

    def run_main(self, tmp_path: Path, setup: str, machine: str | None = None, path: str = "/nowhere") -> subprocess.CompletedProcess[str]:
        (tmp_path / "_bootstrap.py").write_text("def bootstrap(): print('started')")
        main = tmp_path / "main.py"
        main.write_text(self.MAIN.read_text().replace("@MACHINE@", machine or os.uname().machine))
        code = f"import sys, platform, runpy; sys.argv[1:] = ['demo']; {setup}; runpy.run_path({str(main)!r}, run_name='__main__')"
        return run(sys.executable, "-c", code, cwd=tmp_path, env={"PATH": path, "HOME": str(tmp_path), "PYTHONPATH": str(tmp_path)})

    def test_the_right_python(self, tmp_path: Path):
        assert self.run_main(tmp_path, "pass").stdout == "started\n"

    @pytest.mark.parametrize("version", [(2, 7), (3, 9), (3, 12), (3, 14)])
    def test_another_python_is_reported(self, tmp_path: Path, version: tuple[int, int]):
        done = self.run_main(tmp_path, f"sys.version_info = {(*version, 1, 'final', 0)}")
        assert done.returncode == 1
        assert done.stdout == ""
        assert done.stderr.startswith(f"sless: Python 3.11 is needed, {sys.executable} is {version[0]}.{version[1]}. Install it")
        assert done.stderr.endswith(f"run: python3.11 {tmp_path / 'main.py'} demo\n")
        assert done.stderr.count("\n") == 1

    def test_another_python_runs_the_right_one(self, tmp_path: Path):
        other = tmp_path / "bin" / "python3.11"
        other.parent.mkdir()
        other.write_text("#!/bin/sh\necho handed over: $*\n")
        other.chmod(0o755)
        done = self.run_main(tmp_path, "sys.version_info = (3, 9, 1, 'final', 0)", path=f"{other.parent}:/bin")
        assert done.stdout == f"handed over: {tmp_path / 'main.py'} demo\n"

    def test_never_runs_itself_in_a_loop(self, tmp_path: Path):
        other = tmp_path / "bin" / "python3.11"
        other.parent.mkdir()
        code = "import sys, runpy; sys.version_info = (3, 9, 1, 'final', 0); runpy.run_path('main.py', run_name='__main__')"
        other.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}"\n')
        other.chmod(0o755)
        done = self.run_main(tmp_path, "sys.version_info = (3, 9, 1, 'final', 0)", path=f"{other.parent}:/bin")
        assert done.returncode == 1
        assert "Python 3.11 is needed" in done.stderr

    def test_another_machine_is_reported(self, tmp_path: Path):
        done = self.run_main(tmp_path, "pass", machine="riscv64")
        assert done.returncode == 1
        assert re.fullmatch(
            r"sless: this file was built for Linux on riscv64, this is Linux on \S+\. Build one here: make pyz\n", done.stderr
        )

    def test_has_syntax_that_old_pythons_accept(self):
        text = self.MAIN.read_text()
        tree = ast.parse(text, feature_version=(3, 4))
        assert text.isascii()
        newer = (ast.JoinedStr, ast.NamedExpr, ast.AsyncFunctionDef, ast.AnnAssign, ast.Starred)
        assert [node for node in ast.walk(tree) if isinstance(node, newer)] == []
        assert [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.returns] == []
