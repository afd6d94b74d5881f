"""Renders the guide and the examples' texts, which are Markdown of this repository, as HTML. HTML in them appears as text."""

import re
from collections.abc import Callable

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

_renderer = MarkdownIt("commonmark", {"html": False}).enable("table")


def html_of(text: str, link_of: Callable[[str], str] = lambda target: target) -> Markup:
    """Headings get ids as on code hosts (`#errors`); `link_of` maps targets of links."""
    tokens = _renderer.parse(text)
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            token.attrSet("id", slug_of(following.content))
        for child in token.children or ():
            _map_link(child, link_of)
        if token.type == "fence":
            token.attrSet("tabindex", "0")
    return Markup(_renderer.renderer.render(tokens, _renderer.options, {}))


def slug_of(heading: str) -> str:
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.lower()).strip())


def _map_link(token: Token, link_of: Callable[[str], str]) -> None:
    target = token.attrGet("href")
    if token.type == "link_open" and isinstance(target, str):
        token.attrSet("href", link_of(target))
