"""Code checks over REST: no code is built unless it passes them, whichever way it arrives."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from sless.code.syntax import MAX_SOURCE_BYTES
from sless.domain.model import VersionState
from sless.store import open_store
from tests.contract.rest_harness import OPERATOR, Rest

SHELL = "import subprocess\n\ndef handle(event):\n    subprocess.call(event['x'], shell=True)\n"
NODE = {"handler.js": "exports.handle = () => 1;\n", "handler.py": SHELL}


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[Rest]:
    store = open_store(f"sqlite:///{tmp_path}/x.db", durable=False)
    store.migrate()
    yield Rest(store, tmp_path / "data", rules_mode="block")
    store.close()


def test_code_of_another_language_is_checked_when_the_runtime_changes(rest: Rest) -> None:
    rest.function("hello", runtime="nodejs20")
    rest.built("hello", files=NODE)
    rest.waker.topics.clear()
    changed = rest.patch("functions/hello", {"runtime": "python3.11"})
    assert changed.status_code == 200, "the next upload may have code for it"
    version = rest.get("functions/hello/versions/2").json
    assert version["state"] == VersionState.FAILED and "refused by the check rules" in version["message"]
    assert "shell=True" in version["message"] and rest.get("functions/hello").json["active_version"] == 1
    for query in ("?version=2", ""):
        again = rest.post(f"functions/hello/rebuild{query}")
        assert again.status_code == (400 if query else 202), again.text  # without a number: the active one, which is for Node
    sha256 = rest.get("functions/hello/versions/2").json["sha256"]
    rest.put(f"/v1/operator/allowed-code/{sha256}", {}, sub=OPERATOR)
    rest.finish("hello", number=3)
    assert rest.post("functions/hello/rebuild?version=2").status_code == 202
    assert rest.get("functions/hello/versions/4").json["runtime"] == "python3.11"


def test_syntax_errors_are_those_of_the_new_language(rest: Rest) -> None:
    rest.function("hello", runtime="nodejs20")
    rest.built("hello", files=NODE | {"handler.py": "def handle(:\n"})
    rest.patch("functions/hello", {"runtime": "python3.11"})
    version = rest.get("functions/hello/versions/2").json
    assert version["state"] == VersionState.FAILED and version["message"].startswith("handler.py: line 1: ")


def test_another_entrypoint_of_the_same_language_is_not_checked_again(rest: Rest) -> None:
    rest.function("hello")
    rest.built("hello", files={"handler.py": "def handle(event): ...\n", "other.py": "def run(event): ...\n"})
    rest.patch("functions/hello", {"entrypoint": "other.run"})
    assert rest.get("functions/hello/versions/2").json["state"] == VersionState.QUEUED


def test_the_console_shows_warnings(rest: Rest) -> None:
    warning = Rest(rest.store, rest.settings.data_dir, rules_mode="warn")
    warning.function("hello")
    warning.built("hello", files={"handler.py": SHELL})
    (text,) = warning.get("functions/hello/versions/1").json["warnings"]
    page = warning.get(f"/funcs/{rest.namespace}/functions/hello/versions", headers={"Accept": "text/html"}).text
    assert text.startswith("rules: handler.py:4: ") and "rules: handler.py:4: " in page


def test_warnings_of_an_upload_name_files_that_were_not_checked(rest: Rest) -> None:
    rest.function("hello")
    files = {"handler.py": "def handle(event): ...\n", "big.py": "#" * (MAX_SOURCE_BYTES + 1), "vendor/lib.py": SHELL}
    assert rest.upload("hello", files=files).status_code == 202
    assert rest.get("functions/hello/versions/1").json["warnings"] == [
        "not checked (syntax): files over 2 MB: big.py",
        "not checked (rules): files over 512 KB: big.py",
        "not checked (rules): installed packages: vendor/lib.py",
    ]
