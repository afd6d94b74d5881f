"""The rules of contract §1, with real keys and a real JWKS server."""

import base64
import hashlib
import hmac
import json
import logging
import stat
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from werkzeug import Request, Response

from sless.config import Settings
from sless.errors import Code, ConfigError, SlessError
from sless.tokens import TokenVerifier, issue_token
from sless.tokens.public_keys import KeySet
from tests.services.fake_http import serving
from tests.services.product import wait_until

SECRET = "s" * 64
SUB = "019cc268-6c6a-781e-8613-4bed4ec7cd20"


def make(claims: dict[str, Any] | None = None, key: Any = SECRET, algorithm: str = "HS256", **more: Any) -> str:
    claims = {"sub": SUB, "exp": int(time.time()) + 7200} | (claims or {})
    return "Bearer " + jwt.encode({name: value for name, value in claims.items() if value is not None}, key, algorithm, **more)


def secret_settings(**more: Any) -> Settings:
    return Settings(auth_mode="secret", jwt_secret=SECRET, **more)


def refusal(verifier: TokenVerifier, authorization: str | None) -> SlessError:
    with pytest.raises(SlessError) as caught:
        verifier.verify(authorization)
    assert caught.value.status == 401
    if authorization and len(authorization) > 20:
        assert authorization.split()[-1] not in str(caught.value)
        assert caught.value.__cause__ is None
    return caught.value


def test_caller_and_namespace_match_the_contract() -> None:
    caller = TokenVerifier(secret_settings()).verify(make())
    assert (caller.sub, caller.namespace, caller.operator) == (SUB, "sless-ffd1f598c169b0ae", False)
    assert caller.expires_at > time.time()
    caller.check("sless-ffd1f598c169b0ae")
    with pytest.raises(SlessError) as caught:
        caller.check("sless-0000000000000000")
    assert caught.value.code is Code.FORBIDDEN
    TokenVerifier(secret_settings(operator_subs=(SUB,))).verify(make()).check("anything")


