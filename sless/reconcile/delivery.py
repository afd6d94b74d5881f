"""Sends one POST, of a callback or a notice, to an address that has been checked.

TLS checks the certificate against the name in the URL. Redirects are not followed, as their targets have not been checked.
"""

import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import BadStatusLine, HTTPException
from ssl import SSLContext

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.util.ssl_ import create_urllib3_context

from sless.domain.callback import CallbackUrl
from sless.reconcile.outbox import DeliveryResult


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpPost:
    """`address` is the checked address of the host in `url`."""

    url: CallbackUrl
    address: str
    headers: Mapping[str, str]
    body: bytes


def deliver(delivery: HttpPost, *, tls: SSLContext | None, connect_sec: float, whole_sec: float) -> DeliveryResult:
    """Sends one POST, without reading the body of the response. Trusts the machine's certificates if `tls` is None. `whole_sec` limits the
    time from the first byte sent to the head of the response."""
    connection = _connection_of(delivery, tls, connect_sec)
    guard = threading.Timer(whole_sec, lambda: _break_off(connection))
    try:
        connection.connect()
        connection.timeout = whole_sec  # which urllib3 resets for each request
        guard.start()
        connection.request("POST", delivery.url.target, body=delivery.body, headers=delivery.headers, preload_content=False)
        answer = connection.getresponse()
        return DeliveryResult(http_status=answer.status, retry_after=answer.headers.get("Retry-After", ""))
    except (HTTPError, HTTPException, OSError, ValueError) as error:  # ValueError: a certificate for another name
        return DeliveryResult(error=f"{delivery.url.authority} could not be reached: {_words_of(error)}")
    finally:
        guard.cancel()
        connection.close()


def _connection_of(delivery: HttpPost, tls: SSLContext | None, connect_sec: float) -> HTTPConnection:
    url = delivery.url
    if not url.secure:
        return HTTPConnection(delivery.address, url.port, timeout=connect_sec)
    context = tls
    if context is None:
        context = create_urllib3_context()
        context.load_default_certs()
    return HTTPSConnection(
        delivery.address, url.port, timeout=connect_sec, ssl_context=context, server_hostname=url.host, assert_hostname=url.host,
        cert_reqs="CERT_REQUIRED",
    )  # fmt: skip


def _break_off(connection: HTTPConnection) -> None:
    """Ends a blocked read on the socket, in whichever thread."""
    sock = connection.sock
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _words_of(error: Exception) -> str:
    """The error's text without the object that urllib3 puts in front; names a response that is not HTTP."""
    if type(error) is BadStatusLine:
        return "the response is not HTTP"
    text = str(error) or type(error).__name__
    return text.rpartition(">: ")[2] or text
