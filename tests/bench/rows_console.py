"""The console's list in a real browser: first paint, many functions, many open consoles."""

import http.client
import statistics
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, Page, expect

from sless.client import Client
from tests.bench.client import connect, token_of
from tests.bench.effort import Effort
from tests.bench.load import wrk
from tests.bench.places import sless_server, temporary_folder
from tests.bench.table import Row, at_most, ratio
from tests.services.browser import FIRST_PAINT, chromium

FRAME_GAPS = """async (act) => {
  const gaps = [];
  let [last, ended] = [performance.now(), false];
  const tick = (now) => { gaps.push(now - last); last = now; if (!ended) requestAnimationFrame(tick); };
  requestAnimationFrame(tick);
  await new Function(`return (async () => { const frame = () => new Promise(requestAnimationFrame); ${act} })()`)();
  ended = true;
  return gaps.slice(1).sort((one, other) => one - other);
}"""
SCROLL = "for (let y = 0; y < document.documentElement.scrollHeight; y += 150) { scrollTo(0, y); await frame(); }"
FILTER = """const field = document.getElementById('query');
for (const text of ['f', 'f1', 'f12', 'f1', 'f', 'x', '']) {
  field.value = text; field.dispatchEvent(new Event('input', { bubbles: true })); await frame(); await frame();
}"""
SWITCH = """const before = document.querySelectorAll('.chip.off').length;
while (document.querySelectorAll('.chip.off').length === before) await frame();
for (let i = 0; i < 20; i += 1) await frame();"""


def console(effort: Effort) -> Iterator[Row]:
    many, most = effort.times(200), effort.times(500)
    more = {"SLESS_LIMIT_FUNCTIONS": "1000", "SLESS_LIMIT_TRIGGERS": "1000"}
    with temporary_folder() as folder, sless_server(folder, **more) as url, chromium() as browser:
        client = connect(url, folder)
        address = f"{url}/funcs/{client.namespace}"
        sign_in = f"{url}/funcs?token={token_of(folder)}"
        with small_page() as small:
            empty, _ = first_paints(browser, sign_in, address, small, effort.pairs)
            fill(client, 0, many)
            full, least = first_paints(browser, sign_in, address, small, effort.pairs)
        detail = f"{min(full):.0f} to {max(full):.0f} ms; an empty list {statistics.median(empty):.0f} ms"
        yield at_most(f"first paint of the console's list, {many} functions", statistics.median(full), 300, unit="ms", detail=detail)
        detail = f"that page {statistics.median(least):.0f} ms ({min(least):.0f} to {max(least):.0f})"
        shares = [one / other for one, other in zip(full, least, strict=True)]
        yield ratio("the same / a page of one word, in the same browser", statistics.median(shares), detail=detail)
        yield with_open_consoles(f"{url}/v1/namespaces/{client.namespace}", token_of(folder), effort)
        fill(client, many, most)
        yield from fluency(browser, sign_in, address, client, most)


def fill(client: Client, first: int, last: int) -> None:
    for number in range(first, last):
        name = f"f{number:03}"
        client.functions.create({"name": name, "runtime": "python3.11"})
        client.triggers.create({"name": name, "type": "http", "function_ref": name})


@contextmanager
def signed_in(browser: Browser, sign_in: str) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.goto(sign_in)
    page.close()
    yield context
    context.close()


@contextmanager
def small_page() -> Iterator[str]:
    """The address of a page without style sheet and script: the least that Chromium takes on this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SmallPage) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


class SmallPage(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = b"<!doctype html><html lang=en><title>small</title><p>hello"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


def first_paints(browser: Browser, sign_in: str, address: str, small: str, times: int) -> tuple[list[float], list[float]]:
    """Of both addresses, in alternation: milliseconds from the start of the navigation, in a signed-in browser that has opened the console
    before."""
    found: tuple[list[float], list[float]] = ([], [])
    with signed_in(browser, sign_in) as context:
        for _ in range(times):
            for times_ms, opened in zip(found, (address, small), strict=True):
                page = context.new_page()
                page.goto(opened)
                times_ms.append(float(page.evaluate(FIRST_PAINT)))
                page.close()
    return found


def with_open_consoles(base: str, token: str, effort: Effort) -> Row:
    """The REST interface with many streams of the list and without."""
    address, authorization = f"{base}/functions/f000", f"Bearer {token}"
    alone = wrk(address, connections=4, effort=effort, authorization=authorization)
    target = urlsplit(f"{base}/overview?follow=1")
    with ExitStack() as stack:
        for _ in range(effort.times(200)):
            stream = stack.enter_context(closing(http.client.HTTPConnection(target.netloc, timeout=30)))
            stream.request("GET", f"{target.path}?{target.query}", headers={"Authorization": authorization, "Accept": "text/event-stream"})
            if stream.getresponse().status != 200:
                raise RuntimeError("a stream was refused")
        beside = wrk(address, connections=4, effort=effort, authorization=authorization)
    shown = [f"{one.requests_per_sec:,.0f} req/s, p99 {one.p99_ms:.0f} ms" for one in (alone, beside)]
    return ratio(
        f"rate of the REST interface with {effort.times(200)} open consoles / without",
        beside.requests_per_sec / alone.requests_per_sec,
        detail=f"without {shown[0]}; with {shown[1]}; failed {beside.failed}",
    )


def fluency(browser: Browser, sign_in: str, address: str, client: Client, most: int) -> Iterator[Row]:
    """Gaps between frames of the list; 17 ms is a steady picture."""
    with signed_in(browser, sign_in) as context:
        page = context.new_page()
        page.goto(address)
        expect(page.locator("#list tbody tr")).to_have_count(most)
        yield _gaps(f"scrolling through {most} functions", page, SCROLL)
        yield _gaps(f"searching in {most} functions", page, FILTER)
        page.evaluate("window.scrollTo(0, 0)")
        page.evaluate(f"void (window.gaps = ({FRAME_GAPS})({SWITCH!r}))")  # without void, evaluate would wait for it
        for number in range(most // 10 or 1):
            client.triggers.merge(f"f{number:03}", {"enabled": False})
        yield _row(f"updating {most // 10 or 1} of {most} functions", page.evaluate("window.gaps"))


def _gaps(name: str, page: Page, act: str) -> Row:
    return _row(name, page.evaluate(FRAME_GAPS, act))


def _row(name: str, gaps: list[float]) -> Row:
    detail = f"median {statistics.median(gaps):.0f} ms, longest {gaps[-1]:.0f} ms, {len(gaps)} frames"
    return at_most(f"{name}: 95 % of the gaps between frames", gaps[int(len(gaps) * 0.95)], 50, unit="ms", detail=detail)
