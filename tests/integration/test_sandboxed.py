"""Functions, jobs and builds of all runtimes under bubblewrap, on a real server."""

import shutil
from collections.abc import Iterator

import pytest

from tests.services import unavailable
from tests.services.product import Product, Tenant, running_product, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sandboxed"), pytest.mark.timeout(300)]
SPY = """
import os, six
def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return type(error).__name__
def handle(event):
    data = event["data"]
    open("/tmp/mine", "w").write(six.__version__)
    return {
        "secrets": [attempt(open, f"{data}/{name}") for name in ("jwt-secret", "encryption-keys", "sless.db", "holder")],
        "versions": len(os.listdir(f"{data}/versions")), "code": attempt(open, "new.py", "w"),
        "processes": len([name for name in os.listdir("/proc") if name.isdigit()]), "pid": os.getpid(),
    }
"""
NODE = "exports.handle = () => require('fs').readdirSync('/proc').filter(Number).length"
GO = """package fn

import "os"

func Handle(event map[string]any) any {
	_, err := os.Stat(event["secret"].(string))
	return err != nil
}
"""
INSTALL = """
import os, sys
from setuptools import setup
sys.exit(f"found {[name for name in (os.environ['PROBE'] + '/jwt-secret', '/etc/shadow') if os.path.exists(name)]}")
"""


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    if shutil.which("bwrap") is None:
        unavailable("bubblewrap", "bubblewrap")
    folders = "/opt/wheels,/opt/pypi,/opt/pypi-more"  # where a package index of this machine may be
    with running_product(tmp_path_factory.mktemp("sandboxed"), SLESS_LOCAL_SANDBOX="bwrap", SLESS_LOCAL_SANDBOX_READ=folders) as started:
        yield started


@pytest.fixture(scope="module")
def tenant(product: Product) -> Tenant:
    return product.tenant("ada")


def test_python_with_a_dependency_sees_no_secret(product: Product, tenant: Tenant) -> None:
    tenant.deploy("other", "def handle(event):\n    return 1\n")
    path = tenant.deploy("spy", {"handler.py": SPY, "requirements.txt": "six"})
    found = tenant.post(path, {"data": str(product.place.data_dir)}).json()
    assert found == {"secrets": ["FileNotFoundError"] * 4, "versions": 1, "code": "OSError", "processes": 2, "pid": 2}


def test_node_and_go_see_no_processes_or_secrets(product: Product, tenant: Tenant) -> None:
    node = tenant.deploy("node", {"handler.js": NODE}, runtime="nodejs20")
    assert tenant.get(node).text == "2"
    tenant.create("golang", runtime="go1.23")
    tenant.post("triggers", {"name": "golang", "type": "http", "function_ref": "golang"})
    tenant.upload("golang", {"handler.go": GO})
    assert tenant.settled("golang", timeout_sec=200)["phase"] == "Ready"  # compiles the standard library the first time
    assert tenant.post(f"/fn/{tenant.namespace}/golang", {"secret": f"{product.place.data_dir}/jwt-secret"}).json() is True


def test_a_job_gets_its_event_and_leaves_its_result(tenant: Tenant) -> None:
    tenant.post("jobs", {"name": "job", "runtime": "python3.11", "run_id": 1, "event_json": {"a": 1}})
    tenant.post("jobs/job/upload", {"files": {"handler.py": "import os\ndef handle(event):\n    return [event, os.getpid()]\n"}})
    assert tenant.ended_job("job")["message"] == '[{"a": 1}, 2]'


def test_code_that_a_build_runs_sees_no_secret(product: Product, tenant: Tenant) -> None:
    files = {"handler.py": "def handle(event):\n    return 1\n", "requirements.txt": "./probe", "probe/setup.py": INSTALL}
    tenant.create("built", build_env={"PROBE": str(product.place.data_dir), "PIP_NO_BUILD_ISOLATION": "1"})
    tenant.upload("built", files)
    assert tenant.settled("built")["phase"] == "Failed"
    log = tenant.get("functions/built/versions/1").json()["build_log"]
    assert "found []" in log or "No module named 'setuptools'" in log, log


def test_sandboxed_processes_end_with_the_server(product: Product, tenant: Tenant) -> None:
    path = tenant.deploy("stays", "def handle(event):\n    return 1\n")
    assert tenant.get(path).text == "1"
    assert len(product.place.processes()) > 2
    product.kill(master=True, worker=True)
    wait_until(lambda: not product.place.processes(), "no process is left behind", 60)
    product.start()
    wait_until(lambda: tenant.get(path).text == "1", "it serves again")


def test_config_names_the_sandbox(product: Product) -> None:
    shown = product.place.sless("config").stdout
    assert "SLESS_LOCAL_SANDBOX " in shown
    assert "bubblewrap" in product.place.sless("config", "--output", "json", SLESS_LOCAL_SANDBOX="auto").stdout
