"""Readers of the two upload formats: zip, and JSON {"files": {path: text | {"base64": …} | {"text": …}}}. Runs in the child."""

import base64
import binascii
import errno
import io
import json
import lzma
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from sless.domain.package import ArchiveEntry, PackageLimits, printable, too_many_files
from sless.errors import NUL_MISTAKE, Code, Detail, Invalid

MAX_LINK_BYTES = 4096
CHUNK_BYTES = 256 * 1024
_UTF8_FLAG = 0x800
_ENCRYPTED_FLAG = 0x1
_UNIX = 3
_END = struct.Struct("<4s4H2LH")
_CYRILLIC = re.compile(r"[\x00-\x7fА-Яа-яЁё№]+")
_ERRORS = (
    zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, IndexError, OverflowError, OSError,
    struct.error, zlib.error, lzma.LZMAError,
)  # fmt: skip
"""Errors that zipfile raises for damaged archives."""
_SEEK_ERRNOS = (errno.EINVAL, errno.EOVERFLOW)
"""Error numbers caused by an offset outside the file; every other one is a failure of this machine."""


class Archive(Protocol):
    code_hash: str | None

    def entries(self) -> list[ArchiveEntry]: ...

    def chunks(self, entry: ArchiveEntry) -> Iterator[bytes]:
        """The content, one chunk in memory at a time. Raises Invalid when it is damaged."""


class ZipArchive:
    code_hash: str | None = None

    def __init__(self, path: Path, limits: PackageLimits) -> None:
        """Raises Invalid for anything but a zip, TOO_LARGE if its directory lists far too many files."""
        with path.open("rb") as file:
            head = file.read(4)
            if _count_of(file) > limits.files * 2:
                raise too_many_files(limits)
        if head[:2] != b"PK":
            raise Invalid(Detail(field="code", message=f"expected a zip archive, found {_looks_like(head)}"), code=Code.INVALID)
        try:
            self._zip = zipfile.ZipFile(path)
        except _ERRORS as error:
            _check_machine(error)
            raise _damaged("the archive", error) from error
        self._infos = self._zip.infolist()

    def entries(self) -> list[ArchiveEntry]:
        return [self._entry(index, info) for index, info in enumerate(self._infos)]

    def chunks(self, entry: ArchiveEntry) -> Iterator[bytes]:
        try:
            with self._zip.open(self._infos[entry.index]) as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
        except _ERRORS as error:
            _check_machine(error)
            raise _damaged(entry.name, error) from error

    def _entry(self, index: int, info: zipfile.ZipInfo) -> ArchiveEntry:
        if info.flag_bits & _ENCRYPTED_FLAG:
            raise Invalid(Detail(field=printable(info.filename), message="is encrypted: expected a zip without a password"))
        mode = info.external_attr >> 16 if info.create_system == _UNIX else 0
        name = _name_of(info)
        entry = ArchiveEntry(index=index, name=name, mode=mode, size_bytes=info.file_size)
        if not stat.S_ISLNK(mode):
            return entry
        target = b""
        for chunk in self.chunks(entry):
            target += chunk
            if len(target) > MAX_LINK_BYTES:
                raise Invalid(Detail(field=printable(name), message="is a link whose target is too long"))
        return ArchiveEntry(index=index, name=name, mode=mode, link=_link_of(name, target))


class JsonFiles:
    def __init__(self, path: Path) -> None:
        try:
            body = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise Invalid(Detail(field="", message=f"expected JSON: {error}"), code=Code.INVALID_JSON) from error
        files = body.get("files") if isinstance(body, dict) else None
        mistakes = [] if isinstance(files, dict) else [Detail(field="files", message="expected an object of path → text")]
        if isinstance(body, dict):
            mistakes += [Detail(field=printable(name), message="unknown field") for name in body if name not in ("files", "code_hash")]
        code_hash = body.get("code_hash") if isinstance(body, dict) else None
        if code_hash is not None and (not isinstance(code_hash, str) or "\0" in code_hash):
            mistakes.append(Detail(field="code_hash", message=NUL_MISTAKE))
        self.code_hash: str | None = code_hash
        self._contents: list[bytes] = []
        self._entries: list[ArchiveEntry] = []
        for name, value in (files if isinstance(files, dict) else {}).items():
            try:
                self._add(name, value)
            except ValueError as error:
                mistakes.append(Detail(field=f"files.{printable(name)}", message=str(error)))
        if mistakes:
            raise Invalid(*mistakes[:20])

    def entries(self) -> list[ArchiveEntry]:
        return self._entries

    def chunks(self, entry: ArchiveEntry) -> Iterator[bytes]:
        content = io.BytesIO(self._contents[entry.index])
        while chunk := content.read(CHUNK_BYTES):
            yield chunk

    def _add(self, name: str, value: Any) -> None:
        executable = False
        if isinstance(value, dict):
            unknown = sorted(set(value) - {"base64", "text", "executable"})
            if unknown or ("base64" in value) == ("text" in value):
                raise ValueError('expected text, {"base64": "…"} or {"text": "…"}, optionally with "executable"')
            executable = value.get("executable", False)
            if not isinstance(executable, bool):
                raise ValueError("executable: expected true or false")
        self._contents.append(_content_of(value))
        self._entries.append(ArchiveEntry(index=len(self._entries), name=name, mode=stat.S_IFREG | (0o755 if executable else 0o644)))


def _content_of(value: Any) -> bytes:
    text = value.get("text", value.get("base64")) if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise ValueError('expected text or {"base64": "…"}')
    if isinstance(value, dict) and "base64" in value:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ValueError(f"base64: {error}") from error
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError("expected valid Unicode, found half a surrogate pair") from error


def _name_of(info: zipfile.ZipInfo) -> str:
    """Without the UTF-8 flag zipfile assumes cp437, but most current tools write UTF-8 without the flag, and Russian Windows cp866."""
    if info.flag_bits & _UTF8_FLAG:
        return info.filename
    raw = info.filename.encode("cp437")
    for encoding in ("utf-8", "cp866"):
        try:
            name = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding == "utf-8" or _CYRILLIC.fullmatch(name):
            return name
    raise Invalid(
        Detail(field=printable(info.filename), message="the name is neither UTF-8 nor Cyrillic in cp866: use a zip with UTF-8 names")
    )


def _link_of(name: str, target: bytes) -> str:
    try:
        return target.decode()
    except UnicodeDecodeError as error:
        raise Invalid(Detail(field=printable(name), message="is a link whose target is not UTF-8")) from error


def _check_machine(error: Exception) -> None:
    """Re-raises the error if the disk failed rather than the archive."""
    if isinstance(error, OSError) and error.errno and error.errno not in _SEEK_ERRNOS:
        raise error


def _count_of(file: BinaryIO) -> int:
    """The number of entries according to the end record, 0 without one. It cannot be trusted, and only serves to refuse early."""
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - 65_557))
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < _END.size:
        return 0
    return int(_END.unpack_from(tail, at)[4])


def _looks_like(head: bytes) -> str:
    known = {b"\x1f\x8b": "a gzip file", b"": "nothing", b"{": "JSON", b"Rar!": "a RAR archive", b"7z": "a 7z archive"}
    return next((name for start, name in known.items() if start and head.startswith(start)), "something else" if head else "nothing")


def _damaged(name: str, error: Exception) -> Invalid:
    return Invalid(Detail(field="code", message=f"{printable(name)}: the zip is damaged or uses an unsupported feature: {error}"))
