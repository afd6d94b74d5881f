"""Converts code of the earlier operator, a build context (tar.gz) or a plain zip, to a zip of the user's own files."""

import io
import tarfile
import zipfile
from collections.abc import Iterator

from sless.errors import Code, SlessError

MAX_BYTES = 256 * 2**20
_ADDED = frozenset({"Dockerfile", "server.py", "server.js", "server.mjs", "server.go"})
"""Files that the operator added at the top of the context."""


def zip_of_context(content: bytes) -> bytes:
    """Raises SlessError INVALID_CODE for anything that is neither a zip nor a tar."""
    if zipfile.is_zipfile(io.BytesIO(content)):
        return content
    target = io.BytesIO()
    try:
        with tarfile.open(fileobj=io.BytesIO(content)) as archive, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as written:
            for info, data in _own_files(archive):
                written.writestr(info, data)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise SlessError(Code.INVALID_CODE, "expected a tar.gz or a zip") from error
    return target.getvalue()


def _own_files(archive: tarfile.TarFile) -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
    left = MAX_BYTES
    for member in archive:
        name = member.name.removeprefix("./")
        if not member.isfile() or name in _ADDED:
            continue
        left -= member.size
        if left < 0:
            raise SlessError(Code.TOO_LARGE, f"the code is over {MAX_BYTES} bytes")
        file = archive.extractfile(member)
        info = zipfile.ZipInfo(name)
        info.external_attr = (0o100755 if member.mode & 0o111 else 0o100644) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        yield info, file.read() if file is not None else b""
