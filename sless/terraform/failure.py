"""Errors as shown by Terraform: a summary, a detail, and the attribute to which they belong."""

import traceback
from collections.abc import Collection
from dataclasses import dataclass

from tf.utils import Diagnostics

from sless.client import ClientError, PackingError


@dataclass(eq=False)
class Failure(Exception):
    """`path` leads to the attribute: `("env_vars", ("KEY",))`, empty for the whole resource."""

    summary: str
    detail: str = ""
    path: tuple = ()

    def __str__(self) -> str:
        return f"{self.summary}: {self.detail}"


class Interrupted(Failure):
    """Terraform asked the provider to stop."""


def report(diagnostics: Diagnostics, error: Exception, what: str, attributes: Collection[str]) -> None:
    """`what` names the failed operation, such as `Cannot create function "hello"`."""
    match error:
        case Failure():
            diagnostics.add_error(error.summary, error.detail, path=list(error.path) or None)
        case ClientError(details=details) if details:
            for item in details:
                _report_detail(diagnostics, error, item, what, attributes)
        case ClientError():
            diagnostics.add_error(what, _text_of(error))
        case PackingError():
            diagnostics.add_error(what, str(error), path=["source_dir"] if "source_dir" in attributes else None)
        case _:
            trace = "".join(traceback.format_exception(error)[-4:])
            diagnostics.add_error(what, f"This is a bug in the provider; please report it.\n\n{trace}")


def _report_detail(diagnostics: Diagnostics, error: ClientError, item: dict[str, str], what: str, attributes: Collection[str]) -> None:
    field, _, key = str(item.get("field", "")).partition(".")
    if field not in attributes:
        diagnostics.add_error(what, _text_of(error))
        return
    message = item.get("message") or str(error)
    diagnostics.add_error(what, f"{field}{'.' + key if key else ''}: {message}", path=[field, (key,)] if key else [field])


def _text_of(error: ClientError) -> str:
    hint = ""
    if error.status == 401:
        hint = "\n\nSet the provider's `token` or SLESS_API_TOKEN to a valid token."
    elif error.status >= 500 and error.request_id:
        hint = f"\n\nRequest id: {error.request_id}"
    return f"{error}{hint}"
