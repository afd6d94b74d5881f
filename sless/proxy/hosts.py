"""Hosts of functions: a request to `{name}-{namespace}.{domain}` is a call of `/fn/{namespace}/{name}`."""

import re

from sless.config import Settings
from sless.proxy.request import Headers

_LABEL = re.compile(rb"([a-z](?:[-a-z0-9]{0,38}[a-z0-9])?)-(sless-[0-9a-f]{16})")


class FunctionHosts:
    """`domain` is SLESS_INGRESS_HOST. Other hosts below it do not belong to functions."""

    def __init__(self, domain: str) -> None:
        self._suffix = b"." + domain.lower().encode("idna")

    def find_prefix(self, headers: Headers) -> bytes | None:
        """The prefix for the request's path; None when Host does not name a function."""
        for name, value in headers:
            if name == b"host":
                host = value.partition(b":")[0].lower()
                if not host.endswith(self._suffix):
                    return None
                match = _LABEL.fullmatch(host[: -len(self._suffix)])
                return b"/fn/%b/%b" % (match[2], match[1]) if match else None
        return None


def function_hosts_of(settings: Settings) -> FunctionHosts | None:
    return FunctionHosts(settings.ingress_host) if settings.ingress_host and not settings.external_url else None
