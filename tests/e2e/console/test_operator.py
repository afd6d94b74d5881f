"""What operators do in a real browser: they find a tenant, suspend and resume it, set its limits, and revoke a token."""

from collections.abc import Iterator

import pytest
import requests
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.e2e.conftest import wait_until
from tests.e2e.console.conftest import Console
from tests.services.browser import WAIT_MS, errors_of, shoot
from tests.services.command_line import run_command

pytestmark = [pytest.mark.xdist_group("console"), pytest.mark.slow]


@pytest.fixture(scope="module")
def operator_context(console: Console, browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1440, "height": 900}, locale="en-GB")
    context.set_default_timeout(WAIT_MS)
    token = run_command(("token", "--sub", "operator@example.com"), console.server.place.environ).stdout.strip()
    page = context.new_page()
    page.goto(f"{console.server.url}/funcs?token={token}")
    page.close()
    yield context
    context.close()


@pytest.fixture
def desk(operator_context: BrowserContext, console: Console) -> Iterator[Page]:
    """The tenant's page, as operators see it."""
    page = operator_context.new_page()
    errors = errors_of(page)
    page.goto(f"{console.server.url}/funcs")
    page.get_by_role("link", name="Operations").click()
    functions = len(console.rest("GET", "functions").json())  # also those of other tests
    expect(page.locator(f'[data-tenant="{console.server.namespace}"]')).to_contain_text(f"{functions} / ")
    page.get_by_label("Namespace").fill(console.server.namespace)
    page.get_by_role("button", name="Open tenant").click()
    yield page
    page.close()
    assert not errors


def call(console: Console) -> requests.Response:
    return requests.get(f"{console.server.url}/fn/{console.server.namespace}/hello", timeout=60)


def suspend(page: Page, where: str, reason: str) -> None:
    page.locator(where).get_by_role("button", name="Suspend").click()
    page.get_by_role("dialog").get_by_label("Reason, shown to the tenant").fill(reason)
    with page.expect_navigation():
        page.get_by_role("dialog").get_by_role("button", name="Suspend").click()


def test_a_function_and_a_tenant_are_suspended_and_resumed(console: Console, desk: Page) -> None:
    row = '[data-workload="functions/hello"]'
    suspend(desk, row, "port scans")
    expect(desk.locator(row)).to_contain_text("Suspended: port scans")
    wait_until(lambda: call(console).headers.get("X-Sless-Error") == "suspended", "calls are refused")
    with desk.expect_navigation():
        desk.locator(row).get_by_role("button", name="Resume").click()
    wait_until(lambda: call(console).status_code == 200, "calls work again")
    suspend(desk, ".page-head", "mining")
    expect(desk.locator(".notice.bad").first).to_contain_text("mining")
    refused = console.rest("PATCH", "functions/hello", json={"description": "x"})
    assert refused.status_code == 403 and "mining" in refused.json()["error"]
    with desk.expect_navigation():
        desk.locator(".page-head").get_by_role("button", name="Resume").click()
    assert console.rest("PATCH", "functions/hello", json={"description": "x"}).status_code == 200


def test_limits_are_set(console: Console, desk: Page) -> None:
    field = desk.get_by_label("Builds per hour")
    field.fill("lots")
    desk.get_by_role("button", name="Save limits").click()
    expect(desk.locator(".field-error")).to_contain_text("lots")
    field.fill("77")
    with desk.expect_navigation():
        desk.get_by_role("button", name="Save limits").click()
    expect(desk.get_by_label("Builds per hour")).to_have_value("77")
    assert console.rest("GET", "usage").json()["limits"]["builds_per_hour"] == 77


def test_a_token_is_revoked(console: Console, desk: Page) -> None:
    leaked = run_command(("token", "--sub", "somebody"), console.server.place.environ).stdout.strip()

    def status() -> int:
        return requests.get(f"{console.server.url}/v1/whoami", headers={"Authorization": f"Bearer {leaked}"}, timeout=30).status_code

    assert status() == 200
    desk.get_by_role("link", name="Operations").last.click()
    desk.get_by_label("Token, or its jti").fill(f"Bearer {leaked}")
    desk.get_by_label("Reason").fill("leaked")
    with desk.expect_navigation():
        desk.get_by_role("button", name="Revoke").click()
    expect(desk.locator("section", has_text="Revoked tokens").last).to_contain_text("somebody: leaked")
    wait_until(lambda: status() == 401, "the token is refused")


@pytest.mark.parametrize(("width", "locale"), [(1440, "en-GB"), (390, "ru-RU")])
def test_the_pages_are_accessible_and_fit(
    console: Console, operator_context: BrowserContext, browser: Browser, width: int, locale: str
) -> None:  # fmt: skip
    context = browser.new_context(viewport={"width": width, "height": 900}, locale=locale)
    context.add_cookies(operator_context.cookies())
    page, axe = context.new_page(), Axe()
    page.goto(f"{console.server.url}/funcs")
    base, found = page.url + "/operator", []
    for name, path in (("operator", ""), ("operator-tenant", f"/{console.server.namespace}")):
        page.goto(base + path)
        shoot(page, f"{name}-{width}-{locale[:2]}")
        found += [item["id"] for item in axe.run(page).response["violations"] if item["impact"] in ("serious", "critical")]
        if page.evaluate("document.documentElement.scrollWidth") > width:
            found.append(f"{name}: wider than the screen")
    context.close()
    assert not found
