"""Packs a folder as a reproducible zip: file times and order on disk do not matter.

Built-in patterns, then those of `.slessignore` in the syntax of .gitignore, decide which files are left out.
"""

import io
import os
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_FILES = 100_000
MAX_BYTES = 2**30
"""These are far above the server's limits, which have their own errors; they stop an accidental walk through a home folder."""
NO_TIME = (1980, 1, 1, 0, 0, 0)
FILE_NAME = ".slessignore"
SECRETS = ".env"
"""Usually contains passwords for local use. Left out with a notice, because some code expects it."""
TERRAFORM = (".terraform/", ".terraform.lock.hcl", "*.tf", "*.tfvars", "*.tfstate", "*.tfstate.*")
"""Terraform's files next to the code: the state contains secrets and changes with each apply."""
BUILT_IN = (".git/", ".hg/", ".svn/", ".venv/", "__pycache__/", "node_modules/", ".DS_Store", "*.pyc", SECRETS, *TERRAFORM, FILE_NAME)
"""A negated pattern in .slessignore (`!node_modules/`) overrides one of these."""


class PackingError(Exception):
    """The folder cannot be packed or unpacked; the message says why."""


class IgnoreRules:
    """As in git, the last matching pattern decides, and files in an ignored folder cannot be re-included: check folders first."""

    def __init__(self, text: str = "") -> None:
        """Raises ValueError naming an invalid pattern."""
        from pathspec import GitIgnoreSpec  # slow to import, and most commands pack nothing

        self._spec = GitIgnoreSpec.from_lines([*BUILT_IN, *text.splitlines()])

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """`path` is relative to the folder, with `/`."""
        return self._spec.match_file(f"{path}/" if is_folder else path)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedFolder:
    data: bytes
    files: tuple[str, ...]
    """Paths in the zip, sorted."""
    notice: str = ""
    """Notice of files left out that the code may need, or ""."""


def pack_folder(folder: Path, *, compress: bool = True) -> PackedFolder:
    """Raises PackingError if it is not a folder or empty, or has a link that leaves it or an unreadable file."""
    paths = list_files(folder)
    try:
        data = _zip_of(folder.resolve(), paths, zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED)
        return PackedFolder(data=data, files=tuple(paths), notice=notice_of(folder, paths))
    except OSError as error:
        raise PackingError(f"cannot read {error.filename or folder}: {error.strerror}") from error


def list_files(folder: Path) -> list[str]:
    """Paths of the files to send, sorted. Raises PackingError like `pack_folder`."""
    if not folder.is_dir():
        raise PackingError(f"{folder}: expected a folder with the code, found {'a file' if folder.exists() else 'nothing'}")
    root = folder.resolve()
    try:
        paths = sorted(_files_of(root, _rules_of(root)))
    except OSError as error:
        raise PackingError(f"cannot read {error.filename or folder}: {error.strerror}") from error
    if not paths:
        raise PackingError(f"{folder}: no files to send ({FILE_NAME} and the built-in rules leave some out)")
    return paths


def notice_of(folder: Path, paths: Sequence[str]) -> str:
    """Names each .env file next to one of `paths` that is not among them."""
    folders = {"", *(path.rpartition("/")[0] for path in paths)}
    present = [name for name in (f"{parent}/{SECRETS}".lstrip("/") for parent in sorted(folders)) if (folder / name).is_file()]
    left_out = [name for name in present if name not in paths]
    if not left_out:
        return ""
    return f"Left out {', '.join(left_out)}; use --env NAME=VALUE, or add the line !{SECRETS} to {FILE_NAME} to send it"


def _rules_of(root: Path) -> IgnoreRules:
    file = root / FILE_NAME
    try:
        return IgnoreRules(file.read_text(encoding="utf-8-sig", errors="replace") if file.is_file() else "")
    except ValueError as error:
        raise PackingError(f"{file}: {error}") from error


def _files_of(root: Path, rules: IgnoreRules) -> Iterator[str]:
    count = 0
    for current, folders, names in os.walk(root, onerror=_raise):
        base = Path(current).relative_to(root)
        linked = [name for name in folders if (Path(current) / name).is_symlink()]
        folders[:] = sorted(name for name in folders if not rules.ignores((base / name).as_posix(), is_folder=True) and name not in linked)
        for name in (*names, *linked):
            path = (base / name).as_posix()
            if rules.ignores(path, is_folder=name in linked):
                continue
            _check_file(root, path)
            count += 1
            if count > MAX_FILES:
                raise PackingError(f"{root}: more than {MAX_FILES:,} files; is this the folder of the function?")
            yield path


def _check_file(root: Path, path: str) -> None:
    """Raises PackingError unless it is a plain file, or a link to a file inside the folder."""
    real = (root / path).resolve()
    if not real.is_relative_to(root):
        raise PackingError(f"{path}: a link out of the folder ({os.readlink(root / path)}) cannot be sent; copy the file or ignore it")
    if not real.is_file():
        found = "a link to a folder" if real.is_dir() else "a broken link" if not real.exists() else "a device, pipe or socket"
        raise PackingError(f"{path}: expected a file, found {found}; add it to {FILE_NAME} to leave it out")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise PackingError(f"{path!r}: the file's name is not UTF-8; rename it") from None


def _zip_of(root: Path, paths: list[str], method: int) -> bytes:
    buffer = io.BytesIO()
    size_bytes = 0
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for path in paths:
            file = root / path
            executable = bool(file.stat().st_mode & 0o111)
            size_bytes += file.stat().st_size
            if size_bytes > MAX_BYTES:
                raise PackingError(f"{root}: more than {MAX_BYTES // 2**20} MB; is this the folder of the function?")
            info = zipfile.ZipInfo(path, NO_TIME)
            info.compress_type = method
            info.create_system = 3
            info.external_attr = (0o100755 if executable else 0o100644) << 16
            archive.writestr(info, file.read_bytes())
    return buffer.getvalue()


def _raise(error: OSError) -> None:
    raise error
