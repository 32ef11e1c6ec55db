"""Rates over time and the figures of topics in pages, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from support.brokers.timed_console import Timed, timed
from support.peers.browser import assert_accessible, chromium, quiet_page

from pocketmq.client import Message
from pocketmq.console.api.rates.history import STEP_S
from pocketmq.testing import Cluster, LocalCluster

LAST_STEP = "document.querySelector('.rates tbody tr')?.innerText ?? ''"
DRAWN = """() => {
  const canvas = document.querySelector('.chart canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return data.some((value) => value !== 0);
}"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with LocalCluster(topics={"Orders": 2}, groups=["billing"]) as running:
        with running.producer() as producer:
            producer.send(Message("Orders", b"body"))
        with running.push_consumer("billing", listener=lambda _: None) as consumer:
            consumer.subscribe("Orders")
            running.drain("billing")
        yield running


@pytest.fixture(scope="module")
def browser(cluster: Cluster) -> Iterator[Browser]:
    """A browser; its own event loop runs in this thread from then on."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def console(cluster: Cluster) -> Iterator[Timed]:
    with timed(cluster) as running:
        yield running


@pytest.fixture
def page(browser: Browser, console: Timed) -> Iterator[Page]:
    with quiet_page(browser, base_url=f"http://{console.server.address}") as page:
        page.clock.install()  # the browser's time stands still, too
        yield page


def opened(console: Timed, page: Page, path: str) -> None:
    """Opens a page, and waits until its first step begins."""
    page.goto(path)
    expect(page.locator(".rates-state")).to_have_text(f"The first step ends in {STEP_S:g} s.")


def step(console: Timed, page: Page, rows: int) -> None:
    """Lets a step end, and waits until the page shows it."""
    console.advance(STEP_S)
    while page.locator(".rates tbody tr").count() < rows:
        console.advance(0)
        page.clock.run_for(round(STEP_S * 1000))


@pytest.mark.parametrize("path", ["/", "/topics/Orders", "/groups/billing"])
def test_rates_as_a_chart_and_as_a_table(
    cluster: Cluster, console: Timed, page: Page, path: str
) -> None:
    opened(console, page, path)
    with cluster.producer() as producer:
        for _ in range(10):
            producer.send(Message("Orders", b"body"))
    step(console, page, 1)
    page.get_by_text("The same as a table").click()
    row = page.get_by_role("table", name="Messages a second").get_by_role("row").nth(1)
    expect(row).to_contain_text(f"{10 / STEP_S:.1f}")
    step(console, page, 2)
    expect(row).to_contain_text("0.0")
    assert page.evaluate(DRAWN)
    assert_accessible(page)


def test_rates_that_cannot_be_told_say_why(console: Timed, page: Page) -> None:
    with console.cluster.faults.answer("SYSTEM_ERROR", request="TOPIC_FIGURES"):
        page.goto("/topics/Orders")
        expect(page.locator(".rates-state")).to_contain_text("A broker refused")


def test_topics_with_figures(console: Timed, page: Page) -> None:
    page.goto("/topics")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="Orders", exact=True))
    cells = row.get_by_role("cell").all_inner_texts()
    assert cells[0] == "2"
    assert int(cells[1]) >= 1
    assert cells[2].endswith("B")
    assert_accessible(page)


def test_rates_are_read_without_script(cluster: Cluster, browser: Browser, console: Timed) -> None:
    context = browser.new_context(
        base_url=f"http://{console.server.address}", java_script_enabled=False
    )
    page = context.new_page()
    page.goto("/groups/billing")
    page.get_by_role("link", name="Messages a second").click()
    assert "The first step ends in 5 s" in page.inner_text("main")
    console.advance(STEP_S)
    while page.get_by_role("row").count() < 2:
        console.advance(0)
        page.reload()
    assert page.get_by_role("columnheader").all_inner_texts() == ["Time", "In", "Out", "Left"]
    context.close()
