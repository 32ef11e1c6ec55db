"""The page that follows a topic, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from support.brokers.timed_console import Timed, timed
from support.peers.browser import assert_accessible, chromium, quiet_page

from pocketmq.client import Message
from pocketmq.console.api.tails.bodies import SHOWN_MAX
from pocketmq.console.api.tails.tail import PAUSE_S
from pocketmq.testing import Cluster, LocalCluster

HOSTILE = (
    "</td><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    "<a href='javascript:window.hit = 1'>x</a>"
)
ROWS_MAX = 500


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with LocalCluster(topics={"Orders": 2}) as running:
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
        yield page


def follow(page: Page, query: str = "") -> None:
    """Opens the page, and waits until its tail has begun."""
    with page.expect_response("**/api/v1/topics/*/tail**") as answer:
        page.goto(f"/topics/Orders/tail{query}")
    assert answer.value.status == 200
    expect(page.get_by_role("status")).to_have_text("Following.")


def send(cluster: Cluster, count: int, body: str = "body", tags: str | None = None) -> None:
    with cluster.producer() as producer:
        for number in range(count):
            producer.send(Message("Orders", f"{body} {number}".encode(), tags=tags))


def test_new_messages_and_how_many_are_not_shown(console: Timed, page: Page) -> None:
    page.goto("/topics/Orders")
    page.get_by_role("link", name="Follow new messages").click()
    expect(page.get_by_role("status")).to_have_text("Following.")
    page.wait_for_function("performance.getEntriesByType('resource').length > 0")
    settled(console, page)
    send(console.cluster, 120)
    console.advance(PAUSE_S)
    expect(page.locator("#tail-shown")).to_have_text(str(SHOWN_MAX))
    expect(page.locator("#tail-notShown")).to_have_text(str(120 - SHOWN_MAX))
    expect(page.locator("#tail-notFitting")).to_have_text("0")
    expect(page.locator("tbody tr")).to_have_count(SHOWN_MAX + 1)
    expect(page.locator("tbody tr").last).to_have_text(f"{120 - SHOWN_MAX} not shown")
    assert "body 1" in page.locator("tbody tr").first.inner_text()  # of those of one moment any
    page.get_by_role("row").filter(has_text="body 119").get_by_role("link").click()
    assert page.title().startswith("Message ")
    assert page.inner_text("pre") == "body 119"


def settled(console: Timed, page: Page) -> None:
    """Waits until the tail of the page knows where the queues end."""
    while console.server.tails.count == 0:
        page.wait_for_function("true")
    page.wait_for_function("document.getElementById('tail-state').textContent === 'Following.'")
    console.advance(PAUSE_S)


def test_a_pause_is_counted(console: Timed, page: Page) -> None:
    follow(page)
    settled(console, page)
    page.keyboard.press("Space")
    expect(page.get_by_role("status")).to_contain_text("Paused")
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    send(console.cluster, 7)
    page.keyboard.press("Space")
    expect(page.get_by_role("status")).to_have_text("Following.")
    settled(console, page)
    expect(page.locator("tbody tr")).to_have_count(7)
    page.get_by_label("Tag").focus()
    page.keyboard.press("Space")
    expect(page.get_by_role("status")).to_have_text("Following.")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("tbody tr")).to_have_count(0)


def test_a_filter_stands_in_the_address(console: Timed, page: Page) -> None:
    follow(page)
    page.get_by_label("Tag").fill("a")
    with page.expect_response("**/api/v1/topics/Orders/tail?tag=a"):
        page.get_by_role("button", name="Follow").click()
    assert "tag=a" in page.url
    settled(console, page)
    send(console.cluster, 3, tags="a")
    send(console.cluster, 4, tags="b")
    console.advance(PAUSE_S)
    expect(page.locator("#tail-shown")).to_have_text("3")
    expect(page.locator("#tail-notFitting")).to_have_text("4")
    page.goto("/topics/Orders/tail?where=a%20%3E")
    expect(page.get_by_role("heading")).to_have_text("The request does not fit")


def test_a_page_keeps_so_many_rows(console: Timed, page: Page) -> None:
    follow(page)
    for batch in range(1, ROWS_MAX // SHOWN_MAX + 3):
        settled(console, page)
        send(console.cluster, SHOWN_MAX, f"batch {batch}")
        console.advance(PAUSE_S)
        expect(page.locator("#tail-shown")).to_have_text(str(batch * SHOWN_MAX))
    expect(page.locator("tbody tr")).to_have_count(ROWS_MAX)


def test_hostile_messages_do_nothing(console: Timed, page: Page) -> None:
    follow(page)
    settled(console, page)
    send(console.cluster, 1, HOSTILE, tags=HOSTILE[:60])
    console.advance(PAUSE_S)
    row = page.locator("tbody tr")
    expect(row).to_have_count(1)
    assert HOSTILE in row.inner_text()
    assert page.evaluate("window.hit") is None
    assert row.locator("script, img").count() == 0


def test_the_page_says_why_a_tail_has_ended(console: Timed, page: Page) -> None:
    follow(page, "?seconds=5")
    settled(console, page)
    console.advance(6)
    expect(page.get_by_role("status")).to_have_text("Ended: a tail goes on for 5 s.")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.whole_console)])
def test_no_accessibility_violation(console: Timed, page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    follow(page)
    settled(console, page)
    send(console.cluster, SHOWN_MAX + 1)
    console.advance(PAUSE_S)
    expect(page.locator("#tail-notShown")).to_have_text("1")
    assert_accessible(page)


def test_without_script_the_page_leads_to_the_messages(browser: Browser, console: Timed) -> None:
    context = browser.new_context(
        base_url=f"http://{console.server.address}", java_script_enabled=False
    )
    page = context.new_page()
    page.goto("/topics/Orders/tail")
    page.get_by_role("link", name="Browse the newest messages").click()
    assert page.get_by_role("heading").inner_text() == "Messages of Orders"
    context.close()
