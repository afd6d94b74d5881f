"""The guide page, which is the text of examples/README.md; the examples and the forms in Russian."""

import json
import re

from sless.domain.model import TriggerType
from sless.http.console.guide import all_examples
from sless.http.console.texts import abouts_of
from tests.contract.rest_harness import Rest

PAGE = {"Accept": "text/html"}
RUSSIAN = PAGE | {"Accept-Language": "ru"}
CYRILLIC = re.compile("[а-яё]", re.IGNORECASE)


def json_free(text: str) -> str:
    """The text of a page in which scripts' data is written as people read it."""
    return re.sub(r"\\u[0-9a-f]{4}", lambda found: str(json.loads(f'"{found[0]}"')), text)


def test_the_contents_list_names_every_chapter(rest: Rest) -> None:
    text = rest.get(f"/funcs/{rest.namespace}/guide", headers=PAGE).text
    chapters = re.findall('<h2 id="([^"]+)"', text)
    contents = text[: text.index("<h2")]
    items = re.findall(r'<li><a href="([^"]+)">[^<]+</a></li>', contents)
    assert len(chapters) > 5 and [item for item in items if item.startswith("#")] == [f"#{chapter}" for chapter in chapters]
    assert f"/funcs/{rest.namespace}/examples/lambda-python" in items


def test_what_examples_are_about_is_said_in_russian(rest: Rest) -> None:
    assert set(abouts_of("ru")) == {item.name for item in all_examples()}
    assert all(CYRILLIC.search(about) for about in abouts_of("ru").values())
    for path in ("examples", "new"):
        text = json_free(rest.get(f"/funcs/{rest.namespace}/{path}", headers=RUSSIAN).text)
        assert abouts_of("ru")["simple-python"][:30] in text and "A function with a dependency" not in text
    note = "только на английском"
    assert note in rest.get(f"/funcs/{rest.namespace}/guide", headers=RUSSIAN).text
    assert note not in rest.get(f"/funcs/{rest.namespace}/guide", headers=PAGE).text


def test_the_help_beside_the_fields_of_forms_is_in_russian(rest: Rest) -> None:
    rest.function("helped")
    forms = ["functions/helped/settings", "new", *(f"new-trigger?type={kind}" for kind in TriggerType)]
    for path in forms:
        text = rest.get(f"/funcs/{rest.namespace}/{path}", headers=RUSSIAN).text
        helps = re.findall(r'class="(?:help|muted small)"[^>]*>([^<]{12,})<', text) + re.findall(r"<legend>([^<]+)<", text)
        assert helps, path
        assert not [found for found in helps if not CYRILLIC.search(found)], path
