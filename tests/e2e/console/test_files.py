"""The files of the code page: renamed, deleted, dropped."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.console.conftest import Console

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.slow]

FILES = {"handler.py": "import util\ndef handle(event):\n    return util.x\n", "util.py": "x = 1\n"}
Drop = Callable[..., None]


@pytest.fixture
def bench(console: Console, page: Page) -> Page:
    if console.rest("GET", "functions/bench").status_code == 404:
        console.deploy("bench")
    console.rest("POST", "functions/bench/upload", json={"files": FILES})
    page.goto(f"{console.base}/functions/bench/code")
    expect(page.locator(".files")).to_contain_text("util.py")
    page.on("dialog", lambda dialog: dialog.accept())  # leaving with unsaved changes asks first
    return page


@pytest.fixture
def drop(page: Page) -> Drop:
    """Drops files of the disk as a user does: on the middle of an element."""
    session = page.context.new_cdp_session(page)

    def act(*paths: Path, onto: str = ".workbench") -> None:
        box = page.locator(onto).bounding_box()
        assert box
        data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
        for kind in ("dragEnter", "dragOver", "drop"):
            at = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
            session.send("Input.dispatchDragEvent", {"type": kind, **at, "data": data})

    return act


def names_of(page: Page) -> list[str]:
    return page.locator(".files button").all_inner_texts()


def choose(page: Page, name: str) -> None:
    page.locator(f'.files [data-path="{name}"]').click()


def test_files_are_renamed_and_deleted(console: Console, bench: Page) -> None:
    choose(bench, "util.py")
    bench.get_by_role("button", name="Rename").click()
    bench.keyboard.press("Enter")
    expect(bench.get_by_role("dialog")).to_have_count(0)
    assert names_of(bench) == ["handler.py", "util.py"]
    for taken, reason in (("handler.py", "already exists"), ("handler.py/x.py", "one is a folder of the other")):
        bench.get_by_role("button", name="Rename").click()
        bench.get_by_label("File path").fill(taken)
        bench.keyboard.press("Enter")
        expect(bench.get_by_role("dialog").get_by_role("alert")).to_contain_text(reason)
        bench.keyboard.press("Escape")
    for step in ("lib/util.py", "lib"):  # the second is a folder of nothing but the file itself
        bench.get_by_role("button", name="Rename").click()
        bench.get_by_label("File path").fill(step)
        bench.keyboard.press("Enter")
        expect(bench.locator("#path")).to_have_text(step)
    bench.get_by_role("button", name="Delete").click()
    bench.get_by_role("dialog").get_by_role("button", name="Delete").click()
    assert names_of(bench) == ["handler.py"]
    expect(bench.locator("#state")).to_have_text("Unsaved changes")
    assert set(console.rest("GET", "functions/bench/source").json()["files"]) == set(FILES)


def test_a_folder_is_dropped_without_what_does_not_belong_to_it(bench: Page, drop: Drop, tmp_path: Path) -> None:
    (tmp_path / "code/sub").mkdir(parents=True)
    (tmp_path / "code/sub/data.bin").write_bytes(bytes(range(256)))
    (tmp_path / "code/node_modules/dep").mkdir(parents=True)
    (tmp_path / "code/node_modules/dep/index.js").write_text("1")
    drop(tmp_path / "code", onto="h1")
    expect(bench.locator(".files")).to_contain_text("sub/data.bin")
    expect(bench.locator("#toasts")).to_contain_text("Not uploaded: node_modules")
    assert names_of(bench) == ["handler.py", "sub/data.bin", "util.py"]
    expect(bench.locator(".drop")).to_be_hidden()


def test_a_dropped_zip_replaces_the_files(console: Console, bench: Page, drop: Drop, tmp_path: Path) -> None:
    bad, good, made = tmp_path / "bad.zip", tmp_path / "good.zip", io.BytesIO()
    bad.write_bytes(b"PK no zip")
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("handler.py", "def handle(event):\n    return 'from the zip'\n")
        archive.writestr("data/x.json", "{}")
    good.write_bytes(made.getvalue())
    bench.get_by_role("button", name="New file").click()
    bench.get_by_label("File path").fill("mine.py")
    bench.keyboard.press("Enter")
    drop(bad)
    bench.get_by_role("dialog").get_by_role("button", name="Replace").click()
    expect(bench.locator("#build")).to_contain_text("the zip is damaged")
    expect(bench.locator("#state")).to_have_text("Unsaved changes")
    expect(bench.locator(".files")).to_contain_text("mine.py")
    drop(good)
    bench.get_by_role("dialog").get_by_role("button", name="Replace").click()
    expect(bench.locator("#toasts")).to_contain_text("is live", timeout=30_000)
    assert names_of(bench) == ["data/x.json", "handler.py"]
    expect(bench.locator("#build")).to_contain_text("is ready")
    assert "from the zip" in console.rest("GET", "functions/bench/source").json()["files"]["handler.py"]


def test_dragged_text_is_left_to_the_editor(bench: Page) -> None:
    shown = bench.evaluate("""() => {
      const data = new DataTransfer();
      data.setData('text/plain', 'x');
      document.getElementById('editor').dispatchEvent(new DragEvent('dragenter', { bubbles: true, cancelable: true, dataTransfer: data }));
      return !document.querySelector('.drop').hidden;
    }""")
    assert not shown


def test_nothing_can_be_typed_before_the_files_are_there(console: Console, page: Page) -> None:
    page.route("**/source", lambda route: None)
    page.goto(f"{console.base}/functions/hello/code")
    expect(page.locator("#editor > *")).to_have_count(1)
    expect(page.locator("#editor")).to_be_hidden()
    page.unroute_all(behavior="ignoreErrors")
