"""The runtimes: languages that functions are written in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    name: str
    language: str
    default_entrypoint: str
    end_of_life: str
    """RFC 3339 date at which upstream support for the language version ends."""
    source_suffixes: tuple[str, ...]
    deprecated: bool = False


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
