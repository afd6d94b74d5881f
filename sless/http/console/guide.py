"""The guide for writing handlers, and the examples that ship with sless."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from flask import Response

from sless import assets
from sless.errors import NotFound
from sless.http.console.create import STARTERS
from sless.http.console.request import Page, PageRequest
from sless.http.console.texts import abouts_of
from sless.http.markdown import html_of

_README = re.compile(r"^(?:\.\./)?([\w.-]+)/README\.md$")
_HEADING = re.compile(r"\A#[^\n]*\n+")
_RUNTIMES = {".py": "python3.11", ".mjs": "nodejs20", ".js": "nodejs20", ".go": "go1.23"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """`about` is the first paragraph of its README, "" without one. `starter`: a new function can start from it."""

    name: str
    about: str
    text: str
    runtimes: tuple[str, ...]
    starter: bool


def guide(req: PageRequest) -> Response:
    text = _HEADING.sub("", (assets.examples_dir() / "README.md").read_text(encoding="utf-8"))
    return req.page("guide.html", title=req.text("guide.title"), body=html_of(text, _linker(req)), nav="guide", example=None)


def examples(req: PageRequest) -> Response:
    abouts = abouts_of(req.texts.language)
    shown = [replace(item, about=abouts.get(item.name, item.about)) for item in all_examples()]
    return req.page("examples.html", title=req.text("examples.title"), examples=shown)


def example(req: PageRequest) -> Response:
    found = next((item for item in all_examples() if item.name == req.args["example"]), None)
    if found is None:
        raise NotFound("example", req.args["example"][:80])
    body = html_of(found.text, _linker(req))
    return req.page("guide.html", title=found.name, body=body, nav="examples", example=found)


def all_examples() -> list[Example]:
    """All examples, starters first."""
    starters = [name for names in STARTERS.values() for name in names]
    folders = sorted(path for path in assets.examples_dir().iterdir() if path.is_dir() and not path.name.startswith(("_", ".")))
    found = []
    for folder in folders:
        readme = folder / "README.md"
        text = _HEADING.sub("", readme.read_text(encoding="utf-8")) if readme.is_file() else ""
        suffixes = {path.suffix for path in folder.rglob("*") if path.is_file() and "test" not in path.name}
        runtimes = tuple(sorted({_RUNTIMES[suffix] for suffix in suffixes if suffix in _RUNTIMES}, reverse=True))
        about = text.split("\n\n")[0].replace("\n", " ").replace("`", "").strip()
        found.append(Example(name=folder.name, about=about, text=text, runtimes=runtimes, starter=folder.name in starters))
    return sorted(found, key=lambda item: (not item.starter, not item.name.startswith("hello"), item.name))


def _linker(req: PageRequest) -> Callable[[str], str]:
    def link_of(target: str) -> str:
        found = _README.match(target)
        return f"{req.base}/examples/{found[1]}" if found else f"{req.base}/guide" if target == "../README.md" else target

    return link_of


PAGES = (
    Page(rule="/funcs/<ns>/guide", view=guide),
    Page(rule="/funcs/<ns>/examples", view=examples),
    Page(rule="/funcs/<ns>/examples/<example>", view=example),
)
