"""Revoked tokens, for operators."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sless import clock, ids
from sless.domain.operators import RevokedToken, TimePlace
from sless.domain.validate import mistakes_of
from sless.errors import Detail, Invalid, SlessError
from sless.usecases.parts import UseCaseParts

KEPT = timedelta(days=400)
"""How long a token id stays revoked if it is unknown when the token expires."""

ReadClaims = Callable[[str], dict[str, Any]]
"""Returns the claims of a valid token. Raises a 401."""


class Revocations:
    def __init__(self, parts: UseCaseParts, changed: Callable[[], None] = lambda: None) -> None:
        self._store = parts.store
        self._settings = parts.settings
        self._changed = changed

    def list(self, limit: int | None = None, after: TimePlace | None = None) -> list[RevokedToken]:
        """Newest first."""
        return self._store.revocations.list(limit, after)

    def revoke(self, body: Any, read_claims: ReadClaims) -> RevokedToken:
        """`body` has the token itself, or its `jti`. Takes effect in this replica at once, in others within a second. Raises Invalid."""
        if mistakes := mistakes_of("TokenRevocation", body):
            raise Invalid(*mistakes)
        token_id, claims = body.get("jti"), {}
        if body.get("token"):
            claims = _claims_of(body["token"], read_claims)
            token_id = claims.get("jti")
        if not isinstance(token_id, str) or not token_id:
            raise Invalid(Detail(field="token", message="expected a token that has a jti, or the jti itself"))
        if "\0" in token_id:
            raise Invalid(Detail(field="jti", message="expected text without NUL characters"))
        now = clock.now()
        expires_at = datetime.fromtimestamp(claims["exp"], UTC) if "exp" in claims else now + KEPT
        revoked = RevokedToken(
            token_id=token_id, expires_at=expires_at, revoked_at=now, sub=str(claims.get("sub", "")), reason=body.get("reason") or ""
        )
        tenant = claims.get(self._settings.tenant_claim)
        self._store.revocations.add(revoked, ids.namespace_of(tenant) if isinstance(tenant, str) else "")
        self._changed()
        return revoked


def _claims_of(token: str, read_claims: ReadClaims) -> dict[str, Any]:
    try:
        return read_claims(token)
    except SlessError as error:
        raise Invalid(Detail(field="token", message=f"expected a valid token: {error.message}")) from error
