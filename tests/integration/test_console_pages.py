"""The console's pages in a real browser: ways through them, hostile messages, accessibility."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from markupsafe import escape
from playwright.sync_api import Browser, Page, expect
from support.brokers.console_parts import Consoled, console, consoled
from support.brokers.control_parts import Control
from support.peers.browser import assert_accessible, chromium, quiet_page

from pocketmq.client import Message
from pocketmq.console import pages

HOSTILE = (
    "</td></pre><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    "<a href='javascript:window.hit = 1'>x</a>{{ 7 * 7 }}"
)
PAGES = (
    "/", "/topics", "/topics?kind=all", "/topics/Orders", "/topics/Orders/messages?start=earliest",
    "/groups", "/groups?builtIn=true", "/groups/billing", "/groups/billing/dead-letters",
    "/topics/Nobody", "/topics/Orders/messages?start=never",
)  # fmt: skip


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    with consoled(brokers=2, topics={"Orders": 2}, groups=["billing"]) as running:
        with running.cluster.producer() as producer:
            for number in range(5):
                body = f'{{"order": {number}}}'.encode()
                producer.send(Message("Orders", body, tags="new", keys=[f"k{number}"]))
            producer.send(
                Message("Orders", HOSTILE.encode(), keys=["hostile"], properties={"<b>": HOSTILE})
            )
            producer.send(Message("Orders", b"\xff\xfe\x00", keys=["binary"]))
        with running.cluster.push_consumer("billing", listener=lambda _: None) as consumer:
            consumer.subscribe("Orders")
            running.cluster.drain("billing")
        yield running


@pytest.fixture(scope="module")
def browser(shared: Consoled) -> Iterator[Browser]:
    """A browser; its own event loop runs in this thread from then on."""
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, shared: Consoled) -> Iterator[Page]:
    with quiet_page(browser, base_url=f"http://{shared.server.address}") as page:
        yield page


def html(address: str, path: str) -> tuple[int, http.client.HTTPMessage, str]:
    connection = http.client.HTTPConnection(address)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def test_the_way_from_the_overview_to_a_message(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("row").filter(has_text="broker-b")).to_have_count(1)
    page.get_by_role("link", name="Topics").click()
    page.get_by_label("Name contains").fill("ord")
    page.get_by_role("button", name="Filter").click()
    assert "contains=ord" in page.url
    page.get_by_role("link", name="Orders", exact=True).click()
    assert "7 messages" in page.inner_text("main")
    page.get_by_role("link", name="Browse messages").click()
    page.get_by_label("Key").fill("k3")
    page.get_by_role("button", name="Search").click()
    assert "1 found, 7 looked at" in page.get_by_role("status").inner_text()
    row = page.get_by_role("row").filter(has_text="k3")
    row.get_by_role("link").click()
    assert page.inner_text(".tree li") == "order: 3"
    assert page.title().startswith("Message ")
    page.get_by_label("Group").fill("billing")
    page.get_by_role("button", name="Why is it not consumed?").click()
    assert "consumed" in page.inner_text("main strong")
    assert page.get_by_role("row").count() > 1


def test_the_way_to_a_group_and_its_lag(page: Page) -> None:
    page.goto("/groups")
    page.get_by_role("link", name="billing").click()
    lag = page.get_by_role("table", name="Lag")
    expect(lag.get_by_role("row").filter(has_text="Orders")).to_have_count(4)
    assert "0 messages left" in page.inner_text("main")
    page.get_by_role("main").get_by_role("link", name="dead letters").click()
    assert "that is all" in page.get_by_role("status").inner_text()


def test_a_search_goes_on(page: Page) -> None:
    page.goto("/topics/Orders/messages?start=earliest&limit=5")
    assert "there may be more" in page.get_by_role("status").inner_text()
    page.get_by_role("link", name="Go on").click()
    assert "2 found, 2 looked at; that is all." in page.get_by_role("status").inner_text()


def test_hostile_messages_do_nothing(page: Page) -> None:
    page.goto("/topics/Orders/messages?start=earliest&key=hostile")
    assert HOSTILE[:40] in page.inner_text("table")
    page.get_by_role("row").filter(has_text="hostile").get_by_role("link").click()
    assert page.inner_text("pre") == HOSTILE
    assert page.evaluate("window.hit") is None
    page.goto("/topics/Orders/messages?start=earliest&key=binary")
    page.get_by_role("row").filter(has_text="binary").get_by_role("link").last.click()
    assert "ff fe 00" in page.inner_text("pre")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.whole_console)])
def test_no_page_has_an_accessibility_violation(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    explained = "/topics/Orders/messages/broker-a:0:0/explanation?group=billing"
    for path in (*PAGES, explained):
        page.goto(path)
        assert_accessible(page)


def test_the_keyboard_suffices(page: Page) -> None:
    page.goto("/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    for _ in range(2):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics")
    page.get_by_label("Name contains").focus()
    page.keyboard.type("ord")
    page.keyboard.press("Enter")
    page.wait_for_url("**contains=ord**")
    page.get_by_role("link", name="Orders", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/Orders")


def test_pages_run_no_script_but_the_consoles_own(shared: Consoled) -> None:
    for path in PAGES:
        status, headers, text = html(shared.server.address, path)
        assert status in (200, 400, 404), path
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        scripts = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
        assert [content for _, content in scripts] == [""] * len(scripts)
        assert all('src="/static/' in attributes for attributes, _ in scripts)
        assert not re.search(r"\son[a-z]+=|style=", text.replace(escape(HOSTILE), ""))
        assert headers["X-Content-Type-Options"] == "nosniff"
    status, headers, _ = html(shared.server.address, "/static/style.css")
    assert (status, headers.get_content_type()) == (200, "text/css")
    assert html(shared.server.address, "/static/../pages.py")[0] == 404


def test_scripts_of_others_are_small_and_licensed() -> None:
    vendor = Path(pages.__file__).parent / "static" / "vendor"
    scripts = sorted(vendor.glob("*.js"))
    assert scripts
    assert sum(script.stat().st_size for script in scripts) < 150_000
    named = (vendor / "VERSIONS.txt").read_text("utf-8")
    assert all(script.name in named for script in scripts)
    assert all((vendor / name).exists() for name in re.findall(r"[\w.]+LICENSE[\w.]*txt", named))


def test_shortcuts_of_every_page(page: Page) -> None:
    page.goto("/topics")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.name") == "contains"
    page.keyboard.type("/?")
    assert page.get_by_label("Name contains").input_value() == "/?"
    page.get_by_role("link", name="Groups").focus()
    page.keyboard.press("?")
    shortcuts = page.get_by_role("dialog", name="Shortcuts")
    assert "goes to the filter" in shortcuts.inner_text()
    assert_accessible(page)
    page.keyboard.press("Escape")
    assert not shortcuts.is_visible()


def test_the_theme_is_kept(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    button = page.get_by_role("button", name="Theme")
    for expected in ("Theme: light", "Theme: dark"):
        button.click()
        assert button.inner_text() == expected
    dark = page.evaluate(ground)
    assert dark != light
    page.goto("/topics")
    assert (button.inner_text(), page.evaluate(ground)) == ("Theme: dark", dark)
    button.click()
    page.reload()
    assert (button.inner_text(), page.evaluate(ground)) == ("Theme: system", light)


def test_pages_are_read_without_script(browser: Browser, shared: Consoled) -> None:
    context = browser.new_context(
        base_url=f"http://{shared.server.address}", java_script_enabled=False
    )
    page = context.new_page()
    page.goto("/topics?contains=ord")
    assert page.get_by_role("button", name="Theme").count() == 0
    page.get_by_role("link", name="Orders", exact=True).click()
    assert "7 messages" in page.inner_text("main")
    context.close()


def test_links_behind_a_proxy_have_its_path(shared: Consoled) -> None:
    with console(shared.cluster, base="/mq") as running:
        _, _, text = html(running.server.address, "/topics/Orders")
        links = [part.split('"')[0] for part in text.split('href="')[1:]]
        assert len(links) > 6
        assert all(link.startswith(("/mq/", "#")) for link in links)


def test_a_page_of_another_site_gets_none(shared: Consoled) -> None:
    api = Control(shared.server.address)
    connection = http.client.HTTPConnection(api.address)
    connection.request("GET", "/", headers={"Sec-Fetch-Site": "cross-site"})
    assert connection.getresponse().status == 403
    connection.close()
