"""Sessions: signing in and out, and the caller of a page."""

import ipaddress
import time
from dataclasses import dataclass
from urllib.parse import quote

from flask import Response, current_app, request

from sless import tokens
from sless.config import CONSOLE_COOKIE, Settings
from sless.errors import Code, SlessError
from sless.tokens import Caller, TokenVerifier
from sless.tokens.console import key_of, redeem_code

HOME = "/funcs"
CODE_TOKEN_SEC = 24 * 3600
_MAX_COOKIE_CHARS = 3800
"""Browsers silently drop cookies of more than 4096 bytes."""
_FORWARDED = ("X-Forwarded-For", "Forwarded", "Via", "X-Real-IP")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """`key` belongs to the cookie's token; empty if the request had an Authorization header instead."""

    caller: Caller
    key: str


def current_session() -> Session:
    """Raises a 401. Accepts the cookie only for pages that the browser opens itself, not for fetches or frames, because functions under /fn
    may share this page's origin."""
    header = request.headers.get("Authorization")
    if header:
        return Session(caller=verifier().verify(header), key="")
    opened = request.headers.get("Sec-Fetch-Dest", "document") == "document"
    cookie = request.cookies.get(CONSOLE_COOKIE, "") if opened else ""
    return Session(caller=verifier().verify(f"Bearer {cookie}" if cookie else None), key=key_of(cookie))


def verifier() -> TokenVerifier:
    found: TokenVerifier = current_app.extensions["sless_verifier"]
    return found


def signed_in(token: str, settings: Settings, target: str = "") -> Response:
    """Moves the token into the cookie and redirects to `target`, a path of the console. Raises a 401."""
    caller = verifier().verify(f"Bearer {token}" if token else None)
    if len(token) > _MAX_COOKIE_CHARS:
        raise SlessError(
            Code.TOKEN_MALFORMED, f"the token is too long for a cookie: expected at most {_MAX_COOKIE_CHARS} characters, found {len(token)}"
        )
    response = redirect_to(target if is_own_path(target) else f"{HOME}/{caller.namespace}")
    response.set_cookie(
        CONSOLE_COOKIE,
        token,
        max_age=max(1, int(caller.expires_at - time.time())),
        path=HOME,
        httponly=True,
        samesite="Lax",
        secure=settings.base_url().startswith("https://"),
    )
    return response


def signed_in_by_code(code: str, settings: Settings) -> Response:
    """Signs in with a link from `sless serve` or `sless demo`. Raises a 401, and FORBIDDEN on other machines."""
    if not is_this_machine():
        raise SlessError(Code.FORBIDDEN, "this link works only in a browser on the server's machine; sign in with a token instead")
    sub = redeem_code(settings, code)
    return signed_in(tokens.issue_token(settings, sub, CODE_TOKEN_SEC), settings)


def is_this_machine() -> bool:
    """Whether the connection comes from a loopback address, and not through a proxy."""
    if any(name in request.headers for name in _FORWARDED):
        return False
    try:
        return ipaddress.ip_address(request.remote_addr or "").is_loopback
    except ValueError:
        return False


def check_same_site() -> None:
    """Raises FORBIDDEN for forms on pages of other sites."""
    site = request.headers.get("Sec-Fetch-Site")
    if site not in (None, "same-origin", "none"):
        raise SlessError(Code.FORBIDDEN, f"this form must be sent from its own page; Sec-Fetch-Site is {site[:40]}")


def is_own_path(path: str) -> bool:
    """Whether a redirect to this path stays in the console."""
    return path.startswith(f"{HOME}/") and not path.startswith(f"{HOME}/-") and "\\" not in path and "//" not in path


def redirect_to(path: str) -> Response:
    return Response(status=303, headers={"Location": quote(path, safe="/?=&%-._~")})
