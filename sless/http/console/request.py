"""The request of a page as passed to its view, and rendering: Jinja templates, texts, formats."""

import functools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from flask import Response, request
from jinja2 import Environment, PackageLoader, StrictUndefined

from sless import clock
from sless._version import __version__
from sless.config import Settings
from sless.domain.phase import IDLE
from sless.domain.runtimes import RUNTIMES, Support
from sless.http.console.files import static_version
from sless.http.console.formats import FILTERS
from sless.http.console.session import Session, current_session
from sless.http.console.texts import LANGUAGES, Texts, texts_of
from sless.http.schedule_words import words_of
from sless.tokens import Caller
from sless.usecases import Usecases

LANGUAGE_COOKIE = "sless_language"
THEME_COOKIE = "sless_theme"
THEMES = ("auto", "light", "dark")
POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{name} 'self'" for name in ("script-src", "style-src", "connect-src", "form-action")),
        "img-src 'self' blob:",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """`namespace` is that of the path, checked. `session` is None if the browser is not signed in."""

    usecases: Usecases
    settings: Settings
    texts: Texts
    session: Session | None = None
    namespace: str = ""
    args: dict[str, Any] = field(default_factory=dict)

    @property
    def caller(self) -> Caller:
        assert self.session is not None
        return self.session.caller

    def require_session(self) -> "PageRequest":
        """Raises a 401 if the browser is not signed in."""
        return replace(self, session=current_session())

    def in_namespace(self, namespace: str) -> "PageRequest":
        """Raises FORBIDDEN."""
        self.caller.check(namespace)
        return replace(self, namespace=namespace)

    def as_caller(self, caller: Caller) -> "PageRequest":
        """The request with the caller of a token that is not in the cookie."""
        return replace(self, session=Session(caller=caller, key=""), namespace=caller.namespace)

    def anonymous(self) -> "PageRequest":
        return replace(self, session=None, namespace="")

    @property
    def base(self) -> str:
        """Path of the namespace's list."""
        return f"/funcs/{self.namespace}"

    def text(self, key: str, **values: object) -> str:
        return self.texts.text(key, **values)

    def page(self, template: str, *, title: str, module: str = "", status: int = 200, **values: Any) -> Response:
        """Renders the page. `module` names its script and the group of texts that the script gets, together with the values `data`."""
        caller = self.session.caller if self.session else None
        shown = {
            "t": self.texts.text,
            "tn": self.texts.count,
            "find_text": self.texts.find,
            "support_note": lambda runtime: support_note_of(runtime, self.texts),
            "words": lambda schedule: words_of(schedule, self.texts.language),
            "idle": IDLE,
            "title": title,
            "module": module,
            "language": self.texts.language,
            "languages": LANGUAGES,
            "theme": theme_of(),
            "caller": caller,
            "expires": datetime.fromtimestamp(caller.expires_at, UTC) if caller else None,
            "namespace": self.namespace,
            "base": self.base,
            "static": f"/static/v-{static_version()}/console",
            "version": __version__,
            "path": request.path,
            "script_data": self._data_of(module) | {"data": values.pop("data", {})},
        }
        html = environment().get_template(template).render(shown | values)
        response = Response(html, status, content_type="text/html; charset=utf-8")
        response.headers["Content-Security-Policy"] = POLICY
        return response

    def _data_of(self, module: str) -> dict[str, Any]:
        """The JSON block that scripts read."""
        groups = {
            name: self.texts.groups[name] for name in ("ui", "kinds", "phases", "statuses", "triggers", module) if name in self.texts.groups
        }
        return {
            "namespace": self.namespace,
            "key": self.session.key if self.session else "",
            "language": self.texts.language,
            "idle": IDLE,
            "texts": groups,
        }


View = Callable[[PageRequest], Response]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A row of the table of pages. `rule` uses Flask's syntax; a part `<ns>` is a namespace, which must be the caller's. `open`: visible
    without signing in."""

    rule: str
    view: View
    open: bool = False
    method: str = "GET"


@functools.cache
def environment() -> Environment:
    """Makes undefined names errors. Loads templates through the package, which may be a zip."""
    made = Environment(
        loader=PackageLoader("sless.http.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(FILTERS)
    return made


def wanted_texts() -> Texts:
    """The language of the switch's cookie, or else of Accept-Language, or else English."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    if chosen not in LANGUAGES:
        chosen = request.accept_languages.best_match(list(LANGUAGES), default="en") or "en"
    return texts_of(chosen)


def wants_page() -> bool:
    """Whether the client prefers HTML; curl does not."""
    return request.accept_mimetypes.best_match(("text/plain", "text/html"), default="text/plain") == "text/html"


def theme_of() -> str:
    chosen = request.cookies.get(THEME_COOKIE, "")
    return chosen if chosen in THEMES else "auto"


def support_note_of(runtime: str | None, texts: Texts) -> str:
    """A warning about a runtime whose language version is near or past its end of life; "" for others."""
    known = RUNTIMES.get(runtime or "")
    support = known.support(clock.now().date()) if known else Support.SUPPORTED
    if known is None or support is Support.SUPPORTED:
        return ""
    key = "runtimes.end_of_life" if support is Support.END_OF_LIFE else "runtimes.deprecated"
    return texts.text(key, runtime=known.name, day=known.end_of_life)
