"""Images as folders. A module of its own, as the imports of the registry take longer than a build in the stand-in."""

import hashlib
import json
from pathlib import Path


def write_layout(folder: Path, created: str = "", layers: tuple[bytes, ...] = ()) -> str:
    """Writes an image as an OCI layout; returns the manifest's digest. `created` distinguishes images without layers."""
    blobs = folder / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def add(content: bytes, kind: str) -> dict[str, object]:
        digest = hashlib.sha256(content).hexdigest()
        (blobs / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    rootfs = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]}
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": rootfs, "created": created or "2026-01-01T00:00:00Z"}
    manifest = {
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add(json.dumps(config).encode(), "config.v1+json"), "layers": [add(layer, "layer.v1.tar") for layer in layers],
    }  # fmt: skip
    descriptor = add(json.dumps(manifest).encode(), "manifest.v1+json")
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [descriptor]}))
    (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return str(descriptor["digest"])
