"""Sources of keys for verifying tokens: a secret, a PEM file, or a key set behind a URL."""

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from sless import ids
from sless.config import Settings
from sless.errors import Code, ConfigError, SlessError

log = logging.getLogger(__name__)

MIN_SECRET_BYTES = 32
JWKS_PAUSE_SEC = 10.0
"""Minimum time between fetches of the key set, so that forged key ids cannot flood its server."""
JWKS_FRESH_SEC = 600.0
JWKS_WAITERS = 2
"""Maximum number of threads that wait for a fetch; the pool that verifies tokens has more."""


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


class KeySet:
    """A JWKS behind a URL. Fetched again for an unknown `kid`; a failed fetch keeps the current keys."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.monotonic, pause_sec: float = JWKS_PAUSE_SEC) -> None:
        self._client = jwt.PyJWKClient(url, cache_keys=False, cache_jwk_set=False, timeout=5)
        self._clock = clock
        self._pause_sec = pause_sec
        self._lock = threading.Lock()
        self._waiters = threading.BoundedSemaphore(JWKS_WAITERS)
        self._keys: dict[str | None, VerificationKey] = {}
        self._fetched_at: float | None = None
        self._tried_at: float | None = None

    def verification_key_of(self, header: Mapping[str, Any]) -> VerificationKey:
        kid = header.get("kid")
        # Tokens with a known key never wait for a fetch, so that forged ids and a slow key server cannot delay them.
        if self._find(kid) is None:
            self._wait_for_fetch(kid)
        elif self._is_stale() and self._lock.acquire(blocking=False):
            try:
                self._fetch()
            finally:
                self._lock.release()
        key = self._find(kid)
        if key is None and self._fetched_at is None:
            raise SlessError(
                Code.UNAVAILABLE, "the key set for verifying tokens is currently unavailable", retry_after_sec=int(self._pause_sec)
            )
        if key is None:
            refuse(Code.TOKEN_BAD_SIGNATURE, "the token is signed with an unknown key (kid)")
        return key

    def _wait_for_fetch(self, kid: Any) -> None:
        """Waits for a fetch because of an unknown key. Only a few threads wait; the others serve tokens with known keys. Raises
        UNAVAILABLE."""
        if self._tried_at is not None and self._clock() - self._tried_at < self._pause_sec and not self._lock.locked():
            return  # there would be no fetch
        if not self._waiters.acquire(blocking=False):
            raise SlessError(Code.UNAVAILABLE, "the key set for verifying tokens is being read; try again", retry_after_sec=1)
        try:
            with self._lock:
                if self._find(kid) is None:
                    self._fetch()
        finally:
            self._waiters.release()

    def _is_stale(self) -> bool:
        return self._fetched_at is None or self._clock() - self._fetched_at > JWKS_FRESH_SEC

    def _find(self, kid: Any) -> VerificationKey | None:
        """A token without a `kid` uses the only key of the set."""
        keys = self._keys  # read once, because a fetch replaces it
        if kid is None and len(keys) == 1:
            return next(iter(keys.values()))
        return keys.get(kid) if isinstance(kid, str) else None

    def _fetch(self) -> None:
        now = self._clock()
        if self._tried_at is not None and now - self._tried_at < self._pause_sec:
            return
        self._tried_at = now
        try:
            found = self._client.fetch_data()
            keys = found.get("keys") if isinstance(found, dict) else None
            if not isinstance(keys, list):
                raise jwt.PyJWKClientError('expected a JSON object with "keys"')
        except (jwt.PyJWKClientError, ValueError) as error:
            log.warning("cannot read the key set %s: %s", self._client.uri, error)
            return
        self._keys = dict(filter(None, map(_jwk, keys)))
        self._fetched_at = now


def _jwk(data: Any) -> tuple[str | None, VerificationKey] | None:
    """None for keys that cannot verify: symmetric ones (anyone who reads the set could sign), encryption keys and unknown kinds."""
    if not isinstance(data, dict) or data.get("kty") == "oct" or data.get("use", "sig") != "sig":
        return None
    try:
        key = jwt.PyJWK.from_dict(data).key
        algorithms = algorithms_of(key)
    except (jwt.PyJWTError, ConfigError, ValueError, TypeError) as error:
        log.warning("ignoring key %r of the key set: %s", data.get("kid"), error)
        return None
    named = data.get("alg")
    return data.get("kid"), VerificationKey(key, tuple(name for name in algorithms if named in (None, name)))


def algorithms_of(key: Any) -> tuple[str, ...]:
    """Signature algorithms for a public key. The restriction prevents confusion of key types."""
    match key:
        case rsa.RSAPublicKey():
            return ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
        case ec.EllipticCurvePublicKey():
            fitting = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512", "secp256k1": "ES256K"}.get(key.curve.name)
            if fitting:
                return (fitting,)
        case ed25519.Ed25519PublicKey() | ed448.Ed448PublicKey():
            return ("EdDSA",)
    raise ConfigError(f"expected an RSA, EC or Ed25519 public key, found {type(key).__name__}")


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


def key_source(settings: Settings) -> VerificationKeys:
    match settings.auth_mode:
        case "local" | "secret":
            return FixedKey(VerificationKey(shared_secret(settings), ("HS256",)))
        case "jwks":
            if not settings.jwks_url.startswith(("https://", "http://")):
                raise ConfigError(f"SLESS_JWKS_URL: expected an http(s) URL with SLESS_AUTH_MODE=jwks, found {settings.jwks_url!r}")
            return KeySet(settings.jwks_url)
        case "public-key":
            try:
                key = load_pem_public_key(settings.jwt_public_key.encode())
            except ValueError as error:
                raise ConfigError(f"SLESS_JWT_PUBLIC_KEY: expected a public key in PEM format: {error}") from error
            return FixedKey(VerificationKey(key, algorithms_of(key)))
        case "perimeter":
            log.warning("SLESS_AUTH_MODE=perimeter: token signatures are NOT checked; anyone who can reach this port can act as any tenant")
            return FixedKey(VerificationKey(None, ()))
    raise ConfigError(f"SLESS_AUTH_MODE: expected local, secret, jwks, public-key or perimeter, found {settings.auth_mode!r}")
