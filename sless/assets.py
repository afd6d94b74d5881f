"""Folders that come with sless and are not Python: the console's files, the runtimes, the examples.

In a checkout (also an editable install) they lie beside the package; installed, and unpacked from the zipapp, inside it.
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
    """`name` inside the package, else beside it. The launcher proves that the folder beside is ours and not some other package's."""
    inside, beside = package / name, package.parent / name
    if inside.is_dir():
        return inside
    if beside.is_dir() and (package.parent / "sless.py").is_file():
        return beside
    return None


def _folder(name: str) -> Path:
    folder = folder_of(name, _PACKAGE)
    if folder is None:
        raise FileNotFoundError(f'sless is not installed whole: no folder "{name}" in {_PACKAGE} nor beside it')
    return folder


def _child(parent: Path, name: str, kind: str) -> Path:
    folder = parent / name
    if not name or "/" in name or name.startswith(".") or not folder.is_dir():
        known = ", ".join(sorted(entry.name for entry in parent.iterdir() if entry.is_dir()))
        raise FileNotFoundError(f'no {kind} "{name}" comes with sless, only: {known}')
    return folder
