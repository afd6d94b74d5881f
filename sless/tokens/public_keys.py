"""Public keys for verifying tokens of others: a PEM file, or a key set behind a URL."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from sless.errors import Code, ConfigError, SlessError
from sless.tokens.keys import VerificationKey, refuse

_log = logging.getLogger(__name__)

JWKS_PAUSE_SEC = 10.0
"""Minimum time between fetches of the key set, so that forged key ids cannot flood its server."""
JWKS_FRESH_SEC = 600.0
JWKS_WAITERS = 2
"""Maximum number of threads that wait for a fetch; the pool that verifies tokens has more."""


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
            _log.warning("cannot read the key set %s: %s", self._client.uri, error)
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
        _log.warning("ignoring key %r of the key set: %s", data.get("kid"), error)
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


def key_of_pem(text: str) -> VerificationKey:
    """Raises ConfigError."""
    try:
        key = load_pem_public_key(text.encode())
    except ValueError as error:
        raise ConfigError(f"SLESS_JWT_PUBLIC_KEY: expected a public key in PEM format: {error}") from error
    return VerificationKey(key, algorithms_of(key))
