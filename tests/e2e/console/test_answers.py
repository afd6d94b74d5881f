"""The run panel: every kind of request and answer; and what the log shows of the calls."""

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import wait_until
from tests.e2e.console.conftest import Console

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.slow]

LONG = 200_001
CODE = """
import time

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

def handle(event, context):
    kind = context.http.path.strip("/")
    print("kind", kind)
    if kind == "png":
        return {"statusCode": 200, "headers": {"Content-Type": "image/png"}, "body": PNG, "isBase64Encoded": True}
    if kind == "torn":
        return {"statusCode": 200, "headers": {"Content-Type": "image/png"}, "body": "no picture"}
    if kind == "bytes":
        return bytes(range(256)) * 4
    if kind == "moved":
        return {"statusCode": 302, "headers": {"Location": "/elsewhere"}, "body": ""}
    if kind == "long":
        return "x" * LENGTH
    if kind == "stream":
        return (time.sleep(3600 * number) or f"part {number}" for number in range(2))
    return {"event": event, "method": context.http.method}
""".replace("LENGTH", str(LONG))


@pytest.fixture(scope="module")
def kinds(console: Console) -> str:
    """A function that answers in many ways."""
    console.deploy("kinds", timeout_sec=120, files={"handler.py": CODE})
    return f"{console.base}/functions/kinds"


def send(page: Page, path: str) -> None:
    page.get_by_label("Path and query").fill(path)
    page.get_by_role("button", name="Run").click()


@pytest.fixture
def panel(kinds: str, page: Page) -> Page:
    page.goto(f"{kinds}/run")
    page.get_by_role("button", name="HTTP").click()
    return page


def test_images_bytes_and_long_texts_are_shown_and_saved(panel: Page) -> None:
    answer = panel.locator("#answer")
    send(panel, "/png")
    expect(answer.locator("img")).to_have_js_property("naturalWidth", 1)
    with panel.expect_download() as saved:
        answer.get_by_role("button", name="Save to file").click()
    assert saved.value.suggested_filename == "answer.png"
    send(panel, "/torn")
    expect(answer).to_contain_text("not an image that the browser can show")
    expect(answer.locator(".answer")).to_have_text("no picture")
    send(panel, "/bytes")
    expect(answer).to_contain_text("1 KB of application/octet-stream")
    expect(answer).to_contain_text("000010  10 11 12")
    send(panel, "/long")
    expect(answer).to_contain_text("The first 200000 of 200001 characters")
    with panel.expect_download() as saved:
        answer.get_by_role("button", name="Save to file").click()
    assert len(Path(saved.value.path()).read_bytes()) == LONG


def test_a_redirect_has_status_and_log(panel: Page) -> None:
    send(panel, "/moved")
    expect(panel.locator("#answer")).to_contain_text("The answer is a redirect")
    expect(panel.locator("#call-log")).to_contain_text("kind moved")
    expect(panel.locator("#status")).to_contain_text("302")


def test_a_stream_is_shown_while_it_comes_and_can_be_stopped(panel: Page) -> None:
    send(panel, "/stream")
    expect(panel.locator("#answer")).to_contain_text("part 0")
    panel.get_by_role("button", name="Cancel").click()
    expect(panel.locator("#status")).to_have_text("Stopped waiting")
    expect(panel.locator("#answer")).to_contain_text("part 0")
    expect(panel.locator("#call-log")).to_contain_text("Details of the call", timeout=30_000)


def test_forms_files_and_their_curl_lines(panel: Page) -> None:
    expect(panel.locator("#body-type")).to_be_disabled()
    expect(panel.get_by_text("Browsers send no body with GET and HEAD.")).to_be_visible()
    panel.get_by_label("Method").select_option("HEAD")
    expect(panel.locator("#curl")).to_contain_text("curl -I '")
    panel.locator("#example").select_option(label="form")
    send(panel, "/")
    expect(panel.locator("#answer")).to_contain_text('"colour": "green"')
    panel.locator("#example").select_option(label="form with files")
    panel.locator("#body-files").set_input_files([{"name": "it's.txt", "mimeType": "text/plain", "buffer": b"in the file"}])
    panel.locator("#body").fill("name=@Ada")
    send(panel, "/")
    expect(panel.locator("#answer")).to_contain_text('"name": "@Ada"')
    expect(panel.locator("#answer")).to_contain_text("it's.txt")
    panel.get_by_text("curl", exact=True).click()
    expect(panel.locator("#curl")).to_contain_text("curl -i -X POST --form-string 'name=@Ada' -F 'file=@\"it'\\''s.txt\"' 'http")
    request, answer = (panel.locator(f".columns > .card >> nth={number}").bounding_box() for number in (0, 1))
    curl = panel.locator("#curl").bounding_box()
    assert request and answer and curl and curl["x"] + curl["width"] <= request["x"] + request["width"] <= answer["x"]


