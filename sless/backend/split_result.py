"""Takes a large result file apart. A program of its own, `python split_result.py RESULT FOLDER`, standard library only: parsing 32 MB of
JSON holds the interpreter's lock for a quarter of a second, and that must not be the server's.

Leaves in FOLDER: `head.json` (the outcome without `result` and body, with their sizes in bytes), `result` and `body` (raw bytes).
"""

import base64
import json
import os
import sys
from typing import Any


def head_of(item: dict[str, Any]) -> tuple[dict[str, Any], bytes, bytes]:
    """(head, result, body); the head is valid even when there is no result (`result_bytes` null)."""
    encoded = item.pop("body_base64", None)
    text = item.pop("body", None)
    result = item.pop("result", None)
    body = base64.b64decode(encoded) if encoded is not None else str(text or "").encode("utf-8", "surrogatepass")
    raw = b"" if result is None else str(result).encode("utf-8", "surrogatepass")
    head = {**item, "result_bytes": None if result is None else len(raw), "body_bytes": len(body)}
    return head, raw, body


def main(source: str, folder: str) -> None:
    with open(source, "rb") as file:
        head, result, body = head_of(json.load(file))
    for name, content in (("result", result), ("body", body), ("head.json", json.dumps(head).encode())):
        with open(os.path.join(folder, name), "wb") as out:
            out.write(content)


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2])
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        sys.exit(f"{type(error).__name__}: {error}")
