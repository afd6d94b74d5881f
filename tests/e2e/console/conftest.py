"""A signed-in browser on a real server, for the tests of the console."""

from collections.abc import Iterator

import pytest
import requests
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.conftest import Place, RunningServer, tenant_of, wait_until
from tests.services.browser import WAIT_MS, chromium, errors_of

HANDLER = "def handle(event):\n    print('greeting', event)\n    return {'hello': event.get('name', 'you')}\n"


class Console:
    """A signed-in browser, and the REST interface for the same tenant."""

    def __init__(self, server: RunningServer, context: BrowserContext) -> None:
        self.server = server
        self.context = context
        self.base = f"{server.url}/funcs/{server.namespace}"

    def rest(self, method: str, path: str, **options: object) -> requests.Response:
        headers = {"Authorization": f"Bearer {self.server.token}"}
        url = f"{self.server.url}/v1/namespaces/{self.server.namespace}/{path}"
        return requests.request(method, url, headers=headers, timeout=30, **options)  # type: ignore[arg-type]

    def call(self, name: str, method: str, path: str) -> requests.Response:
        return requests.request(method, f"{self.server.url}/fn/{self.server.namespace}/{name}{path}", timeout=60, allow_redirects=False)

    def deploy(self, name: str, files: dict[str, str] | None = None, **fields: object) -> None:
        assert self.rest("POST", "functions", json={"name": name, "runtime": "python3.11"} | fields).status_code == 201
        assert self.rest("POST", "triggers", json={"name": name, "type": "http", "function_ref": name}).status_code == 201
        assert self.rest("POST", f"functions/{name}/upload", json={"files": files or {"handler.py": HANDLER}}).status_code == 202
        wait_until(lambda: self.rest("GET", f"functions/{name}").json()["phase"] == "Ready", f"{name} is Ready")

    def deploy_again(self, name: str, code: str) -> None:
        number = self.rest("POST", f"functions/{name}/upload", json={"files": {"handler.py": code}}).json()["version"]
        wait_until(lambda: self.rest("GET", f"functions/{name}").json()["active_version"] == number, f"{name} has version {number}")


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Ends with this folder's tests: while it runs, the thread has an event loop, and other tests start their own."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="package")
def console(running_server: tuple[Place, str], browser: Browser) -> Iterator[Console]:
    """One browser, signed in once, with the built function `hello`. Tests give what they add names of their own."""
    with tenant_of(running_server, "console") as server:
        context = signed_in(browser, server, viewport={"width": 1440, "height": 900}, locale="en-GB")
        made = Console(server, context)
        made.deploy("hello")
        yield made
        context.close()


def signed_in(browser: Browser, server: RunningServer, **options: object) -> BrowserContext:
    context = browser.new_context(reduced_motion="reduce", **options)  # type: ignore[arg-type]
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    page.goto(f"{server.url}/funcs?token={server.token}")
    expect(page).to_have_url(f"{server.url}/funcs/{server.namespace}")
    page.close()
    return context


@pytest.fixture
def page(console: Console) -> Iterator[Page]:
    """A new tab; fails if its scripts complained."""
    page = console.context.new_page()
    errors = errors_of(page)
    yield page
    page.close()
    assert not errors
