"""Keys of the code store: `ns/workload_id/sha256-upload.zip`.

Decision: every upload has a blob of its own, also when its content was uploaded before. A blob shared by content could be deleted by the
clean-up of an old version in the moment in which a new upload of the same content counts on it.
"""

import re

from sless import ids

_KEY = re.compile(r"[a-z0-9][-a-z0-9]*/[a-z0-9]+/[0-9a-f]{64}-[a-z0-9]+\.zip")


def new_code_key(namespace: str, workload_id: str, sha256: str) -> str:
    return check_key(f"{namespace}/{workload_id}/{sha256}-{ids.new_id(8)}.zip")


def check_key(key: str) -> str:
    """Raises ValueError for anything else, so that a key can be a path."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"expected a key of the form ns/workload_id/sha256-upload.zip, found {key!r}")
    return key
