"""Finds folders shipped with sless: the files of the console, the runtimes, the examples.

In a checkout (or an editable install) they are next to the package, otherwise inside it.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def static_dir() -> Path:
    """Files served under /static."""
    return _folder("static")


def runtimes_dir() -> Path:
    """One folder per runtime, named as users name it: `python3.11`, `nodejs20`."""
    return _folder("runtimes")


def examples_dir() -> Path:
    """One folder per example function."""
    return _folder("examples")


def runtime_dir(runtime: str) -> Path:
    return _child(runtimes_dir(), runtime, "runtime")


def example_dir(example: str) -> Path:
    return _child(examples_dir(), example, "example")


def folder_of(name: str, package: Path) -> Path | None:
    """`name` inside the package, or else next to it, where the launcher `sless.py` proves that the folder is ours."""
    inside, beside = package / name, package.parent / name
    if inside.is_dir():
        return inside
    if beside.is_dir() and (package.parent / "sless.py").is_file():
        return beside
    return None


def _folder(name: str) -> Path:
    folder = folder_of(name, _PACKAGE)
    if folder is None:
        raise FileNotFoundError(f'incomplete installation of sless: no folder "{name}" in {_PACKAGE} or next to it')
    return folder


def _child(parent: Path, name: str, kind: str) -> Path:
    folder = parent / name
    if not name or "/" in name or name.startswith(".") or not folder.is_dir():
        known = ", ".join(sorted(entry.name for entry in parent.iterdir() if entry.is_dir()))
        raise FileNotFoundError(f'sless has no {kind} "{name}", only: {known}')
    return folder
