"""Random identifiers, valid as Kubernetes names, and the namespace of a tenant."""

import hashlib
import os
import re
import secrets

_ALPHABET = "abcdefghijklmnopqrstuvwxyz0123456789"
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:=+/@-]{1,128}")


def new_id(length: int = 20) -> str:
    """A random id that starts with a letter; 20 characters hold 102 bits."""
    return secrets.choice(_ALPHABET[:26]) + "".join(map(_ALPHABET.__getitem__, (byte % 36 for byte in secrets.token_bytes(length - 1))))


def namespace_of(sub: str) -> str:
    """The namespace for the subject of a token."""
    return "sless-" + hashlib.sha256(sub.encode()).hexdigest()[:16]


def valid_request_id(text: str | None) -> str | None:
    """`text` if it is usable as a request id (1–128 characters of a small set), else None."""
    return text if text and _REQUEST_ID.fullmatch(text) else None


_call_ids: list[str] = []
os.register_at_fork(after_in_child=_call_ids.clear)


def new_call_id() -> str:
    """An id like those of `new_id` for the request path: 80 random bits, read for many ids at once, because the system call is slow."""
    try:
        return _call_ids.pop()
    except IndexError:
        text = os.urandom(10 * 256).hex()
        _call_ids.extend("i" + text[at : at + 20] for at in range(20, len(text), 20))
        return "i" + text[:20]
