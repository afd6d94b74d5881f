"""Hashes by which we see that nothing is to be done: an annotation on the live object, compared with what would be sent now."""

import hashlib
import json
from typing import Any

from sless.kube.names import HASH

_CHARS = 20


def hash_of(value: Any) -> str:
    """Of anything that JSON can hold; the order of keys does not matter."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_CHARS]


def stamped(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with the hash of itself as an annotation."""
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), HASH: hash_of(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": dict(sorted(annotations.items()))}}


def stamp_of(item: dict[str, Any]) -> str:
    """The hash that an object carries, "" if none."""
    return str((item["metadata"].get("annotations") or {}).get(HASH, ""))
