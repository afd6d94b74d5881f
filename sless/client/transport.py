"""HTTP requests to one server; the only module that uses `requests`."""

import ipaddress
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests
from requests.auth import AuthBase

from sless.client.errors import ClientError, Unreachable, error_of

CONNECT_SEC = 10.0
READ_SEC = 120.0
IDEMPOTENT = frozenset({"GET", "HEAD", "PUT", "DELETE"})
REFUSED_PAUSES_SEC = (0.1, 0.3, 0.9)
"""A restarting server is back within about a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswer:
    """The answer of a function or service. `headers` is case-insensitive; repeated headers are joined with `, `."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def platform_error(self) -> str:
        """The code if sless answered instead of the function (`X-Sless-Error`), else ""."""
        return self.headers.get("X-Sless-Error", "")

    @property
    def invocation_path(self) -> str:
        """`Location` of an asynchronous call, else ""."""
        return self.headers.get("Location", "")

    @property
    def refusal(self) -> ClientError:
        """The error in an answer by sless itself."""
        try:
            parsed = json.loads(self.body)
        except ValueError:
            parsed = None
        return error_of(self.status, self.headers, self.body, parsed)


class Transport:
    """Sends requests with the caller's token. `url` is the server's base URL, possibly with a path."""

    def __init__(self, url: str, token: str, refused_pauses_sec: tuple[float, ...] = REFUSED_PAUSES_SEC) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ClientError(message=f"expected the server's URL such as http://127.0.0.1:9090, found {url!r}", code="invalid_url")
        if not all("!" <= char <= "~" for char in token):
            raise ClientError(message="the token contains spaces, line ends or other invalid characters", code="invalid_token")
        self.url = url.rstrip("/")
        self._pauses_sec = refused_pauses_sec
        self._session = requests.Session()
        self._session.auth = _Bearer(token)
        self._session.headers["User-Agent"] = "sless-client"
        # A proxy from the environment cannot reach this machine's loopback address.
        self._session.trust_env = not _is_loopback(parts.hostname)

    def json(self, method: str, path: str, **options: Any) -> Any:
        """The answer's JSON value, None for 204. `options` are those of `requests.request`."""
        return _json_of(self._checked(method, path, options))

    def answer(self, method: str, path: str, **options: Any) -> CallAnswer:
        """The answer, whatever its status."""
        response = self._send(method, path, options)
        return CallAnswer(status=response.status_code, headers=response.headers, body=response.content)

    def fetch(self, path: str) -> tuple[Any, str]:
        """The JSON value, and its ETag or ""."""
        response = self._checked("GET", path, {})
        return _json_of(response), response.headers.get("ETag", "")

    def content(self, path: str, **options: Any) -> bytes:
        return self._checked("GET", path, options).content

    def pages(self, path: str, params: dict[str, Any]) -> Iterator[Any]:
        """The items of a list and of the pages that `Link: rel="next"` points to."""
        while True:
            response = self._checked("GET", path, {"params": params})
            yield from _json_of(response)
            following = response.links.get("next", {}).get("url")
            if not following:
                return
            # Only the query is used, so the token is not sent to another host.
            params = dict(parse_qsl(urlsplit(following).query))

    @contextmanager
    def lines(self, path: str, params: dict[str, Any]) -> Iterator[Iterator[str]]:
        """Text lines as they arrive, until the answer ends."""
        with self._checked("GET", path, {"params": params, "stream": True, "timeout": (CONNECT_SEC, None)}) as response:
            yield _lines_of(response)

    def close(self) -> None:
        self._session.close()

    def _checked(self, method: str, path: str, options: dict[str, Any]) -> requests.Response:
        response = self._send(method, path, options)
        if not response.ok or response.is_redirect:
            raise error_of(response.status_code, response.headers, _body_of(response), _parsed(response))
        return response

    def _send(self, method: str, path: str, options: dict[str, Any]) -> requests.Response:
        options = {"timeout": (CONNECT_SEC, READ_SEC), "allow_redirects": False, **options}
        pauses = list(self._pauses_sec) if method in IDEMPOTENT else []
        while True:
            try:
                return self._session.request(method, self.url + path, **options)
            except requests.ConnectionError as error:
                if not (pauses and _is_refused(error)):
                    raise self._unreachable(error) from error
                time.sleep(pauses.pop(0))
            except requests.RequestException as error:
                raise self._unreachable(error) from error

    def _unreachable(self, error: requests.RequestException) -> Unreachable:
        return Unreachable(message=f"no answer from {self.url}: {_reason_of(error)}", code="unreachable")


class _Bearer(AuthBase):
    """An auth object, so that a ~/.netrc entry for the host does not replace the token."""

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_refused(error: requests.ConnectionError) -> bool:
    return any(isinstance(cause, ConnectionRefusedError) for cause in _causes_of(error))


def _reason_of(error: requests.RequestException) -> str:
    *_, root = _causes_of(error)
    if isinstance(root, OSError) and root.strerror:
        return root.strerror.lower()
    return str(root) or type(root).__name__


def _causes_of(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes, to the root."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _parsed(response: requests.Response) -> Any:
    try:
        return response.json()
    except ValueError:
        return None


def _json_of(response: requests.Response) -> Any:
    if response.status_code == 204 or not response.content:
        return None
    value = _parsed(response)
    if value is None and response.content.strip() != b"null":
        raise error_of(response.status_code, response.headers, response.content, None)
    return value


def _body_of(response: requests.Response) -> bytes:
    try:
        return response.content
    except requests.RequestException:
        return b""


def _lines_of(response: requests.Response) -> Iterator[str]:
    rest = b""
    try:
        for chunk in response.iter_content(None):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line.rstrip(b"\r").decode(errors="replace")
    except requests.RequestException as error:
        raise Unreachable(message=f"the connection broke: {_reason_of(error)}", code="unreachable") from error
    if rest:
        yield rest.decode(errors="replace")
