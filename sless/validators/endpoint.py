"""One request to an OpenAI-compatible chat endpoint, bounded in time and size."""

import json
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any
from urllib.parse import urlsplit

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import HTTPError
from urllib3.util.ssl_ import create_urllib3_context

from sless._version import __version__

MAX_RESPONSE_BYTES = 256 * 1024
MAX_ANSWER_TOKENS = 2_000
_PORTS = {"http": 80, "https": 443}


class NoAnswer(Exception):
    """The model gave no answer; its text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """`tokens` are those of the prompt and of the answer, as the endpoint counts them."""

    text: str
    tokens: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ChatEndpoint:
    """`url` is the base, such as `https://models.example.com/v1`, or the whole URL of chat completions."""

    url: str
    model: str
    token: str
    timeout_sec: float

    def ask(self, messages: list[dict[str, str]]) -> ChatAnswer:
        """Blocks for at most `timeout_sec`. Raises NoAnswer."""
        order = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": MAX_ANSWER_TOKENS}
        status, body = self._post(json.dumps(order).encode())
        if status != 200:
            raise NoAnswer(f"the model's endpoint answered with status {status}")
        return _answer_of(body)

    def _post(self, body: bytes) -> tuple[int, bytes]:
        parts = urlsplit(self.url.rstrip("/"))
        path = parts.path if parts.path.endswith("/chat/completions") else f"{parts.path}/chat/completions"
        target = path + (f"?{parts.query}" if parts.query else "")
        connection = self._connection(parts.scheme, parts.hostname or "", parts.port or _PORTS[parts.scheme])
        headers = {"Content-Type": "application/json", "User-Agent": f"sless/{__version__}", "Connection": "close"}
        headers |= {"Authorization": f"Bearer {self.token}"} if self.token else {}
        deadline = _Deadline(self.timeout_sec)
        try:
            connection.connect()
            deadline.watch(connection.sock)
            connection.request("POST", target, body=body, headers=headers, preload_content=False)
            answer = connection.getresponse()
            content = answer.read(MAX_RESPONSE_BYTES + 1, decode_content=True)
        except (HTTPError, HTTPException, OSError, ValueError) as error:
            if deadline.is_over():
                raise NoAnswer(f"the model gave no answer within {self.timeout_sec:g} s") from error
            raise NoAnswer("the model's endpoint cannot be reached") from error
        finally:
            deadline.close()
            connection.close()
        if deadline.is_over():
            raise NoAnswer(f"the model gave no answer within {self.timeout_sec:g} s")
        if len(content) > MAX_RESPONSE_BYTES:
            raise NoAnswer(f"the model's response is over {MAX_RESPONSE_BYTES} bytes")
        return answer.status, content

    def _connection(self, scheme: str, host: str, port: int) -> HTTPConnection:
        if scheme == "http":
            return HTTPConnection(host, port, timeout=self.timeout_sec)
        context = create_urllib3_context()
        context.load_default_certs()
        return HTTPSConnection(host, port, timeout=self.timeout_sec, ssl_context=context, cert_reqs="CERT_REQUIRED")


class _Deadline:
    """Ends a blocked read when the time is over, even if the endpoint sends a byte now and then."""

    def __init__(self, timeout_sec: float) -> None:
        self._at = time.monotonic() + timeout_sec
        self._guard: threading.Timer | None = None

    def watch(self, sock: socket.socket | None) -> None:
        self._guard = threading.Timer(max(0.0, self._at - time.monotonic()), lambda: _break_off(sock))
        self._guard.daemon = True
        self._guard.start()

    def is_over(self) -> bool:
        return time.monotonic() >= self._at

    def close(self) -> None:
        if self._guard is not None:
            self._guard.cancel()


def _break_off(sock: socket.socket | None) -> None:
    if sock is not None:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def _answer_of(body: bytes) -> ChatAnswer:
    try:
        value = json.loads(body)
        choice = value["choices"][0]
        text, finish = choice["message"]["content"], choice.get("finish_reason")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
        raise NoAnswer("the model's response is not a chat completion") from error
    if not isinstance(text, str):
        raise NoAnswer("the model's response has no text")
    if finish == "length":
        raise NoAnswer("the model's answer was cut off at its limit of tokens")
    usage = value.get("usage")
    return ChatAnswer(text=text, tokens=(_count(usage, "prompt_tokens"), _count(usage, "completion_tokens")))


def _count(usage: Any, name: str) -> int:
    number = usage.get(name) if isinstance(usage, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) and number >= 0 else 0
