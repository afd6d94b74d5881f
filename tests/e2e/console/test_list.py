"""The list of a tenant with 200 functions and jobs: first paint, weight, and that all of them arrive."""

import gzip
import sqlite3
from contextlib import closing

import pytest
import requests
from playwright.sync_api import Browser, BrowserContext, Page, Response, expect

from tests.e2e.conftest import RunningServer
from tests.e2e.console.conftest import Console, signed_in
from tests.services.browser import FIRST_PAINT, errors_of, shoot

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.slow]

FIRST_PAINT_MS = 300
PAGE_BYTES = 150 * 1024
TRIES = 15
TYPE = """(texts) => {
  const field = document.getElementById('query');
  const replaceState = history.replaceState;
  window.changes = 0;
  history.replaceState = function (...given) { window.changes += 1; replaceState.apply(history, given); };
  for (const text of texts) { field.value = text; field.dispatchEvent(new Event('input', { bubbles: true })); }
}"""
NOTE_FORMATS = """window.made = [];
for (const name of ['NumberFormat', 'DateTimeFormat', 'RelativeTimeFormat'])
  Intl[name] = new Proxy(Intl[name], {
    construct(format, given) { window.made.push(document.readyState); return new format(...given); },
  });"""


def test_the_list_is_light_and_quick(server: RunningServer, browser: Browser) -> None:
    context = signed_in(browser, server, viewport={"width": 1440, "height": 900}, locale="en-GB")
    address = f"{server.url}/funcs/{server.namespace}"
    empty_ms = first_paint_ms(context, address)
    fill(server)
    bound_ms = max(FIRST_PAINT_MS, 2 * empty_ms)
    assert first_paint_ms(context, address, bound_ms) <= bound_ms, f"an empty list took {empty_ms:.0f} ms at best"

    page = context.new_page()
    errors = errors_of(page)
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    page.goto(address, wait_until="load")
    bodies = [answer.body() for answer in answers if "overview" not in answer.url]
    assert len(bodies) > 5 and sum(len(gzip.compress(body)) for body in bodies) <= PAGE_BYTES
    assert all(answer.url.startswith(server.url) for answer in answers)
    expect(page.locator("#list tbody tr")).to_have_count(200)
    keys = page.evaluate("[...document.querySelectorAll('#list tbody tr')].map((row) => row.dataset.key)")
    assert keys == [*(f"function/f{number:02}" for number in range(100)), *(f"job/j{number:02}" for number in range(100))]
    page.get_by_label("Search").fill("j99")
    expect(page.locator("#list tbody tr:visible")).to_have_count(1)
    expect(page.locator("#count")).to_have_text("1 of 200 shown")
    shoot(page, "search-1440-en")
    page.evaluate(TYPE, ["f", "f0", "f07"])
    page.wait_for_url("**?q=f07")
    assert page.evaluate("changes") == 1, "browsers refuse to change the address at every key"
    context.close()
    assert not errors


def test_scripts_make_no_formats_before_the_page_is_drawn(console: Console, page: Page) -> None:
    """The formats of numbers and times take 40 ms of processor time."""
    page.add_init_script(NOTE_FORMATS)
    page.goto(console.base)
    expect(page.locator("#live")).to_have_text("Live")
    expect(page.locator("tr[data-key='function/hello'] time, tr[data-key='function/hello'] .c-last .muted")).to_be_visible()
    made = page.evaluate("made")
    assert made and "loading" not in made and "interactive" not in made


def first_paint_ms(context: BrowserContext, address: str, bound_ms: float = 0) -> float:
    """The best of some, until it is within the bound: other work on the machine makes single ones slower."""
    found = [float("inf")]
    while min(found) > bound_ms and len(found) <= TRIES:
        page = context.new_page()
        page.goto(address)
        found.append(float(page.evaluate(FIRST_PAINT)))
        page.close()
    return min(found)


def fill(server: RunningServer) -> None:
    """100 functions and 100 jobs: one of each by REST, the others as copies of its row, which is a hundred times as fast."""
    headers = {"Authorization": f"Bearer {server.token}"}
    (path,) = server.place.data_dir.glob("*.db")
    for kind, letter in (("functions", "f"), ("jobs", "j")):
        url = f"{server.url}/v1/namespaces/{server.namespace}/{kind}"
        assert requests.post(url, json={"name": f"{letter}00", "runtime": "python3.11"}, headers=headers, timeout=30).status_code == 201
        with closing(sqlite3.connect(path, timeout=30)) as database, database:
            database.row_factory = sqlite3.Row
            found = database.execute("SELECT * FROM workloads WHERE namespace = ? AND name = ?", (server.namespace, f"{letter}00"))
            row = dict(found.fetchone())
            copies = [row | {"id": f"{row['id']}-{number}", "name": f"{letter}{number:02}"} for number in range(1, 100)]
            insert = f"INSERT INTO workloads ({', '.join(row)}) VALUES ({', '.join(f':{name}' for name in row)})"
            database.executemany(insert, copies)
