"""Runs the checks in order. The mode of a check determines the effect of its opinion. Also the check for syntax errors, which intake has
already found."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from sless import actor, metrics
from sless.domain.code_check import CodeToCheck, Finding, Opinion
from sless.domain.ports import CodeCheck, VerdictStore
from sless.errors import Code, Detail, Invalid, SlessError

_log = logging.getLogger(__name__)

MAX_WARNINGS = 20
MAX_PLACES = 3
"""Maximum number of findings in the sentence of a refusal; the details have all of them."""
REQUIRE = "require"
_NOT_CHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class ChainLink:
    """`mode` is warn, block or require: code that breaks a required check cannot run, and no operator can allow it."""

    check: CodeCheck
    mode: str


class Chain:
    """Implements `ports.Validator`."""

    def __init__(self, links: Sequence[ChainLink], verdicts: VerdictStore) -> None:
        self._links = tuple(links)
        self._verdicts = verdicts

    def validate(self, code: CodeToCheck) -> tuple[str, ...]:
        """The warnings for the version. Blocks for as long as the checks take. Raises INVALID_CODE if a check refuses the code."""
        required = [link for link in self._links if link.mode == REQUIRE]
        optional = [link for link in self._links if link.mode != REQUIRE]
        warnings = self._warnings_of(required, code)
        if optional and not self._verdicts.is_allowed(code.sha256):
            warnings += self._warnings_of(optional, code)
        # Findings may be many: what was not checked is always among the warnings.
        warnings.sort(key=lambda text: not text.startswith(_NOT_CHECKED))
        return tuple(warnings[:MAX_WARNINGS])

    def _warnings_of(self, links: Sequence[ChainLink], code: CodeToCheck) -> list[str]:
        warnings: list[str] = []
        for link in links:
            opinion = link.check.opinion_of(code)
            metrics.code_checks.labels(link.check.name, _result_of(opinion, link.mode)).inc()
            if opinion.is_unsafe and link.mode == REQUIRE:
                raise Invalid(*map(_detail_of, opinion.findings), code=Code.INVALID_CODE)
            if opinion.is_unsafe and link.mode == "block":
                raise _refusal_of(link.check.name, code, opinion)
            warnings += warnings_of(link.check.name, opinion)
        return warnings


def warnings_of(name: str, opinion: Opinion) -> list[str]:
    if opinion.failure:
        return [f"{_NOT_CHECKED} ({name}): {opinion.failure}"]
    skipped = [f"{_NOT_CHECKED} ({name}): {text}" for text in opinion.skipped]
    found = [f"{name}: {_text_of(finding)}" for finding in opinion.findings]
    return skipped + ([f"{name}: {opinion.reason}"] if opinion.reason and opinion.is_unsafe else []) + found


def _result_of(opinion: Opinion, mode: str) -> str:
    if opinion.failure:
        return "unchecked"
    if opinion.is_unsafe:
        return "warned" if mode == "warn" else "refused"
    return "partial" if opinion.skipped else "passed"


def _refusal_of(name: str, code: CodeToCheck, opinion: Opinion) -> SlessError:
    who = actor.find()
    request_id = who.request_id if who else ""
    reason = opinion.reason or (opinion.findings[0].message if opinion.findings else "it looks harmful")
    _log.warning(
        "the check %s refused code %s for %s in %s: %s (request %s)", name, code.sha256, code.name, code.namespace, reason, request_id
    )
    quote = f"; if this is a mistake, quote request {request_id} to support" if request_id else ""
    details = [_detail_of(item) for item in opinion.findings]
    places = "".join(f", {_place_of(item)}" for item in opinion.findings[:MAX_PLACES])
    return SlessError(Code.INVALID_CODE, f"the code was refused by the check {name}: {reason}{places}{quote}", details=details)


def _text_of(finding: Finding) -> str:
    return f"{_place_of(finding)}: {finding.message}"


def _place_of(finding: Finding) -> str:
    return finding.path if finding.line is None else f"{finding.path}:{finding.line}"


def _detail_of(finding: Finding) -> Detail:
    located = finding.message if finding.line is None else f"line {finding.line}: {finding.message}"
    return Detail(field=finding.path, message=located)


@dataclass(frozen=True, slots=True)
class SyntaxValidator:
    """Implements `ports.CodeCheck`."""

    name: str = "syntax"

    def opinion_of(self, code: CodeToCheck) -> Opinion:
        return Opinion(is_unsafe=bool(code.mistakes), findings=code.mistakes, skipped=code.unparsed)
