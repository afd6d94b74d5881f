"""The runtimes: the languages of functions."""

from dataclasses import dataclass
from datetime import date, timedelta

from sless.enums import StrEnum

DEPRECATED_BEFORE = timedelta(days=180)
"""How long before its end of life a language counts as deprecated."""


class Support(StrEnum):
    SUPPORTED = "supported"
    DEPRECATED = "deprecated"
    END_OF_LIFE = "end_of_life"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    name: str
    language: str
    default_entrypoint: str
    end_of_life: str
    """RFC 3339 date at which upstream support for the language version ends."""
    source_suffixes: tuple[str, ...]

    def support(self, today: date) -> Support:
        """Whether upstream still maintains the language version."""
        end = date.fromisoformat(self.end_of_life)
        if today >= end:
            return Support.END_OF_LIFE
        return Support.DEPRECATED if today >= end - DEPRECATED_BEFORE else Support.SUPPORTED


RUNTIMES: dict[str, Runtime] = {
    runtime.name: runtime
    for runtime in (
        Runtime(name="python3.11", language="python", default_entrypoint="handler.handle", end_of_life="2027-10-31",
                source_suffixes=(".py",)),
        Runtime(name="nodejs20", language="node", default_entrypoint="handler.handle", end_of_life="2026-04-30",
                source_suffixes=(".js", ".mjs", ".cjs")),
        Runtime(name="go1.23", language="go", default_entrypoint="handler.Handle", end_of_life="2025-08-12", source_suffixes=(".go",)),
    )
}  # fmt: skip
"""Ends of life are from devguide.python.org/versions, the nodejs.org release schedule, and go.dev/doc/devel/release."""
