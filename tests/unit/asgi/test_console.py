"""Requests of the console's scripts: cookie and key become a token."""

from typing import Any

import pytest

from sless.asgi.console import is_console_call, rest_scope_of
from sless.errors import Code, SlessError
from sless.tokens.console import key_of

TOKEN = "aaa.bbb.ccc"


def scope_of(path: str = "/funcs/-/v1/whoami", **headers: str) -> dict[str, Any]:
    sent = {"cookie": f"other=1; sless_token={TOKEN}; x=y", "x-sless-console": key_of(TOKEN)} | headers
    pairs = [(name.replace("_", "-").encode(), value.encode()) for name, value in sent.items() if value]
    return {"type": "http", "raw_path": path.encode(), "path": path, "headers": pairs}


def test_cookie_and_key_become_a_token() -> None:
    scope = rest_scope_of(scope_of(authorization="Bearer other", accept="text/plain", sec_fetch_site="same-origin"))
    assert (scope["raw_path"], scope["path"]) == (b"/v1/whoami", "/v1/whoami")
    names = [name for name, _ in scope["headers"]]
    assert dict(scope["headers"])[b"authorization"] == f"Bearer {TOKEN}".encode() and names.count(b"authorization") == 1
    assert not {b"cookie", b"x-sless-console"} & set(names) and b"accept" in names


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"cookie": ""}, Code.TOKEN_MISSING),
        ({"cookie": "sless_token="}, Code.TOKEN_MISSING),
        ({"cookie": f"xsless_token={TOKEN}"}, Code.TOKEN_MISSING),
        ({"x-sless-console": ""}, Code.FORBIDDEN),
        ({"x-sless-console": "0" * 32}, Code.FORBIDDEN),
        ({"x-sless-console": key_of("another")}, Code.FORBIDDEN),
        ({"sec_fetch_site": "cross-site"}, Code.FORBIDDEN),
        ({"sec_fetch_site": "same-site"}, Code.FORBIDDEN),
    ],
)
def test_refused_requests(headers: dict[str, str], code: Code) -> None:
    with pytest.raises(SlessError) as caught:
        rest_scope_of(scope_of(**headers))
    assert caught.value.code is code and TOKEN not in caught.value.message


@pytest.mark.parametrize(
    ("path", "found"),
    [("/funcs/-/v1/x", True), ("/funcs/-/fn/x/y", False), ("/funcs/x/v1/x", False), ("/v1/x", False), ("/funcs/-", False)],
)
def test_only_the_rest_interface(path: str, found: bool) -> None:
    assert is_console_call(scope_of(path)) is found
