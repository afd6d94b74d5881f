"""Failures: in the code, in the configuration, of the token, of the server, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from sless.config import Settings
from sless.tokens import issue_token
from tests.services.product import ROOT, free_port, wait_until

FUNCTION = """
resource "sless_function" "hello" {
  name       = "hello"
  runtime    = "python3.11"
  source_dir = "${abspath(path.module)}/code"
}
"""


def test_a_failed_build_shows_the_log_and_a_fixed_one_succeeds(workspace):
    workspace.code("import nothing_of_this_name\n\n\ndef handle(event):\n    return 1\n")
    workspace.write(FUNCTION)
    shown = workspace.fails("apply", "-auto-approve")
    assert "No module named 'nothing_of_this_name'" in shown and "on main.tf line" in shown and "source_dir" in shown
    assert workspace.all_state()["sless_function.hello"]["phase"] == "Failed", "the created resource is kept, as tainted"
    workspace.code()
    workspace.apply()
    # If a later version fails, the previous one keeps serving, and the difference remains.
    workspace.code("def handle(event:\n")
    shown = workspace.fails("apply", "-auto-approve")
    assert "handler.py" in shown and "line 1" in shown
    assert workspace.tenant.get("functions/hello").json()["phase"] == "Ready"
    assert workspace.plan()["sless_function.hello"]["actions"] == ["update"]
    workspace.code()
    assert workspace.is_unchanged()


def test_refused_code_leaves_nothing_behind(workspace):
    workspace.code("def handle(event:\n")
    workspace.write(FUNCTION)
    assert "line 1" in workspace.fails("apply", "-auto-approve")
    assert workspace.tenant.get("functions/hello").status_code == 404
    assert workspace.all_state() == {}


MISTAKES = {
    "of the configuration": {
        'resource "sless_trigger" "cron" {\n  name = "t"\n  type = "cron"\n  function_ref = "f"\n}\n': "needs schedule",
        'resource "sless_trigger" "http" {\n  name = "t"\n  type = "http"\n  function_ref = "f"\n  queue = "q"\n}\n': "queue belongs to",
        'resource "sless_job" "none" {\n  name = "j"\n}\n': "Expected runtime and source_dir",
        'resource "sless_job" "soon" {\n  name = "j"\n  function_ref = "f"\n  timeouts { create = "soon" }\n}\n': "Invalid duration",
        FUNCTION.replace('code"', 'code"\n  code_path = "code"'): "found both",
    },
    "of the code": {FUNCTION.replace('code"', 'none"'): "expected a folder with the code, found nothing"},
    "that the server finds": {
        FUNCTION.replace("python3.11", "cobol").replace('"sless_function" "hello"', '"sless_function" "cobol"'): "runtime",
        FUNCTION.replace('code"', 'code"\n  memory_mb = 1'): "memory_mb",
    },
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_names_its_attribute(workspace, kind):
    workspace.code()
    workspace.write("".join(MISTAKES[kind]))
    shown = workspace.fails("apply", "-auto-approve")
    found = shown.split("Error: ")[1:]
    assert len(found) == len(MISTAKES[kind]), shown
    for expected in MISTAKES[kind].values():
        assert any(expected in error and "on main.tf line" in error for error in found), (expected, shown)


def provider(workspace, **attributes):
    lines = "".join(f'  {name} = "{value}"\n' for name, value in attributes.items())
    (workspace.folder / "provider.tf").write_text(f'provider "sless" {{\n{lines}}}\n')


def test_the_provider_checks_its_configuration(workspace, product):
    workspace.code()
    workspace.write(FUNCTION)
    url, token = product.url, workspace.tenant.token
    expired = issue_token(Settings(data_dir=product.place.data_dir, auth_mode="local"), "somebody", -10)
    provider(workspace, endpoint=url, token=expired)
    shown = workspace.fails("plan")
    assert "expired" in shown and expired not in shown
    nowhere = f"http://127.0.0.1:{free_port()}"
    provider(workspace, endpoint=nowhere, token=token)
    assert f"no answer from {nowhere}" in workspace.fails("plan")
    provider(workspace, endpoint=url, token=token, auth_check_url=nowhere)
    assert "Cannot check the token" in workspace.fails("plan")
    provider(workspace, endpoint=url, token=token, auth_check_url=f"{url}/v1/whoami")
    workspace.ok("plan")
    provider(workspace, endpoint=url, token=token + "x", auth_check_url=f"{url}/v1/whoami")
    assert "Token refused" in workspace.fails("plan")
    provider(workspace, endpoint=url)
    assert "SLESS_API_TOKEN" in workspace.fails("plan")


SLOW = "import time\ntime.sleep({})\n\n\ndef handle(event):\n    return 1\n"


def test_timeouts_end_the_wait_but_keep_what_was_created(workspace):
    workspace.code(SLOW.format(20))
    workspace.write(FUNCTION.replace('code"', 'code"\n  timeouts { create = "1s" }'))
    shown = workspace.fails("apply", "-auto-approve")
    assert "Timed out" in shown and "version 1 of hello is still being built after 1 s" in shown
    assert [item["instances"][0]["status"] for item in workspace.stored_state()["resources"]] == ["tainted"]


def test_messages_may_be_larger_than_the_library_allows(workspace):
    """gRPC's own limit is 4 MB: the server's answer is shown, not an error of the plugin."""
    workspace.code()
    (workspace.folder / "text").write_text("x" * 5_000_000)
    workspace.write(FUNCTION.replace('code"', 'code"\n  description = file("${path.module}/text")'))
    shown = workspace.fails("apply", "-auto-approve")
    assert "Cannot create function" in shown and "ResourceExhausted" not in shown


def test_a_server_killed_during_an_apply_fails_nothing(workspace, product):
    """The shared server: these tests run one after the other."""
    product.port = int(product.url.rpartition(":")[2])
    workspace.code(SLOW.format(3))
    workspace.write(FUNCTION)
    with ThreadPoolExecutor(1) as pool:
        applied = pool.submit(workspace.apply)
        try:
            wait_until(lambda: workspace.tenant.get("functions/hello").json().get("latest_version") == 1, "the code is uploaded", 60)
        finally:
            product.kill(master=True, worker=True)
            product.start()
        applied.result(100)
    assert workspace.tenant.get("functions/hello").json()["phase"] == "Ready"
    assert workspace.is_unchanged()


def test_a_failed_job_shows_the_reason(workspace):
    workspace.code("print('about to fail')\nimport nothing_of_this_name\n")
    workspace.write(
        'resource "sless_job" "j" {\n  name = "j"\n  runtime = "python3.11"\n  run_id = 1\n'
        '  source_dir = "${abspath(path.module)}/code"\n}\n'
    )
    shown = workspace.fails("apply", "-auto-approve")
    assert "No module named 'nothing_of_this_name'" in shown and "about to fail" in shown and "source_dir" in shown
    workspace.code("def handle(event):\n    raise ValueError('no such month')\n")
    assert "no such month" in workspace.fails("apply", "-auto-approve")


@pytest.fixture
def installed(workspace, product):
    """The provider as Terraform itself starts and ends it."""
    folder = workspace.folder / "bin"
    folder.mkdir()
    program = folder / "terraform-provider-sless"
    program.write_text(f"#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m sless.terraform.main\n")
    program.chmod(0o755)
    config = workspace.folder / "terraform.rc"
    config.write_text(f'provider_installation {{\n  dev_overrides {{\n    "sless/sless" = "{folder}"\n  }}\n  direct {{}}\n}}\n')
    del workspace.environ["TF_REATTACH_PROVIDERS"]
    workspace.environ |= {"TF_CLI_CONFIG_FILE": str(config), "SLESS_ENDPOINT": product.url, "SLESS_API_TOKEN": workspace.tenant.token}
    (workspace.folder / "provider.tf").unlink()
    return workspace


def test_ctrl_c_keeps_what_was_created(installed):
    """As a terminal does it: SIGINT to the whole process group."""
    installed.code("import time\ntime.sleep(30)\n\n\ndef handle(event):\n    return 1\n")
    installed.write(FUNCTION)
    process = subprocess.Popen(
        [installed.binary, "apply", "-auto-approve", "-no-color"],
        cwd=installed.folder,
        env=installed.environ,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    )
    wait_until(lambda: installed.tenant.get("functions/hello").json().get("latest_version") == 1, "the code is uploaded", 60)
    began = time.monotonic()
    os.killpg(process.pid, signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 1 and "Interrupted" in shown, shown
    assert time.monotonic() - began < 20, "the build takes 30 s"
    assert [item["instances"][0]["status"] for item in installed.stored_state()["resources"]] == ["tainted"]
