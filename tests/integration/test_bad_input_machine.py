"""Problems of the machine: a locked database, a full disk, ports and databases in use, invalid files in the data folder."""

import contextlib
import os
import resource
import shutil
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

from tests.integration.test_bad_input_requests import refused
from tests.services import skip_or_fail
from tests.services.product import Product, Tenant, new_place, wait_until, zip_of

HANDLER = "def handle(event):\n    return {'got': event}\n"


@contextlib.contextmanager
def locked(product: Product) -> Iterator[None]:
    """Another connection locks the database, so that no process can write, however long it waits."""
    connection = sqlite3.connect(product.place.data_dir / "sless.db", isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
    finally:
        connection.close()


@pytest.mark.timeout(180)
def test_a_locked_database_refuses_writes_and_still_serves_calls(own_product: Product) -> None:
    """Locked for longer than the busy timeout: writes fail with 503, calls still work, and all works once it is unlocked."""
    tenant = own_product.tenant("t")
    path = tenant.deploy("f", HANDLER)
    with locked(own_product):
        answers = {}

        def ask(name: str, call: Callable[[], object]) -> None:
            answers[name] = call()

        calls = {
            "create": lambda: tenant.post("functions", {"name": "g", "runtime": "python3.11"}),
            "upload": lambda: tenant.upload("f", HANDLER + "# two\n"),
            "later": lambda: tenant.post("functions/f/invoke", 1, headers={"Prefer": "respond-async"}),
            "delete": lambda: tenant.call("DELETE", "functions/f"),
        }
        threads = [threading.Thread(target=ask, args=item) for item in calls.items()]
        for thread in threads:
            thread.start()
        served = [tenant.post(path, number) for number in range(20)]
        read = tenant.get("functions/f")
        for thread in threads:
            thread.join(60)
    assert [answer.json() for answer in served] == [{"got": number} for number in range(20)]
    assert read.json()["phase"] == "Ready"
    for name in calls:
        assert "busy" in refused(answers[name], 503, "unavailable")["error"], name
        assert answers[name].headers["Retry-After"], name
    # The refused writes had no effect, and succeed now.
    assert [item["name"] for item in tenant.get("functions").json()] == ["f"]
    assert len(tenant.get("functions/f/versions").json()) == 1
    tenant.create("g")
    assert tenant.upload("f", HANDLER + "# two\n").status_code == 202
    assert tenant.settled("f", version=2)["active_version"] == 2
    assert tenant.post(path, 7).json() == {"got": 7}
    # The history includes the calls made while the database was locked.
    wait_until(lambda: len(tenant.get("functions/f/invocations").json()) >= 21, "the calls are recorded")


@contextlib.contextmanager
def small_disk(folder: Path, size_mb: int) -> Iterator[Path]:
    """A separate small file system, where mounting is allowed."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size_mb}m", "sless-test", str(folder)], capture_output=True, check=False)
    try:
        yield folder
    finally:
        if made.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)


@contextlib.contextmanager
def on_small_disk(folder: Path) -> Iterator[tuple[Path, Tenant]]:
    """A 24 MB disk, and a tenant on a server that keeps its data there."""
    if not can_mount(folder):
        skip_or_fail("mounting a file system is not allowed: run the tests as root")
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(new_place(folder))
        disk = stack.enter_context(small_disk(place.data_dir, 24))
        product = Product(place)
        stack.callback(product.close)
        product.start()
        yield disk, product.tenant("t")


def can_mount(folder: Path) -> bool:
    probe = folder / "probe"
    probe.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "sless-test", str(probe)], capture_output=True, check=False).returncode:
        return False
    subprocess.run(["umount", str(probe)], check=True)
    return True


def test_an_upload_to_a_full_disk_is_refused(tmp_path: Path) -> None:
    """On a 24 MB disk or, where mounting is not allowed, with files limited to 4 MB, which fails in the same way."""
    mounts = can_mount(tmp_path)
    noise = os.urandom(30 << 20) if mounts else os.urandom(5 << 20)
    big = zip_of({"handler.py": HANDLER, "noise": noise})
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(new_place(tmp_path))
        if mounts:
            stack.enter_context(small_disk(place.data_dir, 24))
        product = Product(place)
        stack.callback(product.close)
        product.start(None if mounts else limit_files)
        tenant = product.tenant("t")
        path = tenant.deploy("f", HANDLER)
        for options in ({"data": big, "headers": {"Content-Type": "application/zip"}}, {"files": {"code": ("code.zip", big)}}):
            answer = tenant.post("functions/f/upload", **options)
            assert "full" in refused(answer, 507, "storage_full")["error"]
        assert list((place.data_dir / "uploads").iterdir()) == []
        assert len(tenant.get("functions/f/versions").json()) == 1
        assert tenant.post(path, 1).json() == {"got": 1}
        assert tenant.upload("f", HANDLER + "# small\n").status_code == 202
        assert tenant.settled("f", version=2)["active_version"] == 2
        assert '"level": "error"' not in product.log, product.log


def limit_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))


def test_a_disk_without_a_free_page_refuses_writes_and_still_serves_calls(tmp_path: Path) -> None:
    """Writes fail with a clear error, calls and reads still work, and the server recovers once there is space."""
    with on_small_disk(tmp_path) as (disk, tenant):
        path = tenant.deploy("f", HANDLER)
        filler = disk / "filler"
        fill(filler)
        assert shutil.disk_usage(disk).free == 0
        answer = tenant.upload("f", HANDLER + "# two\n")
        assert "full" in refused(answer, 507, "storage_full")["error"]
        statuses = {tenant.post("functions", {"name": f"g{number}", "runtime": "python3.11"}).status_code for number in range(300)}
        assert statuses <= {201, 507}
        assert tenant.post(path, 1).json() == {"got": 1}
        assert tenant.get("functions/f").json()["phase"] == "Ready"
        filler.unlink()
        assert tenant.upload("f", HANDLER + "# two\n").status_code == 202
        assert tenant.settled("f", version=2)["active_version"] == 2


PATIENT = """
import os, time
def handle(event):
    while event and not os.path.exists(event):
        time.sleep(0.01)
    return "x" * 100_000
"""


def test_runs_fail_at_once_on_a_full_disk(tmp_path: Path) -> None:
    """Runs that cannot start or cannot store their result fail at once, and the server reports that it is not ready."""
    with on_small_disk(tmp_path) as (disk, tenant):
        tenant.deploy("once", PATIENT, http=False)
        assert tenant.post("functions/once/invoke").text == "x" * 100_000
        answers: list[requests.Response] = []
        go = tmp_path / "go"
        caught = threading.Thread(target=lambda: answers.append(tenant.post("functions/once/invoke", str(go))))
        caught.start()
        wait_until(lambda: any((disk / "runs").glob("*/spec.json")), "the run is running")
        fill(disk / "filler")
        go.touch()
        caught.join(60)
        assert answers[0].status_code == 502 and "exited" in answers[0].json()["error"], answers[0].text
        assert "full" in refused(tenant.post("functions/once/invoke"), 507, "storage_full")["error"]
        reply = tenant.get("/readyz")
        assert (reply.status_code, tenant.get("/healthz").status_code) == (503, 200) and "disk" in reply.json()["reason"]
        (disk / "filler").unlink()
        assert tenant.post("functions/once/invoke").status_code == 200
        assert tenant.get("/readyz").status_code == 200


def fill(path: Path) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY)
    try:
        with contextlib.suppress(OSError):
            while True:
                os.write(descriptor, b"\0" * 4096)
    finally:
        os.close(descriptor)


def test_a_port_in_use_stops_the_start(tmp_path: Path) -> None:
    with new_place(tmp_path) as place, socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = place.run("serve", "--port", str(port))
        assert (ended.returncode, ended.stderr) == (1, f"Error: port {port} on 127.0.0.1 is in use\n")


NO_DATABASE = b"not a database, but a text that is long enough to be examined" * 100


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [("sless.db", NO_DATABASE, "database"), ("jwt-secret", b"short", "jwt-secret")],
    ids=["db", "secret"],
)
def test_an_invalid_file_in_the_data_folder_stops_the_start(tmp_path: Path, name: str, content: bytes, expected: str) -> None:
    with new_place(tmp_path) as place:
        place.data_dir.mkdir()
        (place.data_dir / name).write_bytes(content)
        ended = place.run("serve", "--port", "0")
        assert ended.returncode != 0
        assert "Error: " in ended.stderr and expected in ended.stderr.rpartition("Error: ")[2], ended.stderr
        assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_a_database_serves_one_local_server_at_a_time(tmp_path: Path, postgres_url: str) -> None:
    """Each keeps functions in its own data folder: a second server is refused, and can start once the first was killed."""
    with new_place(tmp_path / "one") as here, new_place(tmp_path / "two") as there:
        one, two = (Product(place, SLESS_DATABASE_URL=postgres_url, SLESS_BACKEND="local") for place in (here, there))
        try:
            one.start()
            ended = there.run("serve", "--port", "0")
            assert ended.returncode == 1
            assert "SLESS_DATABASE_URL: another server uses this database" in ended.stderr
            one.kill(master=True, worker=True)
            two.start()
            assert two.tenant("t").get("functions").json() == []
        finally:
            two.close()
            one.close()
