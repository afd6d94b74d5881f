"""Chromium of the system, driven by Playwright."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from tests.services import unavailable

SHOTS = Path(__file__).resolve().parents[1] / "e2e" / "shots"
"""Screenshots for people to look at; ignored by git."""

WAIT_MS = 30_000
"""How long pages may take on a loaded machine; Playwright's own 5 s are too short there."""
expect.set_options(timeout=WAIT_MS)

FIRST_PAINT = """() => new Promise((resolve) => new PerformanceObserver((list) => {
  for (const paint of list.getEntriesByName('first-contentful-paint')) resolve(paint.startTime);
}).observe({ type: 'paint', buffered: true }))"""
"""Script: milliseconds from the start of the navigation to the first text or picture."""


@contextmanager
def chromium() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        unavailable("Chromium", "chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


def errors_of(page: Page) -> list[str]:
    """Collects what the page writes to the browser's console as an error or warning, and exceptions of its scripts. Requests that the REST
    interface refuses are reported by every browser and are not errors of the page."""
    found: list[str] = []

    def on_message(message: ConsoleMessage) -> None:
        is_refusal = "/funcs/-/v1/" in message.location["url"] and "status of 4" in message.text
        if message.type in ("error", "warning") and not is_refusal:
            found.append(f"{message.type}: {message.text} ({page.url})")

    page.on("console", on_message)
    page.on("pageerror", lambda error: found.append(f"exception: {error} ({page.url})"))
    return found


def shoot(page: Page, name: str) -> None:
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")
