"""Signed tokens, by PyJWT. Imported for the first token: loading it takes 5 % of the time of a server's imports."""

from collections.abc import Mapping
from typing import Any

import jwt

from sless.config import Settings
from sless.errors import Code, SlessError
from sless.tokens.keys import VerificationKey, VerificationKeys, refuse


def claims_of(token: str, keys: VerificationKeys, settings: Settings) -> dict[str, Any]:
    """The claims of a token with valid signature and times. Raises a 401."""
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        refuse(Code.TOKEN_MALFORMED, "the token is not a JWT")
    if str(header.get("alg", "none")).lower() == "none":
        refuse(Code.TOKEN_BAD_SIGNATURE, "the token is not signed (alg none)")
    key = keys.verification_key_of(header)
    audience, issuer = settings.jwt_audience or None, settings.jwt_issuer or None
    signed = key.key is not None
    options: Any = dict.fromkeys(("verify_iat", "verify_sub", "verify_jti"), False) | {
        "require": ["exp"],
        "verify_signature": signed,
        "verify_exp": True,
        "verify_nbf": True,
        "verify_aud": audience is not None,
        "verify_iss": issuer is not None,
    }
    algorithms = list(key.algorithms) if signed else None
    try:
        return jwt.decode(token, key.key or "", algorithms=algorithms, options=options, audience=audience, issuer=issuer)
    except (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError) as error:
        # `from None`: the library's message may quote the token.
        raise _refusal_of(error, key) from None


def sign(claims: Mapping[str, Any], secret: bytes) -> str:
    return jwt.encode(dict(claims), secret, algorithm="HS256")


def _refusal_of(error: Exception, key: VerificationKey) -> SlessError:
    """The 401 for an exception of PyJWT."""
    match error:
        case jwt.ExpiredSignatureError():
            return SlessError(Code.TOKEN_EXPIRED, "the token has expired")
        case jwt.MissingRequiredClaimError():
            return SlessError(Code.UNAUTHORIZED, f"the token has no {error.claim}, which is required")
        case jwt.ImmatureSignatureError():
            return SlessError(Code.UNAUTHORIZED, "the token is not valid yet (nbf)")
        case jwt.InvalidAudienceError():
            return SlessError(Code.UNAUTHORIZED, "the token is for another audience (aud)")
        case jwt.InvalidIssuerError():
            return SlessError(Code.UNAUTHORIZED, "the token is from another issuer (iss)")
        case jwt.InvalidSignatureError():
            return SlessError(Code.TOKEN_BAD_SIGNATURE, "the signature of the token is invalid")
        case jwt.InvalidAlgorithmError() | jwt.InvalidKeyError():
            expected = " or ".join(key.algorithms)
            return SlessError(Code.TOKEN_BAD_SIGNATURE, f"the alg of the token does not match the key; expected {expected}")
    return SlessError(Code.TOKEN_MALFORMED, "the token is malformed: its parts are not those of a JWT")
