"""Triggers, settings and deleting in a real browser; accessibility of the pages."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import wait_until
from tests.e2e.console.conftest import Console
from tests.services.browser import errors_of, shoot

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.slow]

AXE = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"], "resultTypes": ["violations"]}
PAGES = {
    "list": "", "function": "/functions/hello", "function-triggers": "/functions/hello/triggers", "settings": "/functions/hello/settings",
    "triggers": "/triggers", "trigger": "/triggers/hello", "new-trigger": "/new-trigger?type=cron",
    "examples": "/examples", "guide": "/guide", "new": "/new", "usage": "/usage",
    "code": "/functions/hello/code", "run": "/functions/hello/run", "versions": "/functions/hello/versions",
    "calls": "/functions/hello/calls", "logs": "/functions/hello/logs", "charts": "/functions/hello/charts",
    "job": "/jobs/sums", "job-settings": "/jobs/sums/settings",
}  # fmt: skip


def test_a_schedule_explains_itself_and_fires(console: Console, page: Page) -> None:
    page.goto(f"{console.base}/functions/hello")
    page.get_by_role("link", name="New trigger").click()
    expect(page.get_by_role("combobox", name="Calls")).to_have_value("hello")
    page.get_by_role("radio", name="Schedule").check()
    page.get_by_label("Name").fill("Nightly")
    page.get_by_label("Schedule", exact=True).fill("30 4 * *")
    expect(page.locator("#explained")).to_contain_text("expected five fields")
    page.get_by_label("Schedule", exact=True).fill("30 4 * * 1-5")
    page.get_by_role("combobox", name="Time zone").fill("Europe/Moscow")
    expect(page.locator("#explained")).to_contain_text("at 04:30, Monday to Friday")
    expect(page.locator("#explained li")).to_have_count(5)
    expect(page.locator("#explained li").first).to_contain_text("04:30")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("#error-f-name")).to_contain_text("expected a name")
    page.get_by_label("Name").fill("nightly")
    page.get_by_role("button", name="Create").click()
    expect(page).to_have_url(f"{console.base}/triggers/nightly")
    page.get_by_role("button", name="Fire now").click()
    page.get_by_role("link", name="View call").click()
    expect(page.locator("main")).to_contain_text("schedule")


def test_a_trigger_is_switched_and_deleted(console: Console, page: Page) -> None:
    console.rest("POST", "triggers", json={"name": "often", "type": "cron", "function_ref": "hello", "schedule": "*/5 * * * *"})
    page.goto(f"{console.base}/triggers")
    row = page.locator('tr[data-trigger="often"]')
    row.get_by_role("switch").click()
    expect(row).to_contain_text("Off")
    assert console.rest("GET", "triggers/often").json()["enabled"] is False
    row.get_by_role("link", name="often").click()
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Type often to confirm").fill("often")
    dialog.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(f"{console.base}/triggers")
    assert console.rest("GET", "triggers/often").status_code == 404


def test_an_api_key_is_shown_once(console: Console, page: Page) -> None:
    page.goto(f"{console.base}/triggers/hello")
    tops = [page.locator(f".columns .card:visible >> nth={number}").bounding_box()["y"] for number in (0, 1)]  # type: ignore[index]
    assert tops[0] == tops[1], "both columns begin at the same height"
    page.get_by_label("Who may call").select_option("key")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#key-text")).not_to_be_empty()
    key = page.locator("#key-text").inner_text()
    assert len(key) > 20
    page.get_by_role("link", name="I have copied it").click()
    page.goto(f"{console.base}/triggers/hello")
    expect(page.get_by_role("button", name="New API key")).to_be_visible()
    assert key not in page.content()
    console.rest("PATCH", "triggers/hello", json={"auth": "none"})


def test_settings_with_errors_next_to_the_fields(console: Console, page: Page) -> None:
    page.goto(f"{console.base}/functions/hello/settings")
    memory = page.get_by_label("Memory, MB")
    memory.fill("lots")
    page.locator('button[data-add="env_vars"]').click()
    page.get_by_label("Name", exact=True).fill("1BAD")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#error-f-memory_mb")).to_contain_text("expected a whole number")
    expect(page.locator('[data-field="env_vars"] .field-error')).to_contain_text("1BAD")
    expect(memory).to_be_focused()
    memory.fill("256")
    page.get_by_label("Name", exact=True).fill("GREETING")
    value = page.get_by_label("Value")
    assert value.get_attribute("type") == "password"
    value.fill("Hi")
    page.keyboard.press("Control+s")
    expect(page.locator("#saved")).to_have_text("Saved")
    item = console.rest("GET", "functions/hello").json()
    assert (item["memory_mb"], item["env_vars"]) == (256, {"GREETING": "Hi"})
    # A concurrent change is not overwritten.
    console.rest("PATCH", "functions/hello", json={"description": "theirs"})
    memory.fill("512")
    with page.expect_response(re.compile("/functions/hello$")) as refused:
        page.get_by_role("button", name="Save").click()
    assert refused.value.status == 412


def test_deleting_asks_for_the_name(console: Console, page: Page) -> None:
    console.rest("POST", "functions", json={"name": "short-lived", "runtime": "python3.11"})
    page.goto(f"{console.base}/functions/short-lived/settings")
    page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type short-lived to confirm").fill("short")
    expect(dialog.get_by_role("button", name="Delete")).to_be_disabled()
    dialog.get_by_label("Type short-lived to confirm").fill("short-lived")
    dialog.get_by_role("button", name="Delete").click()
    expect(page).to_have_url(console.base)
    wait_until(lambda: console.rest("GET", "functions/short-lived").status_code == 404, "short-lived is gone")


@pytest.mark.parametrize(("width", "locale", "scheme"), [(1440, "en-GB", "light"), (390, "ru-RU", "dark")])
def test_every_page_is_accessible_and_fits(console: Console, browser: Browser, width: int, locale: str, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, locale=locale, color_scheme=scheme)  # type: ignore[arg-type]
    context.add_cookies(console.context.cookies())
    console.rest("POST", "jobs", json={"name": "sums", "runtime": "python3.11"})
    page, axe = context.new_page(), Axe()
    errors = errors_of(page)
    found: list[str] = []
    for name, path in PAGES.items():
        page.goto(console.base + path)
        shoot(page, f"{name}-{width}-{locale[:2]}-{scheme}")
        serious = [item for item in axe.run(page, options=AXE).response["violations"] if item["impact"] in ("serious", "critical")]
        found += [f"{name}: {item['id']}: {item['nodes'][0]['html']}" for item in serious]
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(f"{name}: wider than the screen")
    context.close()
    assert not found and not errors
