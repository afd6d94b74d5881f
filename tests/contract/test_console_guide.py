"""The guide page: the text of examples/README.md."""

import re

from tests.contract.rest_harness import Rest

PAGE = {"Accept": "text/html"}


def test_the_contents_list_names_every_chapter(rest: Rest) -> None:
    text = rest.get(f"/funcs/{rest.namespace}/guide", headers=PAGE).text
    chapters = re.findall('<h2 id="([^"]+)"', text)
    contents = text[: text.index("<h2")]
    items = re.findall(r'<li><a href="([^"]+)">[^<]+</a></li>', contents)
    assert len(chapters) > 5 and [item for item in items if item.startswith("#")] == [f"#{chapter}" for chapter in chapters]
    assert f"/funcs/{rest.namespace}/examples/lambda-python" in items
