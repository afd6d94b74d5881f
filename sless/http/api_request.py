"""The request, as passed to views."""

from dataclasses import dataclass
from typing import Any

from flask import request

from sless.config import Settings
from sless.errors import Detail, Invalid
from sless.http.body import read_json
from sless.tokens import Caller
from sless.usecases import Usecases

NOBODY = Caller(sub="", namespace="")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiRequest:
    """A request within Flask's request context. `args` are the path parameters; `caller` is NOBODY on open paths."""

    usecases: Usecases
    settings: Settings
    caller: Caller
    args: dict[str, Any]
    request_id: str

    @property
    def namespace(self) -> str:
        return str(self.args["ns"])

    @property
    def name(self) -> str:
        return str(self.args["name"])

    @property
    def number(self) -> int:
        return int(self.args["n"])

    @property
    def if_match(self) -> str | None:
        return request.headers.get("If-Match")

    def query(self, name: str) -> str | None:
        """The last value of a query parameter, None if absent."""
        values = request.args.getlist(name)
        return values[-1] if values else None

    def json(self, *, required: bool = True) -> Any:
        """The body; None if empty and not required. Raises Invalid (invalid_json), TOO_LARGE, UNSUPPORTED_MEDIA."""
        return read_json(self.settings.max_json_bytes, required=required)

    def integer(self, name: str, least: int, most: int) -> int | None:
        text = self.query(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < 12) or not least <= int(text) <= most:
            raise Invalid(Detail(field=name, message=f"expected a whole number from {least} to {most}, found {text[:40]!r}"))
        return int(text)

    def accepts(self, *offered: str) -> str:
        """The offered media type that the client prefers; by default the first."""
        return request.accept_mimetypes.best_match(offered, default=offered[0]) or offered[0]
