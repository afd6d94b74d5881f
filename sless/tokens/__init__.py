"""Tokens: identify the caller. The only package that imports PyJWT: `signatures` and `public_keys` do, which are loaded when needed.

One verifier per process, one key source per `SLESS_AUTH_MODE`. The answer's `code` says which check failed; tokens never appear in messages
or logs.
"""

import hashlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sless import ids
from sless.config import Settings
from sless.errors import Code, ConfigError, SlessError
from sless.tokens.keys import FixedKey, VerificationKey, VerificationKeys, refuse, shared_secret
from sless.tokens.revoked import RevokedTokens

__all__ = ["Caller", "RevokedTokens", "TokenVerifier", "issue_token", "shared_secret", "token_of"]

_log = logging.getLogger(__name__)
MAX_TOKEN_CHARS = 16 * 1024
MAX_SUB_BYTES = 1024
MAX_TOKEN_ID_CHARS = 256
REMEMBER_SEC = 300.0
"""How long a verified token is cached, at most, so that keys removed from a key set soon stop working."""
REMEMBERED_TOKENS = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """`sub` is the subject, `tenant` the value of SLESS_TENANT_CLAIM that names the namespace."""

    sub: str
    namespace: str
    operator: bool = False
    expires_at: float = 0.0
    """When the token expires, in seconds since 1970; 0 without a token."""
    tenant: str = field(default="", compare=False)

    def check(self, namespace: str) -> None:
        """Raises FORBIDDEN unless the caller may access the namespace."""
        if namespace != self.namespace and not self.operator:
            raise SlessError(Code.FORBIDDEN, f"the token gives access to namespace {self.namespace}, not {_short(namespace)}")

    def check_operator(self) -> None:
        """Raises FORBIDDEN unless the caller is an operator."""
        if not self.operator:
            raise SlessError(Code.FORBIDDEN, "expected the token of an operator (SLESS_OPERATOR_SUBS), found another subject")


class TokenVerifier:
    def __init__(
        self,
        settings: Settings,
        *,
        clock: Callable[[], float] = time.time,
        is_revoked: Callable[[str], bool] = lambda token_id: False,
        remembered: int = REMEMBERED_TOKENS,
    ) -> None:
        """`is_revoked` takes the `jti` of a token. Raises ConfigError if the mode's key is missing or invalid. Mode `local` creates its
        secret on first use."""
        self._settings = settings
        self._clock = clock
        self._remembered = remembered
        self._keys = key_source(settings)
        self._is_revoked = is_revoked
        self._verified: OrderedDict[bytes, tuple[Caller, float, str]] = OrderedDict()
        """Digest of the token → caller, end of caching, jti."""
        self._lock = threading.Lock()

    def verify(self, authorization: str | None) -> Caller:
        """The caller for an `Authorization` header. Raises a 401 whose code names the failed check."""
        token = token_of(authorization)
        mark = hashlib.sha256(token.encode("utf-8", "replace")).digest()
        now = self._clock()
        with self._lock:
            known = self._verified.get(mark)
            if known is not None and known[1] > now:
                self._verified.move_to_end(mark)
            else:
                known = None
        if known is None:
            claims = self.claims(token)
            known = self._caller(claims), min(float(claims["exp"]), now + REMEMBER_SEC), _token_id_of(claims)
            with self._lock:
                self._verified[mark] = known
                while len(self._verified) > self._remembered:
                    self._verified.popitem(last=False)
        if known[2] and self._is_revoked(known[2]):
            refuse(Code.TOKEN_REVOKED, "the token has been revoked")
        return known[0]

    def claims(self, token: str) -> dict[str, Any]:
        """The claims of a token with valid signature and times. Raises a 401."""
        from sless.tokens.signatures import claims_of

        return claims_of(token, self._keys, self._settings)

    def _caller(self, claims: Mapping[str, Any]) -> Caller:
        sub = _identity_of(claims, "sub")
        tenant = _identity_of(claims, self._settings.tenant_claim)
        operator = sub in self._settings.operator_subs
        return Caller(sub=sub, namespace=ids.namespace_of(tenant), operator=operator, expires_at=float(claims["exp"]), tenant=tenant)


