"""README.ru.md matches README.md: the same commands, settings, sections and links."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
RUSSIAN = (ROOT / "README.ru.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`]+)`")


def prose(text: str) -> str:
    return _BLOCK.sub("", text)


def commands(text: str) -> set[str]:
    """Commands within sentences, without line breaks."""
    spans = (" ".join(span.split()) for span in _SPAN.findall(prose(text)))
    return {span for span in spans if re.match(r"(sless|make|kubectl|helm|install|alias|useradd|eval|python|pip) ", span)}


def test_every_block_of_code_is_the_same() -> None:
    assert _BLOCK.findall(RUSSIAN) == _BLOCK.findall(ENGLISH)


def test_every_command_in_a_sentence_is_there() -> None:
    assert commands(RUSSIAN) == commands(ENGLISH)


def test_the_same_sections() -> None:
    def levels(text: str) -> list[str]:
        return re.findall(r"^#+(?= )", prose(text), re.MULTILINE)

    assert levels(RUSSIAN) == levels(ENGLISH)


def test_every_setting_is_named() -> None:
    """Except for the table of limits, to which the Russian text refers."""
    table = re.compile(r"^\| limit \| default .*?\n\n", re.MULTILINE | re.DOTALL)

    def names(text: str) -> set[str]:
        return set(re.findall(r"SLESS_[A-Z0-9_*]+", prose(text)))

    assert names(RUSSIAN) == names(table.sub("", ENGLISH))


def test_every_link_to_a_file_leads_somewhere_and_is_in_both() -> None:
    def links(text: str) -> set[str]:
        return {target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", prose(text))} - {"README.md", "README.ru.md"}

    assert links(RUSSIAN) == links(ENGLISH)
    assert all((ROOT / target).exists() for target in links(RUSSIAN) if "://" not in target)


def test_every_paragraph_is_russian() -> None:
    for paragraph in prose(RUSSIAN).split("\n\n"):
        letters = re.sub(r"`[^`]*`|\[[^]]*\]\([^)]*\)|[\W\d_]", "", paragraph)
        assert not letters or re.search("[а-яё]", letters, re.IGNORECASE) or letters in ("sless", "Terraform", "Kubernetes"), paragraph
