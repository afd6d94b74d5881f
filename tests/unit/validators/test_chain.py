"""The chain: the modes of its checks, and the syntax check."""

from pathlib import Path

import pytest

from sless import metrics
from sless.config import Settings
from sless.domain.code_check import CodeToCheck, Finding, Opinion
from sless.errors import Code, SlessError
from sless.validators import make_validator
from sless.validators.chain import MAX_WARNINGS, Chain, ChainLink
from tests.unit.validators.test_llm import Verdicts

MISTAKES = (Finding(path="handler.py", line=3, message="invalid syntax"), Finding(path="lib/x.py", line=None, message="a null byte"))


def code(*mistakes: Finding) -> CodeToCheck:
    return CodeToCheck(path=Path("none.zip"), sha256="a" * 64, language="go", namespace="ns", name="hello", mistakes=mistakes)


class Saying:
    """ports.CodeCheck that always has this opinion."""

    def __init__(self, name: str, opinion: Opinion) -> None:
        self.name, self._opinion = name, opinion

    def opinion_of(self, code: CodeToCheck) -> Opinion:
        return self._opinion


def counted(result: str) -> float:
    return metrics.REGISTRY.get_sample_value("sless_code_checks_total", {"check": "syntax", "result": result}) or 0.0


def test_syntax_errors_are_refused_whatever_the_settings(tmp_path: Path) -> None:
    verdicts = Verdicts()
    verdicts.allowed.add("a" * 64)
    validator = make_validator(Settings(data_dir=tmp_path, rules_mode="off", llm_mode="off"), verdicts)
    passed, refused = counted("passed"), counted("refused")
    with pytest.raises(SlessError) as caught:
        validator.validate(code(*MISTAKES))
    error = caught.value
    assert error.code is Code.INVALID_CODE and error.message == "handler.py: line 3: invalid syntax (and 1 more)"
    assert [(item.field, item.message) for item in error.details] == [
        ("handler.py", "line 3: invalid syntax"),
        ("lib/x.py", "a null byte"),
    ]
    assert validator.validate(code()) == ()
    assert (counted("passed"), counted("refused")) == (passed + 1, refused + 1)


def test_unchecked_files_are_named_before_many_findings() -> None:
    found = Opinion(is_unsafe=True, findings=MISTAKES * MAX_WARNINGS, skipped=("files over 512 KB: big.py",))
    links = [ChainLink(Saying("rules", found), "warn"), ChainLink(Saying("llm", Opinion(failure="it is down")), "warn")]
    warnings = Chain(links, Verdicts()).validate(code())
    assert warnings[:3] == (
        "not checked (rules): files over 512 KB: big.py",
        "not checked (llm): it is down",
        "rules: handler.py:3: invalid syntax",
    )
    assert len(warnings) == MAX_WARNINGS


def test_a_check_that_skips_files_passes_in_part() -> None:
    before = counted("partial")
    chain = Chain([ChainLink(Saying("syntax", Opinion(skipped=("files over 2 MB: big.py",))), "block")], Verdicts())
    assert chain.validate(code()) == ("not checked (syntax): files over 2 MB: big.py",)
    assert counted("partial") == before + 1
