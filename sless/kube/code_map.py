"""Small code: a normalised zip → a tar.gz in an immutable ConfigMap, which the runtime image unpacks at start."""

import base64
import gzip
import hashlib
import io
import stat
import tarfile
import zipfile
from typing import Any, BinaryIO

from sless.kube.names import ROLE_CODE, WORKLOAD, code_map_of, labels_of
from sless.kube.pods import ARCHIVE_KEY
from sless.kube.stamp import stamped

MAX_ARCHIVE_BYTES = 700 * 1024
"""An object may hold 1 MiB; base64 makes a third more of these."""


def archive_of(code: BinaryIO) -> bytes:
    """The tar.gz of a zip's files, the same bytes for the same files: sorted, without times and owners, execute bits and links kept. GNU's
    format, as the runtime images' start programs know no other."""
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


def code_map_name_of(archive: bytes) -> str:
    """Named by its content: it never changes, and equal code is one object."""
    return code_map_of(hashlib.sha256(archive).hexdigest()[:20])


def code_map_manifest(installation: str, namespace: str, workload_id: str, archive: bytes) -> dict[str, Any]:
    """`namespace`: the tenant's in the cluster; `workload_id`: whose code it was first."""
    return stamped(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": code_map_name_of(archive),
                "namespace": namespace,
                "labels": labels_of(installation, ROLE_CODE, {WORKLOAD: workload_id}),
            },
            "immutable": True,
            "binaryData": {ARCHIVE_KEY: base64.b64encode(archive).decode()},
        }
    )
