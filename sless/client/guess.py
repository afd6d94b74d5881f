"""What a folder of code seems to be, when the user does not say."""

from collections.abc import Sequence
from pathlib import Path

from sless.client.packing import PackingError
from sless.domain.package import entry_files_of, find_entry_file
from sless.domain.runtimes import RUNTIMES

MARKS = {
    "go1.23": ("go.mod", "*.go"),
    "nodejs20": ("package.json", "*.js", "*.mjs", "*.cjs"),
    "python3.11": ("requirements.txt", "*.py"),
}
DEFAULT_MODULES = {"python3.11": ("handler.py", "handler/__init__.py"), "nodejs20": ("handler.js", "handler.mjs", "handler.cjs")}


def guess_runtime(folder: Path) -> str:
    """By the files at the top of the folder. Raises PackingError when they fit none or several runtimes."""
    found = {runtime: mark for runtime, marks in MARKS.items() if (mark := _first_present(folder, marks))}
    if len(found) == 1:
        return next(iter(found))
    if not found:
        raise PackingError(f"{folder}: no file tells the runtime; give --runtime ({', '.join(sorted(MARKS))})")
    marks_text = ", ".join(f"{mark} ({runtime})" for runtime, mark in sorted(found.items()))
    raise PackingError(f"{folder}: files of several runtimes: {marks_text}; give --runtime")


def check_entrypoint(folder: Path, runtime: str) -> None:
    """Without an entrypoint the server takes `handler.handle`: say now what is missing, not after the upload."""
    wanted = DEFAULT_MODULES.get(runtime)
    if wanted and not any((folder / name).is_file() or list(folder.glob(f"*/{name}")) for name in wanted):
        raise PackingError(f"{folder}: no {wanted[0]}, and no entrypoint given; give --entrypoint MODULE.FUNCTION")


def check_named_entrypoint(files: Sequence[str], runtime: str, entrypoint: str) -> None:
    """Raises PackingError when none of `files` (the package's paths) holds it: the server would say so with the upload, when the new
    entrypoint or runtime is in force already. What is no runtime or no entrypoint at all is left to the server."""
    if runtime not in RUNTIMES or not entrypoint.rpartition(".")[0]:
        return
    unwrapped = [path.partition("/")[2] for path in files]
    if not find_entry_file(files, runtime, entrypoint) and not find_entry_file(unwrapped, runtime, entrypoint):
        expected = " or ".join(
            path if not path.endswith("/") else f"a .go file in {path.strip('/') or 'the top folder'}"
            for path in entry_files_of(runtime, entrypoint)[:2]
        )
        raise PackingError(f"entrypoint {entrypoint} ({runtime}): expected {expected}, found {', '.join(files[:5])}; nothing changed")


def _first_present(folder: Path, marks: tuple[str, ...]) -> str | None:
    for mark in marks:
        for path in sorted(folder.glob(mark)):
            if path.is_file():
                return path.name
    return None
