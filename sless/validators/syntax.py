"""The check for syntax errors, which intake's child process has already found when it read the files."""

from dataclasses import dataclass

from sless.domain.code_check import CodeToCheck, Opinion


@dataclass(frozen=True, slots=True)
class SyntaxValidator:
    """Implements `ports.CodeCheck`."""

    name: str = "syntax"

    def opinion_of(self, code: CodeToCheck) -> Opinion:
        return Opinion(is_unsafe=bool(code.mistakes), findings=code.mistakes, skipped=code.unparsed)
