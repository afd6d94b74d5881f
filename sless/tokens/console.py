"""Signs a browser in to the console: a key per session, and codes from a terminal on the server's machine.

A code is random. The data folder contains a file named by its hash, with the subject and the time of expiry. Removing that file redeems the
code, so that only one of two requests succeeds, in whichever process. A terminal that can write there could also read the secret that signs
tokens.
"""

import hashlib
import hmac
import json
import secrets
import time
from pathlib import Path

from sless.config import Settings
from sless.errors import Code, SlessError
from sless.tokens.keys import refuse

CODE_SEC = 60.0
KEY_HEADER = "X-Sless-Console"
"""Header of the console's requests with the key of the session, which is in the pages."""
_FOLDER = "console-codes"


def key_of(token: str) -> str:
    """The key of the session with this token. Pages of other sites, or of functions on the same host, can neither compute nor read it."""
    return hmac.new(token.encode(), b"sless console session", hashlib.sha256).hexdigest()[:32]


def create_code(settings: Settings, sub: str) -> str:
    """A code that signs in as `sub`, once and within CODE_SEC. Removes expired ones."""
    folder = settings.data_dir / _FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    for path in folder.iterdir():
        if _expiry_of(path) < time.time():
            path.unlink(missing_ok=True)
    code = secrets.token_urlsafe(24)
    path = _path_of(settings, code)
    beside = path.with_suffix(".new")
    beside.touch(mode=0o600)
    beside.write_text(json.dumps({"sub": sub, "expires_at": time.time() + CODE_SEC}))
    beside.replace(path)
    return code


def redeem_code(settings: Settings, code: str) -> str:
    """The subject to sign in with this code. Raises UNAUTHORIZED if it is unknown, used or expired."""
    path = _path_of(settings, code)
    try:
        content = json.loads(path.read_text())
        path.unlink()  # fails for all but one of several concurrent requests
    except (FileNotFoundError, ValueError):
        refuse(Code.UNAUTHORIZED, f"this link has been used already or is older than {CODE_SEC:g} s; `sless console` prints a new one")
    if float(content["expires_at"]) < time.time():
        refuse(Code.UNAUTHORIZED, f"this link is older than {CODE_SEC:g} s; `sless console` prints a new one")
    return str(content["sub"])


def check_key(token: str, key: str) -> None:
    """Raises FORBIDDEN unless `key` belongs to the session with this token."""
    if not hmac.compare_digest(key_of(token).encode(), key.encode("utf-8", "replace")):
        raise SlessError(Code.FORBIDDEN, f"the header {KEY_HEADER} does not belong to this session; reload the page")


def _path_of(settings: Settings, code: str) -> Path:
    return settings.data_dir / _FOLDER / hashlib.sha256(code.encode("utf-8", "replace")).hexdigest()


def _expiry_of(path: Path) -> float:
    """When the code expires; 0 if the file cannot be read."""
    try:
        return float(json.loads(path.read_text())["expires_at"])
    except (OSError, ValueError, KeyError):
        return 0.0
