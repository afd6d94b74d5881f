"""The backup file: a tar, written and read as a stream of members, each with its hash."""

import gzip
import hashlib
import io
import json
import tarfile
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import IO, Any, BinaryIO, cast

from sless.errors import ConfigError

FORMAT = "sless-backup"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
END = "end.json"
SIGNING_KEY = "keys/jwt-secret"
CODE = "code/"
TABLES = "tables/"
_CHUNK_BYTES = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"
_LARGEST_JSON_BYTES = 256 << 20


class BrokenBackup(ConfigError):
    """The file is not a backup, or incomplete. Nothing has been changed."""


@dataclass(slots=True)
class ArchiveWriter:
    tar: tarfile.TarFile
    members: dict[str, dict[str, Any]] = field(default_factory=dict)
    size_bytes: int = 0

    def add_json(self, name: str, value: object) -> None:
        self.add_bytes(name, json.dumps(value, indent=1).encode())

    def add_bytes(self, name: str, data: bytes) -> None:
        self.add_file(name, io.BytesIO(data), len(data))

    def add_file(self, name: str, source: BinaryIO, size: int) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode, info.mtime = size, 0o600, int(time.time())
        hashed = _Hashed(source)
        self.tar.addfile(info, hashed)
        self.members[name] = {"size": size, "sha256": hashed.digest.hexdigest()}
        self.size_bytes += size

    def end(self, encryption_keys: list[str]) -> None:
        self.add_json(END, {"members": self.members, "encryption_keys": encryption_keys})


class _Hashed:
    """A reader that hashes the data."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._source.read(size)
        self.digest.update(data)
        return data


@contextmanager
def writing(target: BinaryIO, *, compressed: bool) -> Iterator[ArchiveWriter]:
    """Writes a file. The caller writes the end mark with `end`, so an interrupted file has none."""
    with ExitStack() as stack:
        if compressed:
            # Large members are already zips; a low compression level is three times as fast.
            target = stack.enter_context(cast(BinaryIO, gzip.GzipFile(fileobj=target, mode="wb", compresslevel=3)))
        yield ArchiveWriter(stack.enter_context(tarfile.open(fileobj=target, mode="w|", format=tarfile.PAX_FORMAT)))


@dataclass(frozen=True, slots=True)
class Member:
    name: str
    size: int
    source: IO[bytes]

    def json(self) -> Any:
        if self.size > _LARGEST_JSON_BYTES:
            raise BrokenBackup(f"{self.name}: expected at most {_LARGEST_JSON_BYTES} bytes, found {self.size}")
        try:
            return json.loads(self.source.read())
        except ValueError as error:
            raise BrokenBackup(f"{self.name} is not JSON: {error}") from error

    def rows(self) -> list[list[Any]]:
        return [json.loads(line) for line in self.source.read().splitlines()]


def members(source: BinaryIO) -> Iterator[Member]:
    """Members in the order of writing; each one must be read before the next is requested. Raises BrokenBackup."""
    source.seek(0)
    compressed = source.read(2) == _GZIP_MAGIC
    source.seek(0)
    # tarfile's own stream decompression does not verify the checksum at the end.
    content = cast(BinaryIO, gzip.GzipFile(fileobj=source)) if compressed else source
    with _damage_as_error():
        tar: Any = tarfile.open(fileobj=content, mode="r|")  # noqa: SIM115 - closed by the `with` below; `members` has no type
    with tar:
        while True:
            with _damage_as_error():
                info = tar.next()
                file = tar.extractfile(info) if info is not None else None
                while info is None and content.read(_CHUNK_BYTES):
                    pass
            if info is None:
                return
            if file is None:
                raise BrokenBackup(f"{info.name}: expected a file")
            yield Member(info.name, info.size, cast(IO[bytes], _Damaged(file)))
            tar.members.clear()  # otherwise it remembers each


@contextmanager
def _damage_as_error() -> Iterator[None]:
    """Reports errors as damage. Use it only around reads of the file."""
    try:
        yield
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise BrokenBackup(f"the file is truncated or damaged: {error}") from error


@dataclass(frozen=True, slots=True)
class _Damaged:
    source: IO[bytes]

    def read(self, size: int = -1) -> bytes:
        with _damage_as_error():
            return self.source.read(size)


def verify(source: BinaryIO) -> dict[str, Any]:
    """Reads the file to its end and returns the manifest, with the `encryption_keys` of the end.

    Raises BrokenBackup unless it is a complete and unchanged backup."""
    manifest: dict[str, Any] | None = None
    end: dict[str, Any] | None = None
    found: dict[str, dict[str, Any]] = {}
    for member in members(source):
        if end is not None or member.name in found:
            raise BrokenBackup(f"unexpected member {member.name}")
        if manifest is None:
            manifest, digest = _manifest_of(member)
            found[member.name] = {"size": member.size, "sha256": digest}
        elif member.name == END:
            end = member.json()
        else:
            found[member.name] = {"size": member.size, "sha256": _digest_of(member.source)}
    if manifest is None:
        raise BrokenBackup("the file is empty")
    return manifest | {"encryption_keys": _compare(found, end).get("encryption_keys", [])}


def _manifest_of(member: Member) -> tuple[dict[str, Any], str]:
    if member.name != MANIFEST:
        raise BrokenBackup(f"not a backup of sless: expected {MANIFEST} first, found {member.name}")
    hashed = _Hashed(member.source)
    manifest = Member(member.name, member.size, cast(IO[bytes], hashed)).json()
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise BrokenBackup(f'not a backup of sless: expected format "{FORMAT}" in {MANIFEST}')
    if manifest.get("format_version") != FORMAT_VERSION:
        raise BrokenBackup(
            f"the backup has format version {manifest.get('format_version')}, this version of sless reads {FORMAT_VERSION}: "
            "use a newer sless"
        )
    return manifest, hashed.digest.hexdigest()


def _digest_of(source: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while data := source.read(_CHUNK_BYTES):
        digest.update(data)
    return digest.hexdigest()


def _compare(found: dict[str, dict[str, Any]], end: dict[str, Any] | None) -> dict[str, Any]:
    if not isinstance(end, dict) or not isinstance(end.get("members"), dict):
        raise BrokenBackup(f"the file is truncated: {END} is missing")
    noted = end["members"]
    if missing := sorted(noted.keys() - found.keys()):
        raise BrokenBackup(f"{missing[0]} is missing ({len(missing)} in total)")
    for name, what in found.items():
        if noted.get(name) != what:
            raise BrokenBackup(f"{name} is damaged: expected {noted.get(name)}, found {what}")
    return end