def signed_by_hand(header: str, payload: str) -> str:
    def part(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()

    text = part(header) + "." + part(payload)
    return "Bearer " + text + "." + base64.urlsafe_b64encode(hmac.digest(SECRET.encode(), text.encode(), "sha256")).rstrip(b"=").decode()


HS = '{"alg":"HS256","typ":"JWT"}'


@pytest.mark.parametrize(
    ("authorization", "code"),
    [
        (None, Code.TOKEN_MISSING),
        ("", Code.TOKEN_MISSING),
        ("Basic YTpi", Code.TOKEN_MALFORMED),
        ("Bearer", Code.TOKEN_MALFORMED),
        ("Bearer a b", Code.TOKEN_MALFORMED),
        ("Bearer not-a-token-at-all-really", Code.TOKEN_MALFORMED),
        ("Bearer " + "x" * 20_000, Code.TOKEN_MALFORMED),
        ("Bearer \udcff.\udcff.\udcff", Code.TOKEN_MALFORMED),
        (make(key="another" * 10), Code.TOKEN_BAD_SIGNATURE),
        (make({"exp": int(time.time()) - 1}), Code.TOKEN_EXPIRED),
        (make({"exp": None}), Code.UNAUTHORIZED),
        (make({"exp": "soon"}), Code.TOKEN_MALFORMED),
        (signed_by_hand(HS, '{"sub":"a","exp":Infinity}'), Code.TOKEN_MALFORMED),
        (signed_by_hand(HS, '{"sub":"a","exp":' + "9" * 5000 + "}"), Code.TOKEN_MALFORMED),
        (signed_by_hand(HS, "[" * 5000), Code.TOKEN_MALFORMED),
        (signed_by_hand(HS, "[1]"), Code.TOKEN_MALFORMED),
        (signed_by_hand('{"alg":"HS256","crit":["b64"],"b64":false}', '{"sub":"a","exp":99999999999}'), Code.TOKEN_MALFORMED),
        (signed_by_hand(HS, '{"sub":"\\ud800","exp":99999999999}'), Code.TOKEN_MALFORMED),
        (make({"nbf": int(time.time()) + 3600}), Code.UNAUTHORIZED),
        (make({"sub": None}), Code.UNAUTHORIZED),
        (make({"sub": ""}), Code.UNAUTHORIZED),
        (make({"sub": "  "}), Code.UNAUTHORIZED),
        (make({"sub": 7}), Code.UNAUTHORIZED),
        (make({"sub": "é" * 513}), Code.UNAUTHORIZED),
        (make(key=None, algorithm="none"), Code.TOKEN_BAD_SIGNATURE),
        (make(algorithm="HS512"), Code.TOKEN_BAD_SIGNATURE),
    ],
)  # fmt: skip
def test_refused(authorization: str | None, code: Code) -> None:
    assert refusal(TokenVerifier(secret_settings()), authorization).code is code


def test_the_longest_sub_is_accepted() -> None:
    assert TokenVerifier(secret_settings()).verify(make({"sub": "é" * 512})).sub == "é" * 512


def test_audience_and_issuer_are_checked_only_when_configured() -> None:
    plain, strict = TokenVerifier(secret_settings()), TokenVerifier(secret_settings(jwt_audience="sless", jwt_issuer="https://id"))
    plain.verify(make({"aud": "other", "iss": "other"}))
    strict.verify(make({"aud": ["x", "sless"], "iss": "https://id"}))
    assert "(aud)" in refusal(strict, make({"aud": "other", "iss": "https://id"})).message
    assert "(iss)" in refusal(strict, make({"aud": "sless", "iss": "other"})).message
    assert "no aud" in refusal(strict, make({"iss": "https://id"})).message
    assert "no iss" in refusal(strict, make({"aud": "sless"})).message


def test_a_cached_token_expires() -> None:
    at = time.time()
    verifier = TokenVerifier(secret_settings(), clock=lambda: at)
    token = make({"exp": int(at) + 2})
    verifier.verify(token)
    at += 1
    assert verifier.verify(token).sub == SUB
    while time.time() < int(at) + 2.1:
        time.sleep(0.05)
    at = time.time()
    assert refusal(verifier, token).code is Code.TOKEN_EXPIRED


def test_verifying_again_uses_the_cache() -> None:
    key = rsa.generate_private_key(65537, 2048)
    verifier = TokenVerifier(Settings(auth_mode="public-key", jwt_public_key=pem_of(key)))
    token = make(key=key, algorithm="RS256")
    verifier.verify(token)
    decodes = []
    verifier._claims = lambda text: decodes.append(text)  # type: ignore[method-assign, assignment, return-value]
    assert verifier.verify(token).sub == SUB
    assert decodes == []


def test_the_token_cache_is_bounded() -> None:
    verifier = TokenVerifier(secret_settings(), remembered=5)
    for number in range(12):
        verifier.verify(make({"sub": str(number)}))
    assert len(verifier._verified) == 5


# --- local -----------------------------------------------------------------------------------------------------------------------------


def test_the_local_secret_is_created_once_and_private(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(auth_mode="local", data_dir=tmp_path / "new")
    verifier = TokenVerifier(settings)
    path = tmp_path / "new" / "jwt-secret"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    first = path.read_bytes()
    assert verifier.verify("Bearer " + issue_token(settings, SUB, 60)).sub == SUB
    assert TokenVerifier(settings).verify("Bearer " + issue_token(settings, "b", 60)).sub == "b"
    assert path.read_bytes() == first
    assert [entry.name for entry in path.parent.iterdir()] == ["jwt-secret"]
    path.chmod(0o644)
    TokenVerifier(settings)
    assert "0600" in caplog.text


def test_concurrent_callers_create_one_local_secret(tmp_path: Path) -> None:
    settings = Settings(auth_mode="local", data_dir=tmp_path)
    tokens: list[str] = []
    threads = [threading.Thread(target=lambda: tokens.append(issue_token(settings, SUB, 60))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verifier = TokenVerifier(settings)
    assert {verifier.verify("Bearer " + token).sub for token in tokens} == {SUB} and len(tokens) == 8


def test_issue_token_carries_audience_and_expiry() -> None:
    settings = secret_settings(jwt_audience="a", jwt_issuer="i")
    TokenVerifier(settings).verify("Bearer " + issue_token(settings, SUB, 60))
    assert refusal(TokenVerifier(settings), "Bearer " + issue_token(settings, SUB, -1)).code is Code.TOKEN_EXPIRED
    with pytest.raises(ValueError):
        issue_token(settings, " ", 60)
    with pytest.raises(ConfigError, match="identity provider"):
        issue_token(Settings(auth_mode="jwks", jwks_url="http://x"), SUB, 60)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(auth_mode="secret", jwt_secret="s" * 31),
        Settings(auth_mode="secret"),
        Settings(auth_mode="jwks"),
        Settings(auth_mode="public-key", jwt_public_key="not pem"),
        Settings(auth_mode="public-key"),
    ],
)
def test_a_mode_without_its_key_is_refused(settings: Settings) -> None:
    with pytest.raises(ConfigError):
        TokenVerifier(settings)


# --- perimeter -------------------------------------------------------------------------------------------------------------------------


def test_perimeter_mode_checks_all_but_the_signature_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        verifier = TokenVerifier(Settings(auth_mode="perimeter", jwt_audience="a"))
    assert "NOT checked" in caplog.text
    key = rsa.generate_private_key(65537, 2048)
    assert verifier.verify(make({"aud": "a"}, key=key, algorithm="RS256")).sub == SUB
    assert refusal(verifier, make({"aud": "a", "exp": int(time.time()) - 1})).code is Code.TOKEN_EXPIRED
    assert "no exp" in refusal(verifier, make({"aud": "a", "exp": None})).message
    assert "nbf" in refusal(verifier, make({"aud": "a", "nbf": int(time.time()) + 99})).message
    assert "(aud)" in refusal(verifier, make({"aud": "b"})).message
    assert refusal(verifier, make({"aud": "a"}, key=None, algorithm="none")).code is Code.TOKEN_BAD_SIGNATURE
    assert refusal(verifier, make({"aud": "a", "sub": ""})).code is Code.UNAUTHORIZED


# --- public keys -----------------------------------------------------------------------------------------------------------------------


def pem_of(key: Any) -> str:
    return str(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())


def hmac_with_pem(pem: str) -> str:
    """Sign with the public key's text as HMAC secret (algorithm confusion), by hand since PyJWT refuses to."""

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    text = part(b'{"alg":"HS256","typ":"JWT"}') + b"." + part(json.dumps({"sub": SUB, "exp": int(time.time()) + 60}).encode())
    return "Bearer " + (text + b"." + part(hmac.new(pem.encode(), text, hashlib.sha256).digest())).decode()


def test_public_key_modes_refuse_algorithm_confusion() -> None:
    for key, algorithm in ((rsa.generate_private_key(65537, 2048), "RS256"), (ec.generate_private_key(ec.SECP256R1()), "ES256")):
        verifier = TokenVerifier(Settings(auth_mode="public-key", jwt_public_key=pem_of(key)))
        assert verifier.verify(make(key=key, algorithm=algorithm)).sub == SUB
        assert refusal(verifier, hmac_with_pem(pem_of(key))).code is Code.TOKEN_BAD_SIGNATURE
        assert refusal(verifier, make()).code is Code.TOKEN_BAD_SIGNATURE
    assert refusal(verifier, make(key=rsa.generate_private_key(65537, 2048), algorithm="RS256")).code is Code.TOKEN_BAD_SIGNATURE


class KeySetServer:
    url = ""

    def __init__(self) -> None:
        self.keys: list[dict[str, Any]] = []
        self.fetches = 0
        self.broken = False
        self.answers = threading.Event()
        self.answers.set()

    def answer(self, request: Request) -> Response:
        self.fetches += 1
        self.answers.wait(10)
        return Response("oops" if self.broken else json.dumps({"keys": self.keys}))

    def add(self, kid: str, key: Any, **more: Any) -> None:
        algorithm = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
        self.keys.append(json.loads(algorithm.to_jwk(key.public_key())) | {"kid": kid} | more)


@pytest.fixture
def key_set() -> Iterator[KeySetServer]:
    key_set = KeySetServer()
    with serving(key_set.answer) as url:
        key_set.url = url + "/keys"
        yield key_set


def test_the_key_set_is_cached_and_refetched_for_an_unknown_kid(key_set: KeySetServer) -> None:
    first, second = rsa.generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    key_set.add("one", first)
    at = 0.0
    verifier = TokenVerifier(Settings(auth_mode="jwks", jwks_url=key_set.url))
    verifier._keys = KeySet(key_set.url, clock=lambda: at)
    for sub in "abc":
        assert verifier.verify(make({"sub": sub}, first, "RS256", headers={"kid": "one"})).sub == sub
    assert verifier.verify(make(None, first, "RS256")).sub == SUB  # the only key, so no kid is needed
    assert key_set.fetches == 1
    key_set.add("two", second)
    for number in range(5):  # within the pause, so no further fetches
        assert refusal(verifier, make({"sub": str(number)}, second, "ES256", headers={"kid": "two"})).code is Code.TOKEN_BAD_SIGNATURE
    assert key_set.fetches == 1
    at += 11
    assert verifier.verify(make(None, second, "ES256", headers={"kid": "two"})).sub == SUB
    assert key_set.fetches == 2
    assert refusal(verifier, make({"sub": "x"}, first, "RS256", headers={"kid": "two"})).code is Code.TOKEN_BAD_SIGNATURE
    key_set.broken = True
    at += 1000
    assert verifier.verify(make({"sub": "y"}, first, "RS256", headers={"kid": "one"})).sub == "y"
    assert key_set.fetches == 3


@pytest.mark.parametrize("later_sec", [11, 1000], ids=["a made-up kid", "a stale set"])
def test_known_keys_do_not_wait_for_a_fetch(key_set: KeySetServer, later_sec: float) -> None:
    key = rsa.generate_private_key(65537, 2048)
    key_set.add("one", key)
    at = 0.0
    verifier = TokenVerifier(Settings(auth_mode="jwks", jwks_url=key_set.url))
    verifier._keys = KeySet(key_set.url, clock=lambda: at)
    verifier.verify(make({"sub": "a"}, key, "RS256", headers={"kid": "one"}))
    key_set.answers.clear()
    at += later_sec
    stranger = threading.Thread(target=refusal, args=(verifier, make({"sub": "x"}, key, "RS256", headers={"kid": "made-up"})))
    stranger.start()
    wait_until(lambda: key_set.fetches == 2, "the key set is asked")
    began = time.monotonic()
    assert verifier.verify(make({"sub": "b"}, key, "RS256", headers={"kid": "one"})).sub == "b"
    assert time.monotonic() - began < 2
    key_set.answers.set()
    stranger.join(10)


def test_many_unknown_keys_leave_threads_for_known_ones(key_set: KeySetServer) -> None:
    """The server verifies tokens in four threads: twenty tokens with made-up keys would hold all of them while the key set is slow."""
    key = rsa.generate_private_key(65537, 2048)
    key_set.add("one", key)
    at = 0.0
    verifier = TokenVerifier(Settings(auth_mode="jwks", jwks_url=key_set.url))
    verifier._keys = KeySet(key_set.url, clock=lambda: at)
    verifier.verify(make({"sub": "a"}, key, "RS256", headers={"kid": "one"}))
    key_set.answers.clear()
    at += 11

    def code_of(token: str) -> Code:
        with pytest.raises(SlessError) as caught:
            verifier.verify(token)
        return caught.value.code

    strangers = [make({"sub": "x"}, key, "RS256", headers={"kid": f"made-up-{number}"}) for number in range(20)]
    with ThreadPoolExecutor(4) as threads:
        codes = threads.map(code_of, strangers)
        good = threads.submit(verifier.verify, make({"sub": "b"}, key, "RS256", headers={"kid": "one"}))
        try:
            assert good.result(4).sub == "b"
        finally:
            key_set.answers.set()
        found = Counter(codes)
    assert found[Code.UNAVAILABLE] >= 18 and found.total() == 20


def test_keys_that_cannot_verify_are_ignored(key_set: KeySetServer) -> None:
    encoded = base64.urlsafe_b64encode(SECRET.encode()).decode().rstrip("=")
    key_set.keys += [{"kty": "oct", "kid": "sym", "k": encoded, "alg": "HS256"}, {"kty": "RSA", "kid": "bad"}, "text"]  # type: ignore[list-item]
    key = rsa.generate_private_key(65537, 2048)
    key_set.add("enc", key, use="enc")
    verifier = TokenVerifier(Settings(auth_mode="jwks", jwks_url=key_set.url))
    assert refusal(verifier, make(headers={"kid": "sym"})).code is Code.TOKEN_BAD_SIGNATURE
    assert refusal(verifier, make(None, key, "RS256", headers={"kid": "enc"})).code is Code.TOKEN_BAD_SIGNATURE


def test_a_key_set_that_was_never_fetched_is_503_not_401(key_set: KeySetServer) -> None:
    key_set.broken = True
    verifier = TokenVerifier(Settings(auth_mode="jwks", jwks_url=key_set.url))
    with pytest.raises(SlessError) as caught:
        verifier.verify(make(None, rsa.generate_private_key(65537, 2048), "RS256", headers={"kid": "a"}))
    assert caught.value.code is Code.UNAVAILABLE and caught.value.retry_after_sec
