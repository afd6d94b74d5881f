"""The child process that reads an upload: `main` reads one JSON order from stdin and writes one JSON object to stdout.

It imports only the standard library and `sless.domain`, so that it starts in 50 ms.
"""

import base64
import hashlib
import json
import os
import resource
import stat
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sless.code.archive import Archive, JsonFiles, ZipArchive
from sless.code.syntax import parsed
from sless.domain.package import ArchiveEntry, PackageLimits, content_hash, plan_files, too_large_unpacked, too_many_files
from sless.domain.runtimes import RUNTIMES
from sless.errors import FULL_ERRNOS, Code, SlessError, storage_full

MEMORY_BYTES = 768 << 20
CPU_SEC = 40
EPOCH = (1980, 1, 1, 0, 0, 0)
MAX_SOURCE_JSON_BYTES = 32 << 20


def main() -> None:
    order = json.load(sys.stdin)
    soft_limits()
    try:
        answer = intake(order) if order["do"] == "intake" else source(order)
    except SlessError as error:
        answer = {"code": str(error.code), "message": error.message, "details": [[item.field, item.message] for item in error.details]}
    except OSError as error:
        if error.errno not in FULL_ERRNOS:
            raise
        answer = {"code": str(Code.STORAGE_FULL), "message": storage_full().message, "details": []}
    json.dump(answer, sys.stdout)


def soft_limits() -> None:
    """Soft limits, because node, which this process may start, reserves far more address space than it uses."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SEC, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def lift_memory_limit() -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def intake(order: dict[str, Any]) -> dict[str, Any]:
    """Checks `source` and writes the normalised zip to `target`."""
    limits = PackageLimits(**order["limits"])
    runtime, entrypoint = order["runtime"], order["entrypoint"]
    path, target = Path(order["source"]), Path(order["target"])
    try:
        archive: Archive = JsonFiles(path) if order["form"] == "json" else ZipArchive(path, limits)
        plan = plan_files(archive.entries(), runtime=runtime, entrypoint=entrypoint, limits=limits)
    except MemoryError:
        raise too_many_files(limits) from None
    digests = write_zip(archive, plan, target, limits)
    with zipfile.ZipFile(target) as written:
        lift_memory_limit() if RUNTIMES[runtime].language == "node" else None
        found = parsed(written, RUNTIMES[runtime].language)
    return {
        "sha256": content_hash(digests), "size_bytes": target.stat().st_size, "files": len(plan), "code_hash": archive.code_hash,
        "mistakes": [[item.path, item.line, item.message] for item in found.mistakes], "unparsed": found.unparsed,
    }  # fmt: skip


def write_zip(archive: Archive, plan: tuple[ArchiveEntry, ...], target: Path, limits: PackageLimits) -> dict[str, tuple[str, str]]:
    """Counts the unpacked bytes, because the sizes in the archive may be wrong."""
    left = limits.unpacked_bytes
    digests: dict[str, tuple[str, str]] = {}
    with target.open("xb") as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as written:
            for entry in plan:
                digest = hashlib.sha256()
                with written.open(_info_of(entry), "w") as out:
                    for chunk in _content_of(archive, entry):
                        left -= len(chunk)
                        if left < 0:
                            raise too_large_unpacked(limits)
                        digest.update(chunk)
                        out.write(chunk)
                kind = "l" if entry.link is not None else "x" if entry.executable else "-"
                digests[entry.name] = (kind, digest.hexdigest())
        file.flush()
        os.fsync(file.fileno())
    return digests


def _content_of(archive: Archive, entry: ArchiveEntry) -> Iterator[bytes]:
    return iter([entry.link.encode("utf-8", "surrogateescape")]) if entry.link is not None else archive.chunks(entry)


def _info_of(entry: ArchiveEntry) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(entry.name, EPOCH)
    mode = stat.S_IFLNK | 0o777 if entry.link is not None else stat.S_IFREG | (0o755 if entry.executable else 0o644)
    info.external_attr = mode << 16
    info.create_system = 3
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


def source(order: dict[str, Any]) -> dict[str, Any]:
    """Writes {"files": …} of the zip `source` to `target`."""
    with open(order["target"], "w", encoding="utf-8") as file:
        json.dump({"files": source_files(Path(order["source"]))}, file, ensure_ascii=False)
    return {}


def source_files(path: Path) -> dict[str, Any]:
    """path → text, or {"base64", "executable"} for binary and executable files. Leaves out links."""
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        size = sum(info.file_size for info in infos)
        if size > MAX_SOURCE_JSON_BYTES:
            message = f"the source is too large for JSON: expected at most {MAX_SOURCE_JSON_BYTES} bytes, found {size}"
            raise SlessError(Code.TOO_LARGE, message + "; ask with Accept: application/zip")
        return {info.filename: _shown(archive.read(info), info.external_attr >> 16) for info in infos if not _is_link(info)}


def _is_link(info: zipfile.ZipInfo) -> bool:
    return stat.S_ISLNK(info.external_attr >> 16)


def _shown(content: bytes, mode: int) -> Any:
    executable = {"executable": True} if mode & 0o111 else {}
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(content).decode()} | executable
    return {"base64": base64.b64encode(content).decode()} | executable if executable else text
