"""Keys for verifying tokens, and the secret of tokens that sless issues itself."""

import logging
import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

from sless import ids
from sless.config import Settings
from sless.errors import Code, ConfigError, SlessError

log = logging.getLogger(__name__)

MIN_SECRET_BYTES = 32


def refuse(code: Code, message: str) -> NoReturn:
    # `from None`: the library's message may quote the token.
    raise SlessError(code, message) from None


@dataclass(frozen=True, slots=True)
class VerificationKey:
    """Signatures are not checked if `key` is None (mode perimeter)."""

    key: Any
    algorithms: tuple[str, ...]


class VerificationKeys(Protocol):
    def verification_key_of(self, header: Mapping[str, Any]) -> VerificationKey:
        """The key for a token with this header. Raises a 401."""


@dataclass(frozen=True, slots=True)
class FixedKey:
    verification: VerificationKey

    def verification_key_of(self, header: Mapping[str, Any]) -> VerificationKey:
        return self.verification


def shared_secret(settings: Settings) -> bytes:
    """The HS256 secret of the modes `local` (created on first use) and `secret`."""
    if settings.auth_mode == "local":
        return _ensure_secret(settings.data_dir / "jwt-secret")
    secret = settings.jwt_secret.encode()
    if len(secret) < MIN_SECRET_BYTES:
        raise ConfigError(f"SLESS_JWT_SECRET: expected at least {MIN_SECRET_BYTES} bytes, found {len(secret)}")
    return secret


def _ensure_secret(path: Path) -> bytes:
    """Creates the secret. Processes that start at the same time agree on one, because `link` succeeds only once."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        fresh = path.with_name(f".{path.name}.{ids.new_id()}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(32))
                file.flush()
                os.fsync(file.fileno())
            os.link(fresh, path)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    secret = path.read_bytes().strip()
    if len(secret) < MIN_SECRET_BYTES:
        raise ConfigError(
            f"{path}: expected at least {MIN_SECRET_BYTES} bytes, found {len(secret)}; delete the file to create a new secret"
        )
    if path.stat().st_mode & 0o077:
        log.warning("%s signs tokens but is readable by others; it should have mode 0600", path)
    return secret
