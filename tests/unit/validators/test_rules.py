"""bandit's rules on uploaded Python code, in their child process."""

from dataclasses import replace
from pathlib import Path

import pytest

from sless.domain.code_check import Finding
from sless.validators.rules import RulesValidator
from tests.unit.validators.test_llm import code_of

# Copied from the child process, whose module imports bandit and so cannot be imported here.
MAX_FILES = 500
MAX_FILE_BYTES = 512 * 1024
SHELL = "import subprocess\n\ndef handle(event):\n    subprocess.call(event['x'], shell=True){}\n"


def check(tmp_path: Path, files: dict[str, str], *, blocks: bool = False, language: str = "python") -> tuple[Finding, ...]:
    code = code_of(tmp_path, files)
    found = RulesValidator(blocks=blocks).opinion_of(replace(code, language=language))
    assert not found.failure
    assert found.is_unsafe == bool(found.findings)
    return found.findings


def test_only_findings_of_high_severity_in_the_users_files_count(tmp_path: Path) -> None:
    files = {
        "handler.py": SHELL.format(""), "pkg/quiet.py": "exec('1')\nassert True\n", "site-packages/dep.py": SHELL.format(""),
        "notes.txt": SHELL.format(""),
    }  # fmt: skip
    (found,) = check(tmp_path, files)
    assert (found.path, found.line) == ("handler.py", 4) and "shell=True" in found.message and "B602" in found.message


@pytest.mark.parametrize(("blocks", "number"), [(False, 0), (True, 1)])
def test_a_comment_silences_a_finding_unless_rules_block(tmp_path: Path, blocks: bool, number: int) -> None:
    assert len(check(tmp_path, {"handler.py": SHELL.format("  # nosec")}, blocks=blocks)) == number


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"big.py": "#" * (MAX_FILE_BYTES + 1), "handler.py": "x = 1\n"}, "files over 512 KB: big.py"),
        ({f"p/m{number:03}.py": "" for number in range(MAX_FILES + 4)}, "more than 500 files: p/m500.py, p/m501.py, p/m502.py and 1 more"),
        ({"vendor/x.py": SHELL.format(""), "handler.py": "x = 1\n"}, "installed packages: vendor/x.py"),
        ({"a.py": SHELL.format(""), "x-1.dist-info/RECORD": "a.py,,\n"}, "installed packages: a.py"),
        ({"deep.py": "x" + ".y" * 20_000}, "files that bandit cannot read: deep.py"),
        ({"handler.py": "x = 1\n", "big.txt": "x" * (MAX_FILE_BYTES + 1)}, None),
    ],
    ids=["large", "many", "vendored", "claimed as installed", "deep", "nothing"],
)  # fmt: skip
def test_files_that_are_skipped_are_named(tmp_path: Path, files: dict[str, str], expected: str | None) -> None:
    opinion = RulesValidator().opinion_of(code_of(tmp_path, files))
    assert not opinion.failure and opinion.skipped == ((expected,) if expected else ())


def test_other_languages_have_no_rules(tmp_path: Path) -> None:
    assert check(tmp_path, {"handler.py": SHELL.format("")}, language="go") == ()


def test_code_that_the_child_cannot_read_is_reported_as_unchecked(tmp_path: Path) -> None:
    code = code_of(tmp_path)
    code.path.write_bytes(b"no zip")
    opinion = RulesValidator().opinion_of(code)
    assert "could not be read" in opinion.failure and not opinion.is_unsafe