def _identity_of(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    whose = "that identifies the tenant" if name == "sub" else "that names the tenant (SLESS_TENANT_CLAIM)"
    if not isinstance(value, str) or not value.strip():
        refuse(Code.UNAUTHORIZED, f"the token has no {name}; expected a non-empty string {whose}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        refuse(Code.TOKEN_MALFORMED, f"the {name} of the token is not valid Unicode")
    if size > MAX_SUB_BYTES:
        refuse(Code.UNAUTHORIZED, f"the {name} of the token is too long: expected at most {MAX_SUB_BYTES} bytes, found {size}")
    return value


def _token_id_of(claims: Mapping[str, Any]) -> str:
    """The `jti` of a token; "" if it has no usable one, so that it cannot be revoked."""
    value = claims.get("jti")
    return value if isinstance(value, str) and len(value) <= MAX_TOKEN_ID_CHARS else ""


def token_of(authorization: str | None) -> str:
    if not authorization or not authorization.strip():
        refuse(Code.TOKEN_MISSING, "authentication required: send the header Authorization: Bearer <token>")
    scheme, _, token = authorization.strip().partition(" ")
    token = token.strip()
    if scheme.lower() != "bearer" or not token or " " in token:
        refuse(Code.TOKEN_MALFORMED, "malformed Authorization header: expected Bearer <token>")
    if len(token) > MAX_TOKEN_CHARS:
        refuse(Code.TOKEN_MALFORMED, f"the token is too long: expected at most {MAX_TOKEN_CHARS} characters, found {len(token)}")
    return token


def issue_token(settings: Settings, sub: str, ttl_sec: float, *, tenant: str = "") -> str:
    """Issues a token that this server accepts. `tenant` is the value of SLESS_TENANT_CLAIM; default: `sub`. Raises ConfigError in modes
    with external tokens, ValueError for an invalid `sub` or `tenant`."""
    if settings.auth_mode not in ("local", "secret"):
        raise ConfigError(f"SLESS_AUTH_MODE={settings.auth_mode}: tokens come from your identity provider; sless cannot issue them")
    tenant = tenant or sub
    for name, value in (("sub", sub), (settings.tenant_claim, tenant)):
        if not value.strip() or len(value.encode()) > MAX_SUB_BYTES:
            raise ValueError(f"{name}: expected 1 to {MAX_SUB_BYTES} bytes")
    if settings.tenant_claim == "sub" and tenant != sub:
        raise ValueError("tenant: expected the sub itself, as SLESS_TENANT_CLAIM is sub")
    now = int(time.time())
    claims: dict[str, Any] = {settings.tenant_claim: tenant, "sub": sub, "iat": now, "exp": now + int(ttl_sec), "jti": ids.new_id()}
    claims |= {"aud": settings.jwt_audience} if settings.jwt_audience else {}
    claims |= {"iss": settings.jwt_issuer} if settings.jwt_issuer else {}
    from sless.tokens.signatures import sign

    return sign(claims, shared_secret(settings))


def key_source(settings: Settings) -> VerificationKeys:
    match settings.auth_mode:
        case "local" | "secret":
            return FixedKey(VerificationKey(shared_secret(settings), ("HS256",)))
        case "jwks":
            if not settings.jwks_url.startswith(("https://", "http://")):
                raise ConfigError(f"SLESS_JWKS_URL: expected an http(s) URL with SLESS_AUTH_MODE=jwks, found {settings.jwks_url!r}")
            from sless.tokens.public_keys import KeySet

            return KeySet(settings.jwks_url)
        case "public-key":
            from sless.tokens.public_keys import key_of_pem

            return FixedKey(key_of_pem(settings.jwt_public_key))
        case "perimeter":
            _log.warning(
                "SLESS_AUTH_MODE=perimeter: token signatures are NOT checked; anyone who can reach this port can act as any tenant"
            )
            return FixedKey(VerificationKey(None, ()))
    raise ConfigError(f"SLESS_AUTH_MODE: expected local, secret, jwks, public-key or perimeter, found {settings.auth_mode!r}")


def _short(text: str) -> str:
    return text if len(text) <= 64 else text[:64] + "…"
