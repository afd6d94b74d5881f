"""The page to create a function, service or job, with an example as its first code."""

import functools
import re
from typing import Any

from flask import Response, request

from sless import assets
from sless.domain.model import Kind
from sless.domain.runtimes import RUNTIMES
from sless.http.console.request import Page, PageRequest
from sless.http.console.texts import abouts_of

STARTERS = {
    "python3.11": ("hello-python", "simple-python", "report-python"),
    "nodejs20": ("hello-node", "simple-node", "sse-node", "queue-node"),
    "go1.23": ("hello-go",),
}
"""Examples that only need a server; the first one of a runtime is the default."""
_NOT_SHOWN = (".tf", ".pyc")
_HEADING = re.compile(r"(?:^|\n)#[^\n]*\n+")


def create(req: PageRequest) -> Response:
    """`?example=` chooses a starter."""
    wanted = request.args.get("example", "")
    runtime = next((name for name, examples in STARTERS.items() if wanted in examples), next(iter(STARTERS)))
    abouts = abouts_of(req.texts.language)
    starters = {
        name: [found | {"about": abouts.get(found["name"], found["about"])} for found in map(starter_of, examples)]
        for name, examples in STARTERS.items()
    }
    return req.page(
        "create.html",
        title=req.text("create.title"),
        module="create",
        kinds=list(Kind),
        runtimes=list(RUNTIMES),
        chosen={"runtime": runtime},
        starters={"chosen": wanted, "runtimes": starters},
    )


@functools.cache
def starter_of(example: str) -> dict[str, Any]:
    """{"name", "about", "files"}, with the files in the format of an upload as JSON."""
    folder = assets.example_dir(example)
    paths = [path for path in sorted(folder.iterdir()) if path.is_file() and path.suffix not in _NOT_SHOWN]
    files = {path.name: path.read_text(encoding="utf-8") for path in paths}
    readme = _HEADING.sub("", files.pop("README.md", ""), count=1)
    return {"name": example, "about": readme.strip().split("\n\n")[0].replace("\n", " "), "files": files}


PAGES = (Page(rule="/funcs/<ns>/new", view=create),)
