"""Finds Go files that the compiler ignores, because of their name, a build constraint, or C code. Pure."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

GOOS = frozenset(
    [
        "aix",
        "android",
        "darwin",
        "dragonfly",
        "freebsd",
        "hurd",
        "illumos",
        "ios",
        "js",
        "linux",
        "nacl",
        "netbsd",
        "openbsd",
        "plan9",
        "solaris",
        "wasip1",
        "windows",
        "zos",
    ]
)
GOARCH = frozenset(
    ["386", "amd64", "arm", "arm64", "loong64", "mips", "mips64", "mips64le", "mipsle", "ppc64", "ppc64le", "riscv64", "s390x", "wasm"]
)
_OWN = frozenset({"linux", "unix", "gc", "amd64", "arm64"})
"""Both architectures on which sless runs, so that a file for one of them is not reported."""
_LANGUAGE = 23
_CONSTRAINT = re.compile(r"^//go:build\s+(.+)$", re.MULTILINE)
_CODE = re.compile(r"^[ \t]*package\s", re.MULTILINE)
_IMPORTS_C = re.compile(r"^import\s+\"C\"|^[ \t]+\"C\"\s*$", re.MULTILINE)
_TOKEN = re.compile(r"\s*(&&|\|\||!|\(|\)|[\w.]+)")
_SHOWN = 10


def left_out_notes_of(code: Path, tags: str = "") -> list[str]:
    """A line for the build log if files are ignored. `tags` are those of GOFLAGS, separated by commas."""
    given = tags.split(",")
    found = [f"{path.relative_to(code)} ({reason})" for path in _sources_of(code) if (reason := left_out_reason_of(path, given))]
    if not found:
        return []
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return [f"note: the compiler leaves out {', '.join(found[:_SHOWN])}{more}"]


def left_out_reason_of(path: Path, tags: Collection[str] = ()) -> str:
    """Why the compiler ignores the file; "" if it compiles it."""
    parts = path.stem.split("_")[1:]
    system = parts[-2] if len(parts) > 1 and parts[-1] in GOARCH and parts[-2] in GOOS else ""
    for part in filter(None, (system, parts[-1] if parts else "")):
        if part in GOOS | GOARCH and part not in _OWN:
            return f"for {part} only"
    text = path.read_text(encoding="utf-8", errors="replace")
    start = _CODE.search(text)
    constraint = _CONSTRAINT.search(text[: start.start()] if start else text)
    if constraint and not _is_met(constraint[1], _OWN | set(tags)):
        return f"//go:build {constraint[1].strip()}"
    return 'import "C": cgo is off' if _IMPORTS_C.search(text) else ""


def _sources_of(code: Path) -> Iterator[Path]:
    for path in sorted(code.iterdir()):
        if path.name[0] in "._" or path.is_symlink() or path.name in ("vendor", "testdata", "node_modules"):
            continue
        if path.is_dir():
            yield from _sources_of(path)
        elif path.suffix == ".go" and not path.name.endswith("_test.go"):
            yield path


def _is_met(expression: str, tags: Collection[str]) -> bool:
    """Whether a constraint holds: `||` of `&&` of terms. Leaves malformed ones to the compiler."""
    tokens = _TOKEN.findall(expression)

    def term() -> bool:
        token = tokens.pop(0)
        if token == "!":
            return not term()
        if token == "(":
            found = alternatives()
            tokens.pop(0)
            return found
        return token in tags or _is_language(token)

    def conjunction() -> bool:
        found = term()
        while tokens[:1] == ["&&"]:
            tokens.pop(0)
            found = term() and found
        return found

    def alternatives() -> bool:
        found = conjunction()
        while tokens[:1] == ["||"]:
            tokens.pop(0)
            found = conjunction() or found
        return found

    try:
        return alternatives()
    except IndexError:
        return True


def _is_language(tag: str) -> bool:
    version = re.fullmatch(r"go1\.(\d+)", tag)
    return version is not None and int(version[1]) <= _LANGUAGE