def test_a_call_is_repeated_with_what_is_stored_of_it(console: Console, kinds: str, page: Page) -> None:
    console.call("kinds", "PUT", "/again?q=1")
    wait_until(lambda: console.rest("GET", "functions/kinds/invocations?limit=1").json()[0]["method"] == "PUT", "the call is recorded")
    page.goto(f"{kinds}/calls?trigger=http")
    page.locator("#calls tbody tr").first.get_by_role("link", name=re.compile("Run again like")).click()
    expect(page.get_by_label("Method")).to_have_value("PUT")
    expect(page.get_by_label("Path and query")).to_have_value("/again")
    page.goto(f"{kinds}/calls?status=timeout")
    expect(page.get_by_role("heading", name="No calls match the filters")).to_be_visible()


def test_the_log_is_searched_and_has_the_readers_time(console: Console, kinds: str, browser: Browser) -> None:
    for number in range(40):
        console.call("kinds", "POST", f"/line-{number}")
    context = browser.new_context(viewport={"width": 1440, "height": 500}, locale="en-GB", timezone_id="Asia/Kolkata")
    context.add_cookies(console.context.cookies())
    page = context.new_page()
    page.goto(f"{kinds}/logs")
    expect(page.locator("#lines")).to_contain_text("line-39")
    search, state = page.get_by_placeholder("Search the log"), page.locator("#state")
    search.fill("line-39")
    expect(state).to_have_text(re.compile(r"^Following · 1 of \d+ lines$"))
    search.fill("nothing like it")
    assert "No loaded line matches." in page.evaluate("getComputedStyle(document.getElementById('lines'), '::before').content")
    search.fill("")
    below = "(({ scrollHeight: all, scrollTop: top, clientHeight: seen }) => all - top - seen)(document.getElementById('lines'))"
    assert page.evaluate(below) < 40
    page.get_by_role("button", name="Pause").click()
    console.call("kinds", "POST", "/while-paused")
    expect(state).to_have_text("Paused, new lines: 1")
    expect(page.locator("#lines")).not_to_contain_text("while-paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator("#lines")).to_contain_text("while-paused")

    calls = "functions/kinds/invocations"
    wait_until(lambda: console.rest("GET", f"{calls}?limit=1").json()[0]["path"].endswith("while-paused"), "the call is recorded")
    (call,) = console.rest("GET", f"{calls}?limit=1").json()
    moment = console.rest("GET", f"{calls}/{call['id']}").json()["logs"][0]["time"]
    local = page.evaluate("(moment) => new Date(moment).toLocaleTimeString('en-GB')", moment)
    assert local != moment[11:19]
    expect(page.locator(".line", has_text="while-paused")).to_contain_text(f"{local}.")
    page.goto(f"{kinds}/calls/{call['id']}")
    expect(page.locator("pre.log")).to_contain_text(f"{local}.")
    context.close()


def test_charts_write_times_as_the_reader_does(console: Console, page: Page) -> None:
    for window in ("1h", "24h", "7d"):
        page.goto(f"{console.base}/functions/hello/charts?window={window}")
        labels = page.locator("#chart-calls text.axis")
        expect(labels.first).to_be_visible()
        texts = labels.all_text_contents()
        assert not re.search("AM|PM", json.dumps(texts)), texts
        fit = page.evaluate("""() => {
          const right = (element) => element.getBoundingClientRect().right;
          const labels = [...document.querySelectorAll('#chart-calls text.axis')];
          return labels.every((label) => right(label) <= right(document.getElementById('chart-calls')) + 1);
        }""")
        assert fit, f"{window}: a label is cut off"
