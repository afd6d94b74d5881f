"""What a function's page can do to the console, in a real browser in which a user is signed in: nothing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from sless.store import open_store
from sless.tokens import TokenVerifier
from tests.builders import KEYRING
from tests.contract.rest_harness import Rest
from tests.proxykit.fakes import revision_of, route_of
from tests.proxykit.server import Front
from tests.proxykit.upstream import Peer, Upstream, logs_or
from tests.services.browser import WAIT_MS

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.slow]
MARK = "victims-function"
MODES: dict[str, dict[str, Any]] = {
    "shared host": {"backend": "kubernetes"},
    "separate hosts": {"backend": "kubernetes", "functions_url": "http://localhost", "functions_sandbox": False},
    "laptop": {"backend": "local"},
}
ATTACK = """
const CONSOLE = %s, LIST = %s, TOKEN = %s, MARK = %s;
const tell = (error) => `refused: ${error.name}`;
const attacks = {
  async worker() { await navigator.serviceWorker.register(location.pathname + "/worker.js", {scope: "/"}); return "registered"; },
  async cookie() {
    for (const path of ["/", "/funcs", LIST]) document.cookie = `sless_token=${TOKEN}; path=${path}`;
    return document.cookie;
  },
  async fetch() {
    const texts = [];
    for (const path of [LIST, "/funcs/-/v1/whoami", "/v1/whoami"])
      for (const mode of ["cors", "no-cors"])
        texts.push(await fetch(CONSOLE + path, {credentials: "include", mode}).then((answer) => answer.text(), tell));
    return texts.join("\\n");
  },
  async frame() {
    const frame = document.body.appendChild(document.createElement("iframe"));
    const loaded = new Promise((done) => { frame.onload = done; frame.onerror = done; });
    frame.src = CONSOLE + LIST;
    await loaded;
    return frame.contentDocument ? frame.contentDocument.documentElement.innerHTML : "no document";
  },
  async popup() {
    const opened = window.open(CONSOLE + LIST);
    for (let turn = 0; opened && !opened.closed && turn < 60; turn++) {
      await new Promise((done) => setTimeout(done, 50));
      const text = opened.document.documentElement.innerHTML;
      if (text.includes(MARK)) return text;
    }
    return "closed";
  },
  async form() {
    const form = document.body.appendChild(document.createElement("form"));
    Object.assign(form, {method: "POST", action: CONSOLE + "/funcs/login", target: "_blank"});
    form.appendChild(Object.assign(document.createElement("input"), {name: "token", value: TOKEN}));
    form.submit();
    return "sent";
  },
};
const run = (name) => attacks[name]().catch(tell);
"""


@dataclass
class Stage:
    """A signed-in browser, and a page of a hostile function in it."""

    mode: str
    context: BrowserContext
    page: Page
    token: str
    console: str

    def run(self, attack: str) -> str:
        return str(self.page.evaluate(f"run({json.dumps(attack)})"))

    def console_cookies(self) -> list[str]:
        return [item["value"] for item in self.context.cookies(self.console + "/funcs/x") if item["name"] == "sless_token"]

    def open_console(self) -> str:
        """As the user does, by typing the address."""
        page = self.context.new_page()
        page.goto(f"{self.console}/funcs")
        text = page.content()
        page.close()
        return text


@pytest.fixture(scope="module")
def rest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rest]:
    folder = tmp_path_factory.mktemp("console")
    store = open_store(f"sqlite:///{folder / 'sless.db'}", keyring=KEYRING, durable=False)
    store.migrate()
    made = Rest(store, folder / "data")
    made.function(MARK)
    yield made
    store.close()


@pytest.fixture(scope="module", params=MODES)
def stage(request: pytest.FixtureRequest, rest: Rest, browser: Browser) -> Iterator[Stage]:
    served: dict[str, bytes] = {}

    def answer(peer: Peer, first: str, headers: list[tuple[str, str]]) -> None:
        kind = "text/javascript" if ".js " in first else "text/html"
        body = b"onfetch = (event) => event.respondWith(new Response('taken'))" if ".js " in first else served["page"]
        more = f"Service-Worker-Allowed: /\r\nSet-Cookie: sless_token={evil}; Path=/funcs\r\nContent-Type: {kind}"
        peer.send(f"HTTP/1.1 200 OK\r\n{more}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)

    token, evil = rest.token(), rest.token("mallory")
    upstream = Upstream(logs_or(answer))
    route = route_of(addresses=[upstream.address], revision=revision_of())
    settings = replace(rest.settings, **MODES[request.param])
    with Front(route, settings=settings, flask=rest.app, verifier=TokenVerifier(settings)) as front:
        console = f"http://127.0.0.1:{front.port}"
        functions = f"http://localhost:{front.port}" if settings.functions_url else console
        script = ATTACK % tuple(map(json.dumps, (console, f"/funcs/{rest.namespace}", evil, MARK)))
        served["page"] = f"<!doctype html><title>f</title><body><script>{script}</script>".encode()
        context = browser.new_context()
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.goto(f"{console}/funcs?token={token}")
        assert MARK in page.content(), "the user is signed in"
        page.goto(f"{functions}/fn/{route.namespace}/f")
        yield Stage(request.param, context, page, token, console)
        context.close()
    upstream.close()


def test_no_service_worker_is_registered(stage: Stage) -> None:
    assert stage.run("worker").startswith("refused")
    assert "taken" not in stage.open_console()


def test_the_cookie_of_the_console_can_be_neither_read_nor_replaced(stage: Stage) -> None:
    """A laptop has one origin for both: scripts can set a cookie beside the console's, which the console must not prefer."""
    found = stage.run("cookie")
    assert stage.token not in found
    if stage.mode != "laptop":
        assert stage.console_cookies() == [stage.token]
        assert MARK in stage.open_console()


def test_nothing_can_be_fetched_with_the_cookie(stage: Stage) -> None:
    text = stage.run("fetch")
    assert MARK not in text and '"sub"' not in text and stage.token not in text


def test_the_console_does_not_open_in_a_frame(stage: Stage) -> None:
    assert MARK not in stage.run("frame")
    assert not [frame for frame in stage.page.frames[1:] if MARK in frame.content()]


def test_a_popup_with_the_console_cannot_be_read(stage: Stage) -> None:
    assert stage.run("popup") == "closed" or stage.run("popup").startswith("refused")


# Functions of a laptop are the user's own, see SECURITY.md.
@pytest.mark.parametrize("stage", [mode for mode in MODES if mode != "laptop"], indirect=True)
def test_a_form_does_not_sign_the_user_in_as_somebody_else(stage: Stage) -> None:
    with stage.context.expect_page() as opened:
        assert stage.run("form") == "sent"
    opened.value.wait_for_load_state()
    # The sandbox of a shared host does not even let the answer be shown.
    assert "Sec-Fetch-Site" in opened.value.content() or opened.value.url.startswith("chrome-error:")
    assert stage.console_cookies() == [stage.token]
    assert MARK in stage.open_console()
