"""Hashes that avoid needless writes: an object is only written if its annotation differs from the hash of the new manifest."""

import hashlib
import json
from typing import Any

from sless.kube.names import HASH

_CHARS = 20


def hash_of(value: Any) -> str:
    """Hash of any JSON value, regardless of the order of keys."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_CHARS]


def stamped(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest with its own hash as an annotation."""
    metadata = manifest["metadata"]
    annotations = {**(metadata.get("annotations") or {}), HASH: hash_of(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": dict(sorted(annotations.items()))}}


def stamp_of(item: dict[str, Any]) -> str:
    """The hash in the object's annotation, "" if there is none."""
    return str((item["metadata"].get("annotations") or {}).get(HASH, ""))
