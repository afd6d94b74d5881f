"""Input and results of checks of uploaded code."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """`line` counts from 1; None: the whole file."""

    path: str
    line: int | None
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeToCheck:
    """`path` is the normalised zip. `mistakes` are its errors of syntax in this language."""

    path: Path
    sha256: str
    language: str
    namespace: str
    name: str
    mistakes: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """`failure` says why a check has no verdict; the other fields are then empty."""

    is_unsafe: bool = False
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedCode:
    """Code that an operator allows regardless of the checks."""

    sha256: str
    reason: str
