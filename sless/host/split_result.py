"""Splits a large result file, in a child process: parsing 32 MB of JSON holds the interpreter lock for a quarter of a second, which would
block the server.

`main` reads the paths of the file and of a folder as JSON. Into the folder it writes `head.json` (the outcome with the body's size in bytes
instead of the body) and `body` (raw bytes).
"""

import base64
import json
import os
import sys
from typing import Any


def head_of(item: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    encoded = item.pop("body_base64", None)
    text = item.pop("body", None)
    body = base64.b64decode(encoded) if encoded is not None else str(text or "").encode("utf-8", "surrogatepass")
    return {**item, "body_bytes": len(body)}, body


def split(source: str, folder: str) -> None:
    with open(source, "rb") as file:
        head, body = head_of(json.load(file))
    for name, content in (("body", body), ("head.json", json.dumps(head).encode())):
        with open(os.path.join(folder, name), "wb") as out:
            out.write(content)


def main() -> None:
    try:
        split(*json.load(sys.stdin))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
