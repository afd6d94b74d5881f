"""Input and results of checks of uploaded code."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

SHOWN_PATHS = 3
"""Maximum number of paths in a sentence about files that a check has skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`line` counts from 1; None: the whole file."""

    path: str
    line: int | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeToCheck:
    """`path` is the normalised zip. `mistakes` are its errors of syntax in this language, `unparsed` sentences about files that were not
    parsed."""

    path: Path
    sha256: str
    language: str
    namespace: str
    name: str
    mistakes: tuple[Finding, ...] = ()
    unparsed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """`failure` says why a check has no verdict; the other fields are then empty. `skipped`: sentences about files to which the verdict
    does not apply."""

    is_unsafe: bool = False
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    failure: str = ""
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedCode:
    """Code that an operator allows regardless of the checks."""

    sha256: str
    reason: str


def skipped_text(reason: str, paths: Sequence[str]) -> str:
    """Such as `files over 512 KB: a.py, b.py, c.py and 2 more`."""
    more = f" and {len(paths) - SHOWN_PATHS} more" if len(paths) > SHOWN_PATHS else ""
    return f"{reason}: {', '.join(paths[:SHOWN_PATHS])}{more}"
