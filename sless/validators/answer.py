"""Validates the model's answer, which must be exactly one JSON object of the expected form. Pure."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sless.domain.code_check import Finding, Opinion

MAX_ANSWER_CHARS = 16 * 1024
MAX_REASON_CHARS = 500
MAX_FINDINGS = 20
_KEYS = frozenset({"safe", "reason", "findings"})
_FINDING_KEYS = frozenset({"file", "line", "reason"})


class AnswerRefused(Exception):
    """Its text says what was expected and found."""


def opinion_of_answer(text: str, files: Mapping[str, Sequence[str]]) -> Opinion:
    """`files` are the lines sent to the model, by path. Raises AnswerRefused."""
    if len(text) > MAX_ANSWER_CHARS:
        raise AnswerRefused(f"the answer is too long: expected at most {MAX_ANSWER_CHARS} characters, found {len(text)}")
    try:
        value = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise AnswerRefused("the answer is not exactly one JSON object") from error
    if not isinstance(value, dict) or value.keys() != _KEYS:
        raise AnswerRefused('the answer is not an object of exactly "safe", "reason" and "findings"')
    safe, reason, findings = value["safe"], value["reason"], value["findings"]
    if not isinstance(safe, bool) or not isinstance(reason, str) or not isinstance(findings, list):
        raise AnswerRefused('expected a boolean "safe", a text "reason" and a list "findings"')
    found = tuple(_finding_of(item, files) for item in findings[:MAX_FINDINGS])
    return Opinion(is_unsafe=not safe, reason=_sentence(reason), findings=found)


def _finding_of(item: Any, files: Mapping[str, Sequence[str]]) -> Finding:
    if not isinstance(item, dict) or not {"file"} <= item.keys() <= _FINDING_KEYS:
        raise AnswerRefused('expected findings with "file", "line" and "reason"')
    path, line, reason = item["file"], item.get("line"), item.get("reason", "")
    if not isinstance(path, str) or path not in files or not isinstance(reason, str):
        raise AnswerRefused("a finding names a file that is not in the upload")
    if line is not None and (not isinstance(line, int) or isinstance(line, bool) or not 1 <= line <= len(files[path])):
        raise AnswerRefused("a finding names a line that the file does not have")
    return Finding(path=path, line=line, message=_sentence(reason))


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a name appears twice")
    return values


def _sentence(text: str) -> str:
    """One line without control characters, fit for users and the log."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return " ".join(printable.split())[:MAX_REASON_CHARS]
