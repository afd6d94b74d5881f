"""Every snippet of examples/README.md, run by its runtime and called as the guide shows."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.conformance.go_programs import GO
from tests.conformance.harness import require_runtime, running

GUIDE = Path(__file__).parents[2] / "examples" / "README.md"
RUNTIME_OF = {"python": "python3.11", "js": "nodejs20", "go": GO}
FILE_OF = {"python": "handler.py", "js": "handler.mjs", "go": "handler/handler.go"}
SNIPPET = re.compile(
    r"^## (?P<title>[^\n]+)\n(?:(?!^## ).)*?^```(?P<language>python|js|go)\n(?P<code>.*?)^```\n"
    r"(?:\n```text (?P<file>\S+)\n(?P<content>.*?)^```\n)?\n```console\n(?P<console>.*?)^```",
    re.MULTILINE | re.DOTALL,
)
SNIPPETS = {match["title"]: match for match in SNIPPET.finditer(GUIDE.read_text(encoding="utf-8"))}


def test_every_snippet_is_found():
    text = GUIDE.read_text(encoding="utf-8")
    assert len(SNIPPETS) == len(re.findall(r"^```(?:python|js|go)$", text, re.MULTILINE)) == text.count("```console") >= 9


@pytest.mark.parametrize("title", SNIPPETS)
def test_a_snippet_does_what_the_guide_shows(title: str, tmp_path: Path):
    snippet = SNIPPETS[title]
    runtime = RUNTIME_OF[snippet["language"]]
    require_runtime(runtime)
    handler = tmp_path / FILE_OF[snippet["language"]]
    handler.parent.mkdir(exist_ok=True)
    handler.write_text(snippet["code"], encoding="utf-8")
    if snippet["file"]:
        (tmp_path / snippet["file"]).write_text(snippet["content"], encoding="utf-8")
    with running(runtime, "handler.handle", {"SLESS_CODE_DIR": str(tmp_path)}) as process:
        for command, expected in re.findall(r"^\$ ([^\n]+)\n((?:(?!\$ )[^\n]*\n)*)", snippet["console"], re.MULTILINE):
            script = f'curl() {{ command curl --unix-socket {process.address} "$@"; }}\nURL=http://localhost\n{command}'
            shown = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=30, check=True)
            assert shown.stdout.rstrip("\n") == expected.rstrip("\n"), command
