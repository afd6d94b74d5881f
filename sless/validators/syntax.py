"""Errors of syntax. The child process of intake, which has the files at hand, has parsed them; this decides what they mean."""

from dataclasses import dataclass

from sless.domain.code_check import CodeToCheck, Opinion


@dataclass(frozen=True, slots=True)
class SyntaxValidator:
    """Implements `ports.CodeCheck`."""

    name: str = "syntax"

    def opinion_of(self, code: CodeToCheck) -> Opinion:
        return Opinion(is_unsafe=bool(code.mistakes), findings=code.mistakes)
