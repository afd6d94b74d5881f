"""The console in a real browser, on a real server."""

from collections.abc import Iterator

import pytest
import requests
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.conftest import RunningServer, wait_until
from tests.services.browser import chromium, errors_of, shoot

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.slow]

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

    def deploy(self, name: str, **fields: object) -> None:
        assert self.rest("POST", "functions", json={"name": name, "runtime": "python3.11"} | fields).status_code == 201
        assert self.rest("POST", "triggers", json={"name": name, "type": "http", "function_ref": name}).status_code == 201
        assert self.rest("POST", f"functions/{name}/upload", json={"files": {"handler.py": HANDLER}}).status_code == 202
        wait_until(lambda: self.rest("GET", f"functions/{name}").json()["phase"] == "Ready", f"{name} is Ready")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def console(server: RunningServer, browser: Browser) -> Iterator[Console]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
    context.set_default_timeout(10_000)
    page = context.new_page()
    page.goto(f"{server.url}/funcs?token={server.token}")
    expect(page).to_have_url(f"{server.url}/funcs/{server.namespace}")
    page.close()
    made = Console(server, context)
    made.deploy("hello")
    yield made
    context.close()


@pytest.fixture
def page(console: Console) -> Iterator[Page]:
    """A new tab; fails if its scripts complained."""
    page = console.context.new_page()
    errors = errors_of(page)
    yield page
    page.close()
    assert not errors


def test_signing_in_and_out(server: RunningServer, browser: Browser) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800}, locale="ru-RU")
    page = context.new_page()
    page.goto(f"{server.url}/funcs/{server.namespace}")
    expect(page.get_by_role("heading", name="Вход")).to_be_visible()
    shoot(page, "sign-in-390-ru")
    page.get_by_label("Токен доступа").fill("x.y.z")
    page.get_by_role("button", name="Войти").click()
    expect(page.get_by_role("alert")).to_contain_text("JWT")
    page.get_by_label("Токен доступа").fill(server.token)
    page.get_by_role("button", name="Войти").click()
    expect(page).to_have_url(f"{server.url}/funcs/{server.namespace}")
    (cookie,) = [item for item in context.cookies() if item["name"] == "sless_token"]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Lax", "/funcs")
    assert page.evaluate("document.cookie") == ""
    assert page.evaluate("localStorage.length + sessionStorage.length") == 0
    page.get_by_label("Учётная запись").click()
    page.get_by_role("button", name="Выйти").click()
    expect(page.get_by_role("heading", name="Вход")).to_be_visible()
    assert not [item for item in context.cookies() if item["name"] == "sless_token"]
    context.close()


def test_the_list_leads_to_the_details(console: Console, page: Page) -> None:
    page.goto(console.base)
    shoot(page, "list-1440-en")
    page.get_by_role("link", name="hello", exact=True).click()
    expect(page.get_by_role("heading", name="hello")).to_be_visible()
    expect(page.locator("main")).to_contain_text(f"/fn/{console.server.namespace}/hello")
    shoot(page, "function-1440-en")


def test_the_policy_stops_inline_scripts(console: Console) -> None:
    page = console.context.new_page()
    page.goto(console.base)
    page.evaluate("const made = document.createElement('script'); made.textContent = 'window.ran = 1'; document.body.append(made)")
    assert page.evaluate("window.ran") is None
    assert page.evaluate("document.styleSheets.length") == 1
    page.close()


def test_the_rest_interface_needs_cookie_and_key(console: Console, page: Page) -> None:
    page.goto(console.base)
    path = f"/funcs/-/v1/namespaces/{console.server.namespace}/functions"
    fetched = "async ([path, key]) => (await fetch(path, {headers: key ? {'X-Sless-Console': key} : {}})).status"
    key = page.evaluate("JSON.parse(document.getElementById('page-data').textContent).key")
    assert page.evaluate(fetched, [path, key]) == 200
    # What follows is refused, which browsers report on their console.
    other = console.context.new_page()
    other.goto(f"{console.base}")
    assert other.evaluate(fetched, [path, ""]) == 403
    assert other.evaluate(fetched, [path, "0" * 32]) == 403
    assert other.evaluate(fetched, [f"/v1/namespaces/{console.server.namespace}/functions", key]) == 401
    # A script of a function on this host cannot read the key either.
    fetched_page = "async (url) => await (await fetch(url, {headers: {Accept: 'text/html'}})).text()"
    found = other.evaluate(fetched_page, console.base)
    assert "Sign in" in found and key not in found
    other.close()
