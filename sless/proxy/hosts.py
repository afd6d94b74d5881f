"""Hosts of functions: a request to `{name}-{namespace}.{domain}` is a call of `/fn/{namespace}/{name}`. If functions have separate hosts,
these do not serve the console, and the console's host does not serve functions."""

import re

from sless.config import Settings
from sless.domain.function_urls import FunctionUrls, function_urls_of
from sless.errors import Code, SlessError
from sless.proxy.request import Headers

_LABEL = re.compile(rb"([a-z](?:[-a-z0-9]{0,38}[a-z0-9])?)-(sless-[0-9a-f]{16})")
_CALL = b"/fn/"
_EVERYWHERE = frozenset({b"/healthz", b"/health", b"/readyz"})
"""Load balancers request these on each host."""


class FunctionHosts:
    def __init__(self, urls: FunctionUrls) -> None:
        self._urls = urls
        self._suffix = b"." + urls.domain.lower().encode("idna") if urls.domain else None
        self._shared = urls.shared_host.lower().encode("idna")

    def prefix_of(self, headers: Headers, target: bytes) -> tuple[bytes, SlessError | None]:
        """The prefix for the request's path, which names the function of this host; an error if this host does not serve the path."""
        host = next((value for name, value in headers if name == b"host"), b"").lower()
        host = host if host.startswith(b"[") else host.partition(b":")[0]
        is_path = target.startswith(b"/")
        if is_path and self._suffix and host.endswith(self._suffix) and (match := _LABEL.fullmatch(host[: -len(self._suffix)])):
            return b"/fn/%b/%b" % (match[2], match[1]), None
        if not self._urls.exclusive:
            return b"", None
        path = target if is_path else b"/" + target.partition(b"://")[2].partition(b"/")[2]
        return b"", self._refusal_of(host, path.partition(b"?")[0])

    def _refusal_of(self, host: bytes, path: bytes) -> SlessError | None:
        of_functions = host == self._shared or (self._suffix is not None and host.endswith(self._suffix))
        if path in _EVERYWHERE:
            return None
        if path.startswith(_CALL) and host != self._shared:
            return SlessError(Code.NOT_FOUND, f"functions are not called on this host, but at {self._urls.template}")
        if not path.startswith(_CALL) and of_functions:
            return SlessError(Code.NOT_FOUND, f"this host serves functions only; REST interface and console: {self._urls.console_url}")
        return None


def function_hosts_of(settings: Settings) -> FunctionHosts | None:
    """None if all hosts serve everything. Raises ConfigError."""
    urls = function_urls_of(settings)
    return FunctionHosts(urls) if urls.domain or urls.shared_host else None
