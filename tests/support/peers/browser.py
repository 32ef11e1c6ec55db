"""A real browser, and pages that complain of what goes wrong in them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

CHROMIUM = shutil.which("chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; its own event loop runs in this thread from then on."""
    if CHROMIUM is None:
        pytest.skip("no chromium on PATH (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@contextmanager
def quiet_page(browser: Browser, **context: Any) -> Iterator[Page]:
    """A page of a browser of its own; a script's error, or a breach of the policy, is a failure."""
    opened = browser.new_context(**context)
    page = opened.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("dialog", lambda dialog: errors.append(dialog.message))
    page.on("console", lambda line: errors.append(line.text) if "Policy" in line.text else None)
    yield page
    opened.close()
    assert not errors


def assert_accessible(page: Page) -> None:
    """Axe finds nothing to complain about."""
    found = Axe().run(page, options={"runOnly": ["wcag2a", "wcag2aa", "best-practice"]})
    assert found.violations_count == 0, (page.url, found.generate_report())
