"""Rules for uploaded code: allowed entries, their final names, and the content hash.

Pure functions on a list of entries; `sless.code.intake` reads the bytes. Contract §3: no path outside the root, no absolute paths, no links
out, no devices, no duplicates, no unreadable names; junk is dropped; a single top-level folder is unwrapped if the entrypoint would be
missing otherwise.
"""

import hashlib
import posixpath
import stat
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sless.domain.runtimes import RUNTIMES
from sless.errors import Code, Detail, Invalid, SlessError

JUNK = frozenset({"__MACOSX", ".DS_Store", ".git"})
MAX_PATH_BYTES = 1024
MAX_PART_BYTES = 255
MAX_LINK_STEPS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageLimits:
    unpacked_bytes: int
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveEntry:
    """One entry, as named in the archive. `mode` is a Unix mode, 0 if the archive has none; `link` the target of a symbolic link.
    `size_bytes` is the declared size and cannot be trusted: unpacking counts the real bytes."""

    index: int
    name: str
    mode: int = 0
    link: str | None = None
    size_bytes: int = 0

    @property
    def executable(self) -> bool:
        return self.link is None and bool(self.mode & 0o111)


def plan_files(entries: Sequence[ArchiveEntry], *, runtime: str, entrypoint: str, limits: PackageLimits) -> tuple[ArchiveEntry, ...]:
    """The files to keep, sorted, with their final paths as `name`. Raises Invalid listing the errors, TOO_LARGE over a limit."""
    if len(entries) > limits.files * 2:  # folders may be entries too
        raise too_many_files(limits)
    mistakes: list[Detail] = []
    files: list[ArchiveEntry] = []
    for entry in entries:
        try:
            kept = _cleaned(entry)
        except ValueError as error:
            mistakes.append(Detail(field=printable(entry.name), message=str(error)))
            continue
        if kept is not None:
            files.append(kept)
    if len(files) > limits.files:
        raise too_many_files(limits)
    if sum(entry.size_bytes for entry in files) > limits.unpacked_bytes:
        raise too_large_unpacked(limits)
    mistakes += _clashes(files)
    if not mistakes:
        files = unwrapped(files, runtime, entrypoint)
        mistakes += _bad_links(files)
    if mistakes:
        raise Invalid(*mistakes)
    _check_entrypoint(files, runtime, entrypoint)
    return tuple(sorted(files, key=lambda entry: entry.name))


def entry_files_of(runtime: str, entrypoint: str) -> tuple[str, ...]:
    """Candidate paths, one of which must exist; for Go a folder (ending in /) that must contain a .go file."""
    module = entrypoint.rpartition(".")[0]
    match RUNTIMES[runtime].language:
        case "python":
            base = module.replace(".", "/")
            return (f"{base}.py", f"{base}/__init__.py")
        case "node":
            bases = dict.fromkeys((module, module.replace(".", "/")))
            suffixes = RUNTIMES[runtime].source_suffixes
            named = tuple(f"{base}{suffix}" for base in bases for suffix in suffixes)
            folders = tuple(f"{base}/index{suffix}" for base in bases for suffix in suffixes)
            return (*named, *((module,) if module.endswith(suffixes) else ()), *folders)
    return (posixpath.dirname(module) + "/",)


def find_entry_file(paths: Iterable[str], runtime: str, entrypoint: str) -> str | None:
    known = set(paths)
    for candidate in entry_files_of(runtime, entrypoint):
        if not candidate.endswith("/"):
            if candidate in known:
                return candidate
            continue
        folder = candidate.strip("/")
        found = sorted(path for path in known if path.endswith(".go") and posixpath.dirname(path) == folder)
        if found:
            return found[0]
    return None


def content_hash(files: Mapping[str, tuple[str, str]]) -> str:
    """sha256 over path → (`x` executable, `-` plain, `l` link; sha256 hex of the content), independent of times and compression."""
    total = hashlib.sha256()
    for path in sorted(files):
        kind, digest = files[path]
        total.update(f"{len(path.encode())}:{path}{kind}{digest}".encode())
    return total.hexdigest()


def too_many_files(limits: PackageLimits) -> SlessError:
    return SlessError(Code.TOO_LARGE, f"too many files: expected at most {limits.files} (limit max_code_files)")


def too_large_unpacked(limits: PackageLimits) -> SlessError:
    return SlessError(Code.TOO_LARGE, f"too large when unpacked: expected at most {limits.unpacked_bytes} bytes (limit max_unpacked_bytes)")


