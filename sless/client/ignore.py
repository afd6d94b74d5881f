"""Files that are not sent: built-in patterns, then those of `.slessignore`, in the syntax of .gitignore."""

import re
from dataclasses import dataclass
from functools import cached_property

FILE_NAME = ".slessignore"
BUILT_IN = (".git/", ".hg/", ".svn/", ".venv/", "__pycache__/", "node_modules/", ".DS_Store", "*.pyc", FILE_NAME)
"""A line such as `!node_modules/` in .slessignore includes one again."""


@dataclass(frozen=True)
class Rule:
    """One pattern. `negated` is a leading `!`, `folders_only` a trailing `/`."""

    pattern: str
    negated: bool
    folders_only: bool

    @cached_property
    def regex(self) -> re.Pattern[str]:
        return re.compile(_regex_of(self.pattern), re.DOTALL)


class IgnoreRules:
    """As in git, the last matching rule decides, and nothing inside an ignored folder can be included again."""

    def __init__(self, text: str = "") -> None:
        self._rules = [rule for line in (*BUILT_IN, *text.splitlines()) if (rule := _find_rule(line))]

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """`path` is relative to the folder, with `/`."""
        for rule in reversed(self._rules):
            if (is_folder or not rule.folders_only) and rule.regex.fullmatch(path):
                return not rule.negated
        return False


def _find_rule(line: str) -> Rule | None:
    text = line.rstrip()
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text.removeprefix("!").removeprefix("\\")
    pattern = text.rstrip("/")
    return Rule(pattern, negated, text.endswith("/")) if pattern else None


def _regex_of(pattern: str) -> str:
    """A pattern with a `/` at its start or inside is anchored at the top; any other matches in every folder."""
    anchored = "/" in pattern
    body = "".join(map(_regex_part, re.findall(r"\*\*/|/\*\*$|\*\*|\*|\?|\[[^\]/]+\]|.", pattern.lstrip("/"), re.DOTALL)))
    return body if anchored else f"(?:.*/)?{body}"


def _regex_part(part: str) -> str:
    match part:
        case "**/":
            return "(?:.*/)?"
        case "/**":
            return "/.*"
        case "**":
            return ".*"
        case "*":
            return "[^/]*"
        case "?":
            return "[^/]"
    if len(part) > 1:
        return "[" + part[1:-1].replace("\\", "\\\\").replace("!", "^", 1) + "]" if part[1] == "!" else part.replace("\\", "\\\\")
    return re.escape(part)
