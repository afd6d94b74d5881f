"""The plugin process: handshake, TLS, and a gRPC server on a socket in a private folder.

Terraform reads one line from stdout: `1|6|unix|SOCKET|grpc|CERTIFICATE`. It ends the process after `Shutdown`.
"""

import base64
import json
import os
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tf.gen import grpc_controller_pb2, grpc_controller_pb2_grpc, grpc_stdio_pb2_grpc, tfplugin_pb2_grpc

from sless import clock

MAX_MESSAGE_BYTES = 64 * 2**20
"""A configuration may hold large texts; gRPC's own limit is 4 MB."""
THREADS = 64
"""Terraform's `-parallelism` may be higher than its default of 10, and StopProvider must find a free thread."""


def serve(servicer: Any) -> None:
    """Returns when Terraform has ended the plugin."""
    # A terminal sends SIGINT to the whole process group. Terraform handles it and sends StopProvider.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ended = threading.Event()
    certificate, credentials = _self_signed()
    with tempfile.TemporaryDirectory(prefix="sless-tf-") as folder:
        socket = f"{folder}/provider"
        server = _start(servicer, socket, ended, credentials)
        print(f"1|6|unix|{socket}|grpc|{certificate}", flush=True)
        ended.wait()
        server.stop(grace=1).wait()


def serve_attached(servicer: Any, addresses: list[str]) -> None:
    """For debugging: one process serves many runs of Terraform, until SIGINT or SIGTERM. Prints the value of TF_REATTACH_PROVIDERS."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    with tempfile.TemporaryDirectory(prefix="sless-tf-") as folder:
        socket = f"{folder}/provider"
        server = _start(servicer, socket, threading.Event(), None)
        place = {"Network": "unix", "String": socket}
        attached = {"Protocol": "grpc", "ProtocolVersion": 6, "Pid": os.getpid(), "Test": True, "Addr": place}
        print(json.dumps(dict.fromkeys(addresses, attached)), flush=True)
        ended.wait()
        server.stop(grace=1).wait()


def _start(servicer: Any, socket: str, ended: threading.Event, credentials: grpc.ServerCredentials | None) -> grpc.Server:
    options = [("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.max_send_message_length", MAX_MESSAGE_BYTES)]
    server = grpc.server(ThreadPoolExecutor(THREADS), options=options)
    tfplugin_pb2_grpc.add_ProviderServicer_to_server(servicer, server)
    grpc_controller_pb2_grpc.add_GRPCControllerServicer_to_server(_Controller(ended), server)
    grpc_stdio_pb2_grpc.add_GRPCStdioServicer_to_server(_Stdio(), server)
    address = f"unix://{socket}"
    if credentials is None:
        server.add_insecure_port(address)
    else:
        server.add_secure_port(address, credentials)
    server.start()
    return server


class _Controller(grpc_controller_pb2_grpc.GRPCControllerServicer):
    def __init__(self, ended: threading.Event) -> None:
        self._ended = ended

    def Shutdown(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._ended.set()
        return grpc_controller_pb2.Empty()


class _Stdio(grpc_stdio_pb2_grpc.GRPCStdioServicer):
    def StreamStdio(self, request: Any, context: grpc.ServicerContext) -> Any:
        return iter(())


def _self_signed() -> tuple[str, grpc.ServerCredentials]:
    """(the certificate for the handshake, the server's credentials): a new key for each process."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = clock.now()
    times = (now - timedelta(hours=1), now + timedelta(days=7))
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), *times)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    certificate = builder.sign(key, hashes.SHA256())
    private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    credentials = grpc.ssl_server_credentials([(private, certificate.public_bytes(serialization.Encoding.PEM))])
    return base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode().rstrip("="), credentials
