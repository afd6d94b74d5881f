"""Keys of the code store: `ns/workload_id/sha256.zip`."""

import re

_KEY = re.compile(r"[a-z0-9][-a-z0-9]*/[a-z0-9]+/[0-9a-f]{64}\.zip")


def code_key_of(namespace: str, workload_id: str, sha256: str) -> str:
    return check_key(f"{namespace}/{workload_id}/{sha256}.zip")


def check_key(key: str) -> str:
    """Raises ValueError for anything else, so that a key can be a path."""
    if not _KEY.fullmatch(key):
        raise ValueError(f"expected a key of the form ns/workload_id/sha256.zip, found {key!r}")
    return key
