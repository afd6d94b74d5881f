"""Create, edit, save, watch the build, run, read the log, roll back: a user's way through the console."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.console.conftest import Console
from tests.services.browser import shoot

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.slow]

HANDLER = "def handle(event):\n    print('in the log', event)\n    return {'answer': 42}\n"


def type_code(page: Page, text: str) -> None:
    """Into the editor, whichever it is."""
    page.locator("#editor").get_by_role("textbox").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(text)


def expect_code(page: Page, text: str) -> None:
    """In the editor, whichever it is."""
    if page.locator("#code[data-editor]").count():
        expect(page.locator("#editor")).to_contain_text(text)
    else:
        expect(page.locator("#editor textarea")).to_have_value(re.compile(re.escape(text)))


def test_from_nothing_to_a_version_and_back(console: Console, page: Page) -> None:
    page.goto(f"{console.base}/new")
    page.get_by_label("Name").fill("made")
    shoot(page, "new-1440-en")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#build")).to_contain_text("version 1 is ready")
    expect(page.locator("#toasts")).to_contain_text("Version 1 is live")
    type_code(page, HANDLER)
    expect(page.locator("#state")).to_have_text("Unsaved changes")
    has_editor = page.locator("#code[data-editor]").count() == 1
    if has_editor:
        page.get_by_label("Compare with version 1").check()
        expect(page.locator("#editor .cm-deletedChunk").first).to_be_visible()
    page.keyboard.press("Control+s")
    expect(page.locator("#build")).to_contain_text("version 2 is ready")
    expect(page.locator("#toasts")).to_contain_text("Version 2 is live")
    if has_editor:
        expect(page.get_by_label("Compare with version 2")).to_be_checked()
        expect(page.locator("#editor .cm-deletedChunk")).to_have_count(0)
        page.get_by_label("Compare with version 2").uncheck()
    expect(page.locator("#phase")).to_contain_text("Ready")
    shoot(page, "code-1440-en")

    page.get_by_role("link", name="Run").last.click()
    page.get_by_label("Event (JSON)").fill('{"name": "Ada"}')
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#answer")).to_contain_text('"answer": 42')
    expect(page.locator("#call-log")).to_contain_text("in the log {'name': 'Ada'}")
    shoot(page, "run-1440-en")
    page.get_by_role("link", name="Details of the call").click()
    expect(page.locator("#call")).to_contain_text("in the log")

    page.get_by_role("link", name="Versions").click()
    first = page.locator("[data-version='1']")
    first.get_by_role("button", name="Roll back to this version").click()
    expect(first).to_contain_text("active")
    assert console.rest("GET", "functions/made").json()["active_version"] == 1
    first.get_by_role("button", name="Build log").click()
    expect(page.locator("#build")).to_contain_text("version 1 is ready")
    shoot(page, "versions-1440-en")


def test_a_corrected_name_is_no_longer_marked(console: Console, page: Page) -> None:
    page.goto(f"{console.base}/new")
    name = page.get_by_label("Name")
    name.fill("Bad Name")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#error-name")).to_contain_text("expected a name")
    expect(name).to_have_attribute("aria-invalid", "true")
    name.fill("hello")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#problem")).to_contain_text("hello")
    expect(name).not_to_have_attribute("aria-invalid", "true")


def test_mistakes_in_the_code_are_shown_and_nothing_is_lost(console: Console, page: Page) -> None:
    page.goto(f"{console.base}/functions/hello/code")
    expect(page.get_by_role("button", name="Save and deploy")).to_be_disabled()
    type_code(page, "def handle(event:\n")
    page.get_by_role("button", name="Save and deploy").click()
    expect(page.locator("#build")).to_contain_text("handler.py")
    expect(page.locator("#state")).to_have_text("Unsaved changes")
    page.get_by_role("button", name="New file").click()
    page.get_by_label("File path").fill("../up.py")
    page.get_by_role("button", name="Create").click()
    expect(page.get_by_role("dialog")).to_contain_text("relative path")
    page.get_by_label("File path").fill("lib/tools.py")
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".files")).to_contain_text("lib/tools.py")
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.locator(".files")).not_to_contain_text("lib/tools.py")
    page.on("dialog", lambda dialog: dialog.accept())  # leaving with unsaved changes asks first
    page.goto("about:blank")


def test_changes_outlive_the_session(console: Console, page: Page) -> None:
    page.goto(f"{console.base}/functions/hello/code")
    type_code(page, "KEPT = 1\n")
    page.route("**/upload", lambda route: route.fulfill(status=401, json={"error": "the token has expired"}))
    page.keyboard.press("Control+s")
    expect(page.locator("#build")).to_contain_text("Your changes are kept")
    page.reload()
    expect(page.locator("#state")).to_have_text("Unsaved changes")
    expect_code(page, "KEPT = 1")
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    expect_code(page, "greeting")


def test_a_save_during_a_build_follows_it(console: Console, page: Page) -> None:
    console.deploy("twice")
    page.goto(f"{console.base}/functions/twice/code")
    type_code(page, "import time\ntime.sleep(2)\ndef handle(event):\n    return 2\n")
    page.keyboard.press("Control+s")
    expect(page.locator("#build h2")).to_contain_text("2")
    type_code(page, "def handle(event):\n    return 3\n")
    page.keyboard.press("Control+s")
    expect(page.locator("#state")).to_have_text("Will be saved after this build")
    expect(page.locator("#toasts")).to_contain_text("Version 3 is live", timeout=30_000)
    assert "return 3" in console.rest("GET", "functions/twice/source").json()["files"]["handler.py"]


def test_a_new_function_whose_upload_fails_keeps_its_code(console: Console, page: Page) -> None:
    page.goto(f"{console.base}/new")
    page.route("**/upload", lambda route: route.fulfill(status=429, json={"error": "240 builds within an hour: try again later"}))
    page.get_by_label("Name").fill("unlucky")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#build")).to_contain_text("240 builds within an hour")
    expect(page.locator(".files")).to_contain_text("handler.py")
    page.unroute("**/upload")
    page.get_by_role("button", name="Save and deploy").click()
    expect(page.locator("#toasts")).to_contain_text("Version 1 is live")


def test_files_in_and_out(console: Console, page: Page, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(bytes(range(256)))
    (tmp_path / "notes.txt").write_text("hello")
    console.deploy("files")
    page.goto(f"{console.base}/functions/files/code")
    page.locator("#files").set_input_files([tmp_path / "data.bin", tmp_path / "notes.txt"])
    page.locator(".files").get_by_text("data.bin").click()
    expect(page.locator("#binary")).to_contain_text("256 B")
    page.get_by_role("button", name="Save and deploy").click()
    expect(page.locator("#toasts")).to_contain_text("Version 2 is live")
    source = console.rest("GET", "functions/files/source").json()["files"]
    assert (source["notes.txt"], len(source)) == ("hello", 3) and source["data.bin"]["base64"].startswith("AAECAw")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download zip").click()
    assert download.value.suggested_filename == "files.zip" and Path(download.value.path()).read_bytes()[:2] == b"PK"


def test_requests_calls_logs_and_charts(console: Console, page: Page) -> None:
    page.goto(f"{console.base}/functions/hello/run")
    page.get_by_role("button", name="HTTP").click()
    page.get_by_label("Path and query").fill("/sub?name=Bob")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#status")).to_contain_text("200")
    expect(page.locator("#call-log")).to_contain_text("greeting")
    page.get_by_role("button", name="Event", exact=True).click()
    page.get_by_label("Event (JSON)").fill("{bad")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#answer")).to_contain_text("not valid JSON")
    page.get_by_label("Event (JSON)").fill(json.dumps({"name": "kept"}))
    page.get_by_label("asynchronously").check()
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#call-log")).to_contain_text("Succeeded")
    page.get_by_role("button", name="Save event").click()
    page.get_by_label("Event name").fill("mine")
    page.get_by_role("button", name="OK").click()
    page.reload()
    expect(page.get_by_label("Event (JSON)")).to_have_value(json.dumps({"name": "kept"}))

    page.goto(f"{console.base}/functions/hello/calls")
    page.get_by_label("Trigger").select_option("invoke")
    expect(page.locator("#calls tbody tr")).to_have_count(1)
    shoot(page, "calls-1440-en")
    page.goto(f"{console.base}/functions/hello/logs")
    expect(page.locator("#lines")).to_contain_text("greeting {'name': 'kept'}")
    page.get_by_placeholder("Search the log").fill("Bob")
    expect(page.locator("#lines .line:visible")).to_have_count(1)
    page.goto(f"{console.base}/functions/hello/charts")
    expect(page.locator("#chart-calls svg")).to_be_visible()
    expect(page.locator("#figures")).to_contain_text("Calls")
    shoot(page, "charts-1440-en")
    page.goto(f"{console.base}/usage")
    expect(page.get_by_role("heading", name="Usage")).to_be_visible()


def test_a_job_runs_from_its_page(console: Console, page: Page) -> None:
    assert console.rest("POST", "jobs", json={"name": "sum", "runtime": "python3.11"}).status_code == 201
    code = {"handler.py": "def handle(event):\n    print('adding')\n    return sum(event)\n"}
    assert console.rest("POST", "jobs/sum/upload", json={"files": code}).status_code == 202
    page.goto(f"{console.base}/jobs/sum/code")
    expect(page.get_by_role("textbox", name="Code of handler.py")).to_be_visible()
    page.goto(f"{console.base}/jobs/sum/run")
    page.get_by_label("Event (JSON)").fill("[100, 200, 300]")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#answer")).to_contain_text("600")
    expect(page.locator("#call-log")).to_contain_text("adding")


def test_an_older_version_runs_once_it_is_active(console: Console, page: Page) -> None:
    console.deploy("older")
    console.deploy_again("older", "def handle(event):\n    return 'second'\n")
    page.goto(f"{console.base}/functions/older/versions")
    expect(page.locator("[data-version='2']").get_by_role("link", name="Run")).to_be_visible()
    page.get_by_role("button", name="Run version 1").click()
    expect(page.get_by_role("dialog")).to_contain_text("Only the active version can be called, which is version 2")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert console.rest("GET", "functions/older").json()["active_version"] == 2
    page.get_by_role("button", name="Run version 1").click()
    page.get_by_role("button", name="Make active and run").click()
    expect(page).to_have_url(f"{console.base}/functions/older/run")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#answer")).to_contain_text("hello")
    assert console.rest("GET", "functions/older").json()["active_version"] == 1
