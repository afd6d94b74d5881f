"""Small code, stored as tar.gz in an immutable ConfigMap, which the runtime image unpacks at start."""

import base64
import hashlib
from typing import Any

from sless.domain.code_archive import archive_of as archive_of
from sless.kube.names import ROLE_CODE, WORKLOAD, code_map_of, labels_of
from sless.kube.pods import ARCHIVE_KEY
from sless.kube.stamp import stamped

MAX_ARCHIVE_BYTES = 700 * 1024
"""An object holds at most 1 MiB, and base64 adds a third."""


def code_map_name_of(archive: bytes) -> str:
    """Derived from the content, so that the object never changes, and equal code shares one."""
    return code_map_of(hashlib.sha256(archive).hexdigest()[:20])


def code_map_manifest(installation: str, namespace: str, workload_id: str, archive: bytes) -> dict[str, Any]:
    """`namespace` is the tenant's in the cluster, `workload_id` the first workload with this code."""
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
