"""Callbacks sent to a server that records requests and returns scripted responses, with and without TLS."""

import datetime
import hashlib
import hmac
import ipaddress
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sless import clock
from sless.domain.addresses import parse_allowed
from sless.domain.callback import MAX_ATTEMPTS, Callback, CallbackStatus
from sless.domain.model import CallStatus, Kind, Run
from sless.outbound import Outbound
from sless.reconcile import callbacks
from sless.reconcile.callbacks import CallbacksLoop
from sless.store import Store, open_store
from tests.builders import NAMESPACE, make_run, make_workload_spec
from tests.contract.store_steps import claim_run
from tests.services.product import wait_until

DELIVERED, FAILED, PENDING = CallbackStatus.DELIVERED, CallbackStatus.FAILED, CallbackStatus.PENDING


@dataclass
class Receiver:
    """Returns `answers` (status and headers) in order and repeats the last one."""

    port: int = 0
    got: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=lambda: [(204, {})])
    hold: threading.Event | None = None


def serve(receiver: Receiver, context: ssl.SSLContext | None = None) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.got.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            if receiver.hold is not None:
                receiver.hold.wait(30)
            status, headers = receiver.answers.pop(0) if len(receiver.answers) > 1 else receiver.answers[0]
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *args: object) -> None:
            """Silent."""

    class Server(ThreadingHTTPServer):
        def handle_error(self, request: object, client_address: object) -> None:
            """Silent: some tests expect a refused handshake."""

    server = Server(("127.0.0.1", 0), Handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    receiver.port = server.server_port
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
    return server


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    server = serve(receiver)
    yield receiver
    server.shutdown()
    server.server_close()


@pytest.fixture
def store(migrated_sqlite: Path, tmp_path: Path) -> Iterator[Store]:
    (tmp_path / "sless.db").write_bytes(migrated_sqlite.read_bytes())
    store = open_store(f"sqlite:///{tmp_path}/sless.db")
    store.tenants.ensure(NAMESPACE, "s")
    yield store
    store.close()


class Waker:
    def wake(self, topic: str) -> None:
        """The tests call tick themselves."""


def make_loop(store: Store, *, hosts: Sequence[str] = ("127.0.0.1",), allowed: str = "127.0.0.0/8", tls: ssl.SSLContext | None = None):
    asked: list[str] = []

    def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return hosts

    outbound = Outbound(allowed=parse_allowed([allowed] if allowed else []), resolve=resolve)
    return CallbacksLoop(store=store, outbound=outbound, waker=Waker(), tls=tls), asked


@pytest.fixture
def loop(store: Store) -> Iterator[CallbacksLoop]:
    loop, _ = make_loop(store)
    yield loop
    loop.stop()


def make_end(store: Store, url: str, status: CallStatus = CallStatus.SUCCEEDED, namespace: str = NAMESPACE) -> Run:
    store.tenants.ensure(namespace, "s")
    found = store.workloads.find(namespace, Kind.FUNCTION, "hello")
    workload = found or store.workloads.insert(namespace, Kind.FUNCTION, "hello", make_workload_spec())
    run = make_run(workload_id=workload.id, namespace=namespace, callback_url=url)
    store.runs.insert(run)
    claim_run(store, run.id, "h", 1)
    store.runs.finish(run.id, status=status, result='{"n": "ü"}', http_status=200)
    return store.runs.get(run.id)


def sent(loop: CallbacksLoop, run: Run, attempts: int = 1) -> Callback:
    loop.tick()
    wait_until(lambda: loop.store.callbacks.find(run.id).attempts >= attempts, "the result is stored")
    return loop.store.callbacks.find(run.id)


def hurry(store: Store) -> None:
    with store.database.write() as conn:
        conn.exec_driver_sql("UPDATE callbacks SET not_before = created_at")


def test_callbacks_are_delivered_and_signed(store: Store, receiver: Receiver, loop: CallbacksLoop) -> None:
    url = f"http://example.test:{receiver.port}/done?x=1"
    run = make_end(store, url)
    found = sent(loop, run)
    assert (found.status, found.http_status, found.error) == (DELIVERED, 204, None)
    ((path, headers, body),) = receiver.got
    assert (path, headers["host"], headers["content-type"]) == ("/done?x=1", f"example.test:{receiver.port}", "application/json")
    body_json = json.loads(body)
    assert (body_json["id"], body_json["status"], body_json["result"], body_json["attempts"]) == (run.id, "succeeded", '{"n": "ü"}', 1)
    (key,) = store.callbacks.keys(NAMESPACE)
    message = f"{headers['x-sless-timestamp']}.{url}.".encode() + body
    assert headers["x-sless-signature"] == "v1=" + hmac.new(key.secret.encode(), message, hashlib.sha256).hexdigest()
    assert abs(int(headers["x-sless-timestamp"]) - time.time()) < 60
    loop.tick()
    assert len(receiver.got) == 1


def test_after_a_rotation_both_keys_sign(store: Store, receiver: Receiver, loop: CallbacksLoop) -> None:
    old = store.callbacks.keys(NAMESPACE)[0]
    new = store.callbacks.rotate_key(NAMESPACE)[0]
    url = f"http://h:{receiver.port}/"
    sent(loop, make_end(store, url))
    ((_, headers, body),) = receiver.got
    message = f"{headers['x-sless-timestamp']}.{url}.".encode() + body
    wanted = ["v1=" + hmac.new(key.secret.encode(), message, hashlib.sha256).hexdigest() for key in (new, old)]
    assert headers["x-sless-signature"].split(",") == wanted


@pytest.mark.parametrize("status", [500, 503, 404, 301, 302, 307, 300])
def test_any_status_but_2xx_is_retried(store: Store, receiver: Receiver, loop: CallbacksLoop, status: int) -> None:
    receiver.answers = [(status, {"Location": f"http://127.0.0.1:{receiver.port}/elsewhere"}), (200, {})]
    run = make_end(store, f"http://h:{receiver.port}/here")
    found = sent(loop, run)
    assert (found.status, found.http_status) == (PENDING, status) and str(status) in found.error
    assert 1 < (found.not_before - clock.now()).total_seconds() < 3
    loop.tick()
    hurry(store)
    assert sent(loop, run, 2).status is DELIVERED
    assert [path for path, _, _ in receiver.got] == ["/here", "/here"], "a redirect is not followed"


def test_retry_after_is_honoured(store: Store, receiver: Receiver, loop: CallbacksLoop) -> None:
    receiver.answers = [(429, {"Retry-After": "120"})]
    found = sent(loop, make_end(store, f"http://h:{receiver.port}/"))
    assert (found.not_before - clock.now()).total_seconds() > 110


def test_given_up_after_many_attempts(store: Store, receiver: Receiver, loop: CallbacksLoop) -> None:
    receiver.answers = [(500, {})]
    run = make_end(store, f"http://h:{receiver.port}/")
    for attempt in range(1, MAX_ATTEMPTS + 1):
        hurry(store)
        found = sent(loop, run, attempt)
    assert (found.status, found.attempts, found.http_status) == (FAILED, MAX_ATTEMPTS, 500)
    loop.tick()
    assert len(receiver.got) == MAX_ATTEMPTS


def test_a_name_that_resolves_to_a_private_address_is_refused_without_retry(store: Store, receiver: Receiver) -> None:
    loop, asked = make_loop(store, hosts=("8.8.8.8", "127.0.0.1"), allowed="")
    found = sent(loop, make_end(store, f"http://evil.example:{receiver.port}/"))
    loop.stop()
    assert (found.status, receiver.got, asked) == (FAILED, [], ["evil.example"])
    assert "not a public address" in found.error


def test_the_checked_address_is_the_one_connected_to(store: Store, receiver: Receiver) -> None:
    """A name is resolved only once, so a different second answer (DNS rebinding) has no effect."""
    loop, asked = make_loop(store)
    assert sent(loop, make_end(store, f"http://name.invalid:{receiver.port}/")).status is DELIVERED
    loop.stop()
    assert asked == ["name.invalid"]


def test_a_name_is_checked_for_each_callback_and_reaches_no_private_address(store: Store, receiver: Receiver) -> None:
    """127.0.0.1 stands for a public address, 127.0.0.2 for a private one with the same port open."""
    inside: list[str] = []
    answers = [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "127.0.0.2"]]
    with socket.create_server(("127.0.0.2", receiver.port)) as listening:
        listening.settimeout(0.05)
        outbound = Outbound(allowed=parse_allowed(["127.0.0.1/32"]), resolve=lambda host, port: answers.pop(0))
        loop = CallbacksLoop(store=store, outbound=outbound, waker=Waker())
        ends = [sent(loop, make_end(store, f"http://rebound.example:{receiver.port}/")) for _ in range(3)]
        loop.stop()
        with suppress(TimeoutError):
            inside.append(str(listening.accept()[1]))
    assert [end.status for end in ends] == [DELIVERED, FAILED, FAILED]
    assert all("127.0.0.2" not in end.error and "not a public address" in end.error for end in ends[1:])
    assert (len(receiver.got), inside, answers) == (1, [], [])


