"""The REST interface for the console's scripts: serves `/funcs/-/v1/…` as `/v1/…` with the token from the console's cookie.

The cookie is limited to /funcs, so functions below /fn never get it. A request must also have the session's key, which is in the console's
pages. Other pages can neither read nor compute it, not even those of functions on the same host (see `sless.http.console`).
"""

from sless.asgi.types import Scope
from sless.config import CONSOLE_COOKIE
from sless.errors import Code, SlessError
from sless.proxy.request import Headers
from sless.tokens.console import KEY_HEADER, check_key

PREFIX = b"/funcs/-"
_KEY = KEY_HEADER.lower().encode()
_DROPPED = frozenset({b"cookie", b"authorization", _KEY})


def is_console_call(scope: Scope) -> bool:
    return bool(scope["raw_path"].startswith(PREFIX + b"/v1/"))


def rest_scope_of(scope: Scope) -> Scope:
    """The request as a client with a token would send it. Raises TOKEN_MISSING without a cookie; FORBIDDEN for other sites, and for a
    missing or wrong key."""
    headers: Headers = scope["headers"]
    site = _header(headers, b"sec-fetch-site")
    if site not in ("", "same-origin"):
        raise SlessError(Code.FORBIDDEN, f"this path serves the console's own pages only; Sec-Fetch-Site is {site[:40]}")
    token = _token_of(headers)
    if not token:
        raise SlessError(Code.TOKEN_MISSING, "not signed in to the console")
    check_key(token, _header(headers, _KEY))
    kept = [pair for pair in headers if pair[0] not in _DROPPED]
    return {
        **scope,
        "raw_path": scope["raw_path"][len(PREFIX) :],
        "path": scope["path"][len(PREFIX) :],
        "headers": [*kept, (b"authorization", b"Bearer " + token.encode("latin-1"))],
    }


def _token_of(headers: Headers) -> str:
    """The token in the cookie, "" without one."""
    for name, value in headers:
        if name == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                key, _, text = pair.strip().partition("=")
                if key == CONSOLE_COOKIE:
                    return text
    return ""


def _header(headers: Headers, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in headers if key == name), "")
