"""Texts in the languages of the console: one JSON file per language, grouped by page. A test compares the languages."""

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LANGUAGES = {"en": "English", "ru": "Русский"}
_FOLDER = Path(__file__).parent / "languages"


@dataclass(frozen=True, slots=True)
class Texts:
    language: str
    groups: dict[str, dict[str, Any]]

    def text(self, key: str, **values: object) -> str:
        """The text for `group.name` with `{placeholders}` filled in. Raises KeyError for unknown keys."""
        group, _, name = key.partition(".")
        found = self.groups[group][name]
        return str(found).format(**values) if values else str(found)

    def count(self, key: str, number: int, **values: object) -> str:
        """The form of a text that fits the number; the dictionary lists all forms."""
        group, _, name = key.partition(".")
        forms = self.groups[group][name]
        return str(forms[form_of(self.language, number)]).format(n=number, **values)

    def find(self, key: str, default: str) -> str:
        group, _, name = key.partition(".")
        return str(self.groups.get(group, {}).get(name, default))


@functools.cache
def texts_of(language: str) -> Texts:
    return Texts(language, json.loads((_FOLDER / f"{language}.json").read_text(encoding="utf-8")))


@functools.cache
def abouts_of(language: str) -> dict[str, str]:
    """Descriptions of the examples by name; {} in English, the language of their READMEs."""
    path = _FOLDER / f"{language}_examples.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}


def form_of(language: str, number: int) -> int:
    """Index of the plural form: English has two, Russian three (1 функция, 2 функции, 5 функций)."""
    if language != "ru":
        return 0 if number == 1 else 1
    if number % 10 == 1 and number % 100 != 11:
        return 0
    return 1 if number % 10 in (2, 3, 4) and number % 100 not in (12, 13, 14) else 2