def test_connection_refused(store: Store, loop: CallbacksLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    found = sent(loop, make_end(store, f"http://h:{port}/"))
    assert (found.status, found.http_status) == (PENDING, None) and "could not be reached" in found.error and "refused" in found.error


def test_a_server_that_sends_no_response_times_out(store: Store, receiver: Receiver, loop: CallbacksLoop) -> None:
    loop.whole_sec = 0.2
    receiver.hold = threading.Event()
    found = sent(loop, make_end(store, f"http://h:{receiver.port}/"))
    receiver.hold.set()
    assert (found.status, found.http_status) == (PENDING, None)


def test_a_response_may_take_longer_than_the_connect_timeout(store: Store, receiver: Receiver, loop: CallbacksLoop) -> None:
    loop.connect_sec = 0.2
    receiver.hold = threading.Event()
    threading.Timer(0.5, receiver.hold.set).start()
    assert sent(loop, make_end(store, f"http://h:{receiver.port}/")).status is CallbackStatus.DELIVERED


def test_a_response_that_is_not_http(store: Store, loop: CallbacksLoop) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(b"\xff\x00nonsense\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        found = sent(loop, make_end(store, f"http://h:{server.getsockname()[1]}/"))
        thread.join()
    assert (found.status, found.http_status) == (PENDING, None) and "is not HTTP" in found.error


def test_a_slow_tenant_does_not_delay_others(store: Store, receiver: Receiver, loop: CallbacksLoop) -> None:
    receiver.hold = threading.Event()
    for _ in range(8):
        make_end(store, f"http://h:{receiver.port}/slow")
    loop.tick()
    wait_until(lambda: len(receiver.got) == callbacks.AT_ONCE_PER_NAMESPACE, "as many as a tenant may have")
    other = Receiver()
    server = serve(other)
    try:
        assert sent(loop, make_end(store, f"http://h:{other.port}/", namespace="other")).status is DELIVERED
        assert len(receiver.got) == callbacks.AT_ONCE_PER_NAMESPACE
    finally:
        receiver.hold.set()
        server.shutdown()
        server.server_close()


def test_a_rerun_drops_the_pending_callback(store: Store, receiver: Receiver, loop: CallbacksLoop) -> None:
    run = make_end(store, f"http://h:{receiver.port}/", CallStatus.FAILED)
    store.runs.rerun(run.id)
    loop.tick()
    assert receiver.got == [] and store.callbacks.find(run.id) is None


# --- TLS ---


def certificate(folder: Path, name: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS contexts of a server called `name` and of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
    names: list[x509.GeneralName] = [x509.DNSName(name)] if not name[0].isdigit() else [x509.IPAddress(ipaddress.ip_address(name))]
    builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
    made = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "both.pem").write_bytes(private + made)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "both.pem")
    return server, ssl.create_default_context(cadata=made.decode())


@pytest.mark.parametrize(("host", "name"), [("hooks.example", "hooks.example"), ("127.0.0.1", "127.0.0.1")])
def test_tls_checks_the_name_although_the_address_is_pinned(store: Store, tmp_path: Path, host: str, name: str) -> None:
    server_context, client_context = certificate(tmp_path, name)
    asked: list[str | None] = []
    server_context.sni_callback = lambda sock, server_name, context: asked.append(server_name)
    receiver = Receiver()
    server = serve(receiver, server_context)
    loop, _ = make_loop(store, tls=client_context)
    try:
        found = sent(loop, make_end(store, f"https://{host}:{receiver.port}/x"))
        assert (found.status, found.error) == (DELIVERED, None)
        assert asked == [host if host == "hooks.example" else None] and receiver.got[0][1]["host"] == f"{host}:{receiver.port}"
        wrong = sent(loop, make_end(store, f"https://other.example:{receiver.port}/x"))
        assert wrong.status is PENDING and "other.example" in wrong.error and len(receiver.got) == 1
    finally:
        loop.stop()
        server.shutdown()
        server.server_close()


def test_an_untrusted_certificate_is_refused(store: Store, tmp_path: Path) -> None:
    server_context, _ = certificate(tmp_path, "hooks.example")
    receiver = Receiver()
    server = serve(receiver, server_context)
    loop, _ = make_loop(store)
    try:
        found = sent(loop, make_end(store, f"https://hooks.example:{receiver.port}/x"))
        assert found.status is PENDING and "certificate" in found.error.lower() and receiver.got == []
    finally:
        loop.stop()
        server.shutdown()
        server.server_close()