def printable(name: str) -> str:
    """A name fit for a message: one line, no surrogates, at most 120 characters."""
    shown = name.encode("utf-8", "backslashreplace").decode()
    shown = "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)
    return shown if len(shown) <= 120 else shown[:120] + "…"


def unwrapped(files: Sequence[ArchiveEntry], runtime: str, entrypoint: str) -> list[ArchiveEntry]:
    """Strips a single top-level folder if the entrypoint is only found inside it."""
    tops = {entry.name.partition("/")[0] for entry in files}
    if len(tops) != 1 or any("/" not in entry.name for entry in files) or _found(files, runtime, entrypoint):
        return list(files)
    inner = [replace(entry, name=entry.name.partition("/")[2]) for entry in files]
    return inner if _found(inner, runtime, entrypoint) else list(files)


def _found(files: Iterable[ArchiveEntry], runtime: str, entrypoint: str) -> str | None:
    return find_entry_file((entry.name for entry in files), runtime, entrypoint)


def _cleaned(entry: ArchiveEntry) -> ArchiveEntry | None:
    """The entry with a clean relative path; None for folders and junk. Raises ValueError with a message for the user."""
    name = entry.name.replace("\\", "/")
    kind = stat.S_IFMT(entry.mode)
    if not name or "\ufffd" in name or any(unicodedata.category(char) in ("Cc", "Cs", "Cn") for char in name):
        raise ValueError("expected a readable name, found control characters, invalid Unicode or an empty name")
    if name.startswith("/") or name[1:3] in (":/", ":"):
        raise ValueError("expected a path inside the package, found an absolute path")
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise ValueError('expected a path inside the package, found ".." in it')
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        raise ValueError("expected files, folders and links, found a device, pipe or socket")
    if JUNK.intersection(parts) or name.endswith("/") or kind == stat.S_IFDIR or not parts:
        return None
    path = "/".join(parts)
    if len(path.encode()) > MAX_PATH_BYTES or any(len(part.encode()) > MAX_PART_BYTES for part in parts):
        raise ValueError(f"path too long: expected at most {MAX_PATH_BYTES} bytes in all and {MAX_PART_BYTES} between slashes")
    return replace(entry, name=path, link=entry.link.replace("\\", "/") if entry.link is not None else None)


def _clashes(files: Sequence[ArchiveEntry]) -> list[Detail]:
    names: set[str] = set()
    found = []
    for entry in files:
        if entry.name in names:
            found.append(Detail(field=printable(entry.name), message="appears twice in the package"))
        names.add(entry.name)
    for name in sorted(names):
        parent = next((folder for folder in _parents_of(name) if folder in names), None)
        if parent is not None:
            found.append(Detail(field=printable(name), message=f"is inside {printable(parent)}, which is a file"))
    return found


def _parents_of(path: str) -> Iterable[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _bad_links(files: Sequence[ArchiveEntry]) -> list[Detail]:
    links = {entry.name: entry.link for entry in files if entry.link is not None}
    return [
        Detail(field=printable(name), message=f"links out of the package or in a circle: {printable(target)}")
        for name, target in links.items()
        if not _stays_inside(name, links)
    ]


def _stays_inside(name: str, links: Mapping[str, str]) -> bool:
    """Follows the link as the kernel would, including other links of the package: `..` after a link to a shallow folder can leave the
    package although the path looks harmless."""
    pending = name.split("/")[::-1]
    at: list[str] = []
    steps = 0
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not at:
                return False
            at.pop()
            continue
        target = links.get("/".join([*at, part]))
        if target is None:
            at.append(part)
            continue
        steps += 1
        if steps > MAX_LINK_STEPS or target.startswith("/") or "\x00" in target or not target:
            return False
        pending += target.split("/")[::-1]
    return True


def _check_entrypoint(files: Sequence[ArchiveEntry], runtime: str, entrypoint: str) -> None:
    if not files:
        raise Invalid(Detail(field="code", message="expected at least one file, found none"))
    if _found(files, runtime, entrypoint):
        return
    expected = [
        f"a .go file in {path.strip('/') or 'the top folder'}" if path.endswith("/") else path
        for path in entry_files_of(runtime, entrypoint)
    ]
    present = ", ".join(printable(entry.name) for entry in sorted(files, key=lambda entry: (entry.name.count("/"), entry.name))[:5])
    message = f"entrypoint {entrypoint}: expected {expected[0]}" + (f" (or {', '.join(expected[1:3])})" if expected[1:] else "")
    raise Invalid(Detail(field="code", message=f"{message} in the package, found {present}{', …' if len(files) > 5 else ''}"))
