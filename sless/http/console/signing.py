"""Signing in and out, and the entry `/funcs`."""

from flask import Response, request

from sless.config import CONSOLE_COOKIE
from sless.errors import Code, SlessError
from sless.http.console.listing import listing
from sless.http.console.request import LANGUAGE_COOKIE, THEME_COOKIE, THEMES, Page, PageRequest, wants_page
from sless.http.console.session import (
    HOME,
    check_same_site,
    is_own_path,
    is_this_machine,
    redirect_to,
    signed_in,
    signed_in_by_code,
    verifier,
)
from sless.http.console.texts import LANGUAGES
from sless.http.errors import challenge_of

_YEAR_SEC = 365 * 86400


def entry(req: PageRequest) -> Response:
    """`?token=` and `?code=` sign a browser in; other clients get the list for the token. `?ns=` selects a namespace (operators)."""
    if request.args.get("code"):
        return signed_in_by_code(request.args["code"], req.settings)
    if token := request.args.get("token"):
        if wants_page():
            return signed_in(token, req.settings)
        return listing(req.as_caller(verifier().verify(f"Bearer {token}")))
    own = req.require_session()
    namespace = request.args.get("ns") or own.caller.namespace
    if wants_page():
        return redirect_to(f"{HOME}/{namespace}")
    return listing(own.in_namespace(namespace))


def sign_in(req: PageRequest) -> Response:
    """The form's POST. Answers with the form again if the token is refused."""
    check_same_site()
    request.max_content_length = 64 * 1024
    token = request.form.get("token", "").strip().removeprefix("Bearer ").strip()
    return signed_in(token, req.settings, request.form.get("next", ""))


def sign_out(req: PageRequest) -> Response:
    check_same_site()
    response = redirect_to(HOME)
    response.delete_cookie(CONSOLE_COOKIE, path=HOME, httponly=True, samesite="Lax")
    return response


def preferences(req: PageRequest) -> Response:
    """Language and theme, from the forms in the head of each page."""
    check_same_site()
    target = request.form.get("next", "")
    response = redirect_to(target if is_own_path(target) else HOME)
    for name, cookie, choices in (("language", LANGUAGE_COOKIE, tuple(LANGUAGES)), ("theme", THEME_COOKIE, THEMES)):
        if request.form.get(name) in choices:
            response.set_cookie(cookie, request.form[name], max_age=_YEAR_SEC, path=HOME, httponly=True, samesite="Lax")
    return response


def sign_in_page(req: PageRequest, error: SlessError) -> Response:
    """A 401 with the form. Leaves out the reason if there simply was no token."""
    wanted = request.form.get("next", "") if request.method == "POST" else request.path
    response = req.anonymous().page(
        "sign_in.html",
        title=req.text("sign_in.title"),
        status=401,
        reason=error.message if error.code is not Code.TOKEN_MISSING else "",
        next=wanted if is_own_path(wanted) else "",
        own_tokens=req.settings.auth_mode in ("local", "secret"),
        local=req.settings.auth_mode == "local" and is_this_machine(),
    )
    response.headers["WWW-Authenticate"] = challenge_of(error)  # `asgi` counts failed attempts by this header
    return response


def error_page(req: PageRequest, error: SlessError) -> Response:
    title = req.texts.find(f"errors.{error.status}", req.text("errors.other"))
    return req.page("error.html", title=title, status=error.status, error=error)


PAGES = (
    Page(rule="/funcs", view=entry, open=True),
    Page(rule="/funcs/login", view=sign_in, open=True, method="POST"),
    Page(rule="/funcs/logout", view=sign_out, open=True, method="POST"),
    Page(rule="/funcs/preferences", view=preferences, open=True, method="POST"),
)
