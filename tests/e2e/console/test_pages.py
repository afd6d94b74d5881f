"""The console in a real browser, on a real server."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import RunningServer
from tests.e2e.console.conftest import Console
from tests.services.browser import shoot

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.slow]


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
