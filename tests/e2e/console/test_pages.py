"""The console in a real browser, on a real server."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import RunningServer, ok, wait_until
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


def test_a_link_signs_in_once(server: RunningServer, browser: Browser) -> None:
    link = ok(server.sless("console", "--sub", "by-link")).strip()
    assert link.startswith(f"{server.url}/funcs?code=")
    context = browser.new_context(locale="en-GB")
    page = context.new_page()
    page.goto(link)
    expect(page.get_by_role("heading", name="Create your first function")).to_be_visible()
    shoot(page, "empty-1280-en")
    assert "code=" not in page.url
    page.get_by_label("Account").click()
    expect(page.get_by_text("by-link", exact=True).last).to_be_visible()
    context.clear_cookies()
    page.goto(link)
    expect(page.get_by_role("alert")).to_contain_text("used already")
    context.close()


def test_the_list_leads_to_the_details(console: Console, page: Page) -> None:
    page.goto(console.base)
    shoot(page, "list-1440-en")
    page.get_by_role("link", name="hello", exact=True).click()
    expect(page.get_by_role("heading", name="hello")).to_be_visible()
    expect(page.locator("main")).to_contain_text(f"/fn/{console.server.namespace}/hello")
    shoot(page, "function-1440-en")


def test_the_list_stays_current(console: Console, page: Page) -> None:
    page.goto(console.base)
    row = page.locator('tr[data-key="function/hello"]')
    expect(page.locator("#live")).to_have_text("Live")
    cells = row.locator("th, td:not(.c-last)")  # how long ago the last call was changes by itself
    drawn_by_server = cells.all_inner_texts()
    console.rest("POST", "functions", json={"name": "added", "runtime": "nodejs20"})
    expect(page.locator('tr[data-key="function/added"]')).to_contain_text("Pending")
    keys = [str(item.get_attribute("data-key")) for item in page.locator("#list tbody tr").all()]
    assert keys == sorted(keys, key=lambda key: (key.startswith("job/"), key.split("/")[1])) and "function/hello" in keys
    # The script draws a row as the server does.
    console.rest("PATCH", "triggers/hello", json={"enabled": False})
    expect(row).to_contain_text("HTTP (off)")
    console.rest("PATCH", "triggers/hello", json={"enabled": True})
    expect(row).not_to_contain_text("(off)")
    wait_until(lambda: cells.all_inner_texts() == drawn_by_server, "the row looks as before")
    console.rest("DELETE", "functions/added")
    expect(page.locator('tr[data-key="function/added"]')).to_have_count(0)


def test_search_and_filters(console: Console, page: Page) -> None:
    page.goto(console.base)
    rows = page.locator("#list tbody tr")
    page.keyboard.press("/")
    page.keyboard.type("nothing like it")
    expect(page.get_by_text("No items match the filters.")).to_be_visible()
    page.get_by_role("button", name="Clear the filters").click()
    expect(rows.first).to_be_visible()
    page.get_by_role("button", name="Services").click()
    expect(page.get_by_text("No items match the filters.")).to_be_visible()
    assert page.url.endswith("?kind=service")
    page.reload()
    expect(page.get_by_text("No items match the filters.")).to_be_visible()


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
    # The following requests are refused, which browsers report on their console.
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
