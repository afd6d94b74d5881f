"""Verdicts of the code checks in the store: `ports.VerdictStore`. The fake of the unit tests passes the same steps."""

from datetime import timedelta

from sless import clock
from sless.domain.code_check import AllowedCode, Finding, Opinion
from sless.domain.ports import VerdictStore
from sless.store import Store
from tests.unit.validators.test_llm import Verdicts

SHA256, OTHER = "a" * 64, "b" * 64
UNSAFE = Opinion(is_unsafe=True, reason="a miner", findings=(Finding(path="handler.py", line=3, message="a pool"),))


def keeps_verdicts(verdicts: VerdictStore) -> None:
    verdicts.keep(SHA256, "1 guard", UNSAFE)
    verdicts.keep(OTHER, "1 guard", Opinion())
    assert (verdicts.find(SHA256, "1 guard"), verdicts.find(OTHER, "1 guard")) == (UNSAFE, Opinion())
    assert verdicts.find(SHA256, "2 guard") is None and verdicts.find("c" * 64, "1 guard") is None


def test_verdicts_are_kept_by_content_and_prompt(store: Store) -> None:
    keeps_verdicts(Verdicts())
    keeps_verdicts(store.verdicts)


def test_two_replicas_may_keep_the_same_verdict(store: Store) -> None:
    for _ in range(2):
        store.verdicts.keep(SHA256, "1 guard", UNSAFE)
    assert store.verdicts.clean(clock.now() - timedelta(days=1)) == 0
    assert store.verdicts.clean(clock.now() + timedelta(seconds=1)) == 1 and store.verdicts.find(SHA256, "1 guard") is None


def test_operators_allow_code_by_its_content(store: Store) -> None:
    for reason in ("a demo", "checked by hand"):
        store.verdicts.allow(AllowedCode(sha256=SHA256, reason=reason))
    assert store.verdicts.list_allowed() == [AllowedCode(sha256=SHA256, reason="checked by hand")]
    assert store.verdicts.is_allowed(SHA256) and not store.verdicts.is_allowed(OTHER)
    assert [store.verdicts.disallow(SHA256), store.verdicts.disallow(SHA256)] == [True, False]
    assert not store.verdicts.is_allowed(SHA256)
