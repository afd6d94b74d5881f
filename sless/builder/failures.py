"""Turns the output of an installer or a trial import into the message of a failed build."""

import re
from collections.abc import Iterable, Sequence

LAST_LINES = 50
MAX_MESSAGE_CHARS = 8_000
"""Limit for all of these lines together. The message appears in lists; the version has the whole log."""
MAX_LINE_CHARS = 16 * 1024
TAIL_LINES = 200
"""Number of last output lines to search: npm ends some failures with a hundred lines of usage, which are removed."""
_CULPRITS = tuple(
    re.compile(pattern)
    for pattern in (
        r"No matching distribution found for (?P<name>.+?)$",
        r"Could not find a version that satisfies the requirement (?P<name>\S+)",
        r"Invalid requirement: '?(?P<name>[^':]+)",
        r"Requirement '(?P<name>[^']+)' looks like a filename, but the file does not exist",
        r"Failed to build '?(?P<name>[A-Za-z0-9][\w.\-]*)'? when ",
        r"Failed building wheel for (?P<name>\S+)",
        r"Could not (?:find|open) .*requirements? file: .*?'(?P<name>[^']+)'",
        r"^\s+(?P<name>\S+) from \S+ \(from -r requirements\.txt \(line \d+\)\):$",
        r"^\s+(?P<name>\S+) --hash=sha256:",
        r"npm error 404 +'(?P<name>[^']+)' (?:is not in|could not be found)",
        r"npm error Missing: (?P<name>\S+) from lock file",
        r"No matching version found for (?P<name>\S+?)\.?$",
        r"npm error path .*/node_modules/(?P<name>(?:@[^/]+/)?[^/\s]+)",
    )
)
_ERROR_LINE = re.compile(r"[A-Za-z_][\w.$]*(Error|Exception|Exit|Interrupt|Warning)\b")
_RAISED_LINE = re.compile(_ERROR_LINE.pattern + r"|[A-Za-z_][\w.]*: ")
"""The line of the exception after a Python traceback; output of the module may follow."""
_PLACED_LINE = re.compile(r"\S+\.[cm]?js:[0-9]+: ")
"""The first line that the Node.js runtime prints about a failed import: file, line and reason."""
_PANIC_LINE = re.compile(r"(panic|fatal error): ")
_CLOSING_LINE = re.compile(r"\s|[\]})]|Node\.js v|$")
_NPM_USAGE = re.compile(r"npm error (Clean install a project|Usage:)$")
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07")


class BuildFailed(Exception):
    """The text becomes the message of the version."""


def find_culprit(lines: Iterable[str]) -> str | None:
    """The requirement that pip or npm could not install, as the tool prints it."""
    for line in lines:
        for pattern in _CULPRITS:
            if found := pattern.search(line):
                return found["name"].strip()
    return None


def install_message_of(tool: str, file: str, lines: Sequence[str], code: int, *, text: str = "") -> str:
    """`text` is the content of the manifest, in which the message names the line of the culprit."""
    culprit = find_culprit(lines)
    line = find_line(text, culprit) if culprit else None
    where = f"{file}, line {line}" if line else file
    what = f'{tool} could not install "{culprit}" from {where}' if culprit else f"{tool} failed on {file} (exit code {code})"
    return _with_last(what, _informative_of(lines))


def find_line(text: str, culprit: str) -> int | None:
    """The number of the first line with the requirement as given, or else with the name of its package."""
    numbered = [(number, _plain_name_of(line)) for number, line in enumerate(text.splitlines(), 1) if not line.lstrip().startswith("#")]
    package = re.split(r"(?<=.)[@<>=!~\[;\s]", culprit, maxsplit=1)[0]
    for wanted in (culprit, package):
        pattern = re.compile(rf"(?<![\w-]){re.escape(_plain_name_of(wanted))}(?![\w-])")
        if found := next((number for number, line in numbered if pattern.search(line)), None):
            return found
    return None


def _plain_name_of(text: str) -> str:
    """Normalises the name: `Typing_Extensions` and `typing-extensions` are the same package. Drops blanks."""
    return re.sub(r"\s+", "", text.lower().replace("_", "-"))


def _informative_of(lines: Sequence[str]) -> list[str]:
    usage_at = next((at for at, line in enumerate(lines) if _NPM_USAGE.match(line)), len(lines))
    return [line for line in lines[:usage_at] if line.strip() not in ("", "npm error")]


def import_message_of(entrypoint: str, lines: Sequence[str]) -> str:
    """Puts the error into the first line, the only one that lists show. A Python traceback ends with it; Node.js and Go print it first."""
    last = next((line for line in reversed(lines) if not _CLOSING_LINE.match(line)), lines[-1].strip())
    if named := next((line for line in lines if _PANIC_LINE.match(line) or _PLACED_LINE.match(line)), None):
        last = named
    elif any(line.startswith("Traceback ") for line in lines):
        last = next((line for line in reversed(lines) if _RAISED_LINE.match(line)), last)
    elif not _ERROR_LINE.match(last):
        last = next((line for line in lines if _ERROR_LINE.match(line)), last)
    return _with_last(f"{entrypoint} cannot be imported: {last}", lines[1:] if lines[0].strip() == last else lines)


def _with_last(what: str, lines: Sequence[str]) -> str:
    kept: list[str] = []
    left = MAX_MESSAGE_CHARS
    for line in reversed(lines[-LAST_LINES:]):
        left -= len(line) + 1
        if left < 0:
            break
        kept.append(line)
    return "\n".join([what, *reversed(kept)])


def plain_of(raw: bytes) -> str:
    """A tool's output line as plain text: without colours, with only the final state of a progress bar, cut to the length of a log line."""
    text = _ANSI.sub("", raw.decode("utf-8", "replace").replace("\0", "").rstrip("\r")).rpartition("\r")[2].rstrip()
    return text if len(text) <= MAX_LINE_CHARS else text[:MAX_LINE_CHARS] + " …[cut]"


def masking_of(build_env: dict[str, str]) -> "Masking":
    values: set[str] = set()
    for value in build_env.values():
        values.add(value.strip())
        values.update(part for found in re.finditer(r"://([^/@\s]+)@", value) for part in (found[1], *found[1].split(":", 1)))
    return Masking(values)


class Masking:
    """Masks the values of build_env in log lines. Masks short values only as whole words, because the log would be unreadable without each
    `1`."""

    SHORT = 4

    def __init__(self, values: Iterable[str]) -> None:
        known = sorted(filter(None, values), key=len, reverse=True)
        parts = [re.escape(value) if len(value) >= self.SHORT else rf"(?<!\w){re.escape(value)}(?!\w)" for value in known]
        self._pattern = re.compile("|".join(parts)) if parts else None

    def masked(self, line: str) -> str:
        return self._pattern.sub("***", line) if self._pattern else line
