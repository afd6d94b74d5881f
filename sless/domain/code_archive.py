"""Packs small code into an archive that runtime images unpack. It is in this room because two others must produce the same bytes."""

import gzip
import io
import stat
import tarfile
import zipfile
from typing import BinaryIO


def archive_of(code: BinaryIO) -> bytes:
    """A reproducible tar.gz of a zip's files: sorted, without times and owners; execute bits and links are kept. GNU format, the only one
    that the start programs of runtime images read."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0, compresslevel=9) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.GNU_FORMAT) as archive,
        zipfile.ZipFile(code) as source,
    ):
        for entry in sorted(source.infolist(), key=lambda one: one.filename):
            if entry.is_dir():
                continue
            content = source.read(entry)
            item = tarfile.TarInfo(entry.filename)
            if stat.S_ISLNK(entry.external_attr >> 16):
                item.type, item.linkname, item.mode = tarfile.SYMTYPE, content.decode(), 0o777
                archive.addfile(item)
                continue
            item.size = len(content)
            item.mode = 0o755 if (entry.external_attr >> 16) & stat.S_IXUSR else 0o644
            archive.addfile(item, io.BytesIO(content))
    return packed.getvalue()
