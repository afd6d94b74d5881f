"""Isolates pages of functions from the console if both share a host, since browsers do not separate pages of the same origin."""

from sless.config import CONSOLE_COOKIE_PREFIX
from sless.errors import Code, SlessError
from sless.proxy.request import Headers, Request

_ORIGIN_WIDE = frozenset({b"service-worker-allowed", b"clear-site-data", b"strict-transport-security", b"alt-svc"})
"""Answer headers that take effect beyond the function's own path."""
_PREFIXES = (b"__host-", b"__secure-")
_SANDBOX = (b"content-security-policy", b"sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts")
_DOCUMENTS = (b"html", b"xml", b"svg", b"multipart")
"""Parts of media types that browsers may show as a page with scripts."""


def check_isolated(request: Request) -> None:
    """Raises FORBIDDEN for the script of a service worker, which would intercept requests of other pages."""
    if not request.on_own_host and request.text(b"service-worker").strip().lower() == "script":
        raise SlessError(Code.FORBIDDEN, "service workers of functions are not allowed on this host; give functions a host of their own")


def isolated(headers: Headers, *, sandbox: bool) -> Headers:
    """Answer headers for a host that functions share with the console. With `sandbox`, pages get an opaque origin."""
    kept = [pair for pair in headers if not (pair[0] in _ORIGIN_WIDE or (pair[0] == b"set-cookie" and _is_console_cookie(pair[1])))]
    if sandbox and _may_be_page(kept):
        kept.append(_SANDBOX)
    return kept


def _is_console_cookie(value: bytes) -> bool:
    # Browsers send a cookie without a name as only its value, which may look like another cookie.
    name = value.lstrip(b" \t=").lower()
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    return name.startswith(CONSOLE_COOKIE_PREFIX.encode())


def _may_be_page(headers: Headers) -> bool:
    types = [value.lower() for name, value in headers if name == b"content-type"]
    # Browsers guess the type if there is none, or an invalid one.
    return not types or any(b"/" not in value or any(part in value for part in _DOCUMENTS) for value in types)
