"""Guesses the runtime of a folder and checks its entrypoint before the upload."""

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
    """Guesses by the files at the top of the folder. Raises PackingError if they fit no runtime or several."""
    found = {runtime: mark for runtime, marks in MARKS.items() if (mark := _first_present(folder, marks))}
    if len(found) == 1:
        return next(iter(found))
    if not found:
        raise PackingError(f"{folder}: cannot guess the runtime from the files; give --runtime ({', '.join(sorted(MARKS))})")
    marks_text = ", ".join(f"{mark} ({runtime})" for runtime, mark in sorted(found.items()))
    raise PackingError(f"{folder}: files of several runtimes: {marks_text}; give --runtime")


def check_entrypoint(folder: Path, runtime: str) -> None:
    """Raises PackingError if the module of the default entrypoint is missing."""
    wanted = DEFAULT_MODULES.get(runtime)
    if wanted and not any((folder / name).is_file() or list(folder.glob(f"*/{name}")) for name in wanted):
        raise PackingError(f"{folder}: {wanted[0]} not found; give --entrypoint MODULE.FUNCTION")


def check_named_entrypoint(files: Sequence[str], runtime: str, entrypoint: str) -> None:
    """Raises PackingError if none of `files` (paths in the zip) contains it, because the server would only refuse the upload after it has
    stored the new entrypoint or runtime. Leaves invalid runtimes and entrypoints to the server."""
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
