"""The pages on which people find and read messages, in a real browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest
from playwright.sync_api import Browser, Page, expect
from support.brokers.console_parts import Consoled, console, consoled
from support.peers.browser import assert_accessible, chromium, quiet_page

from pocketmq.client import Message

HOSTILE = (
    "</li></pre></details><script>window.hit = 1</script><img src=x onerror='window.hit = 1'>"
    "<a href='javascript:window.hit = 1'>x</a>{{ 7 * 7 }}\u202e"
)
HOUR_MS = 3_600_000

DECODER = """
class Backwards:
    name = "<b>backwards</b>"

    def suits(self, body, topic, properties):
        return properties.get("format") == "backwards"

    def decode(self, body, topic, properties):
        if body == b"bad":
            raise ValueError("<script>window.hit = 1</script>")
        return {"text": bytes(reversed(body)).decode()}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A package with a decoder, as it is installed."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "backwards_decoder.py").write_text(DECODER, "utf-8")
    about = folder / "backwards_decoder-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: backwards-decoder\nVersion: 1.0\n"
    )
    entry = "[pocketmq.decoders]\nbackwards = backwards_decoder:Backwards\n"
    (about / "entry_points.txt").write_text(entry)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield


@pytest.fixture(scope="module")
def shared(installed: None) -> Iterator[Consoled]:
    topics = {"Orders": 1, "Hostile": 1}
    with consoled(brokers=1, topics=topics, groups=["billing"]) as running:
        with running.cluster.producer("shop", enable_trace=True) as producer:
            for number in range(120):
                body = {"order": number, "customer": {"id": number % 3, "tags": ["a", "b"]}}
                producer.send(Message("Orders", json.dumps(body).encode(), keys=[f"k{number}"]))
            value = {HOSTILE: [HOSTILE, {"deep": HOSTILE}], "bytes": HOSTILE.encode()}
            text = json.dumps({key: item for key, item in value.items() if key != "bytes"})
            long = {"long": "x" * 5000 + HOSTILE, "n": list(range(300))}
            for key, content in (
                ("text", HOSTILE.encode()),
                ("json", text.encode()),
                ("packed", msgpack.packb(value)),
                ("binary", b"\xff\xfe" + HOSTILE.encode()),
                ("long", json.dumps(long).encode()),
            ):
                producer.send(Message("Hostile", content, keys=[key], properties={"<b>": HOSTILE}))
            for key, content in (("backwards", b"cba"), ("failing", b"bad")):
                producer.send(
                    Message("Hostile", content, keys=[key], properties={"format": "backwards"})
                )
            at_ms = running.cluster.clock.now_ms() + HOUR_MS
            producer.send(Message("Orders", HOSTILE.encode(), keys=["later"], deliver_at_ms=at_ms))
        with running.cluster.push_consumer(
            "billing", listener=lambda _: None, enable_trace=True
        ) as consumer:
            consumer.subscribe("Orders")
            running.cluster.drain("billing")
        yield running


@pytest.fixture(scope="module")
def browser(shared: Consoled) -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, shared: Consoled) -> Iterator[Page]:
    with quiet_page(browser, base_url=f"http://{shared.server.address}") as page:
        yield page


def open_message(page: Page, key: str, topic: str = "Hostile") -> None:
    page.goto(f"/topics/{topic}/lookup?key={key}")
    page.locator("td.number a").first.click()


def assert_harmless(page: Page) -> None:
    assert page.evaluate("window.hit") is None
    assert page.locator("main script, main img, a[href^=javascript]").count() == 0


@pytest.mark.parametrize("key", ["text", "json", "packed", "binary", "long", "failing"])
def test_no_decoder_lets_a_hostile_body_out(page: Page, key: str) -> None:
    open_message(page, key)
    address = page.url
    for decoder in ("", "json", "msgpack", "text", "hex", "<b>backwards</b>"):
        page.goto(f"{address.partition('?')[0]}?decoder={decoder}")
        expect(page.locator("h2#body")).to_have_count(1)
        assert page.locator(".tree, main pre, .bad").count() >= 1
        assert_harmless(page)


def test_a_tree_folds_by_the_keyboard(page: Page) -> None:
    open_message(page, "k7", "Orders")
    assert "order: 7" in page.inner_text(".tree")
    assert page.get_by_text("tags", exact=True).is_visible()
    summary = page.locator(".tree summary").filter(has_text="customer").first
    summary.focus()
    page.keyboard.press("Enter")
    assert not page.get_by_text("tags", exact=True).is_visible()
    page.get_by_role("link", name="text", exact=True).click()
    assert json.loads(page.inner_text("main pre"))["order"] == 7


def test_a_long_body_is_loaded_in_parts(page: Page) -> None:
    open_message(page, "long")
    page.locator(".tree details").filter(has_text="list of 300").get_by_text(
        "load the rest"
    ).click()
    assert "Part /n from 100 on" in page.inner_text("main")
    assert "299: 299" in page.inner_text(".tree")
    page.get_by_role("link", name="the whole body").click()
    page.locator(".tree > ul > li").first.get_by_text("load the rest").click()
    assert page.inner_text("main pre").endswith("{{ 7 * 7 }}\u202e")
    assert_harmless(page)


def test_a_decoder_of_another_package(page: Page) -> None:
    open_message(page, "backwards")
    assert page.inner_text(".tree li") == "text: abc"
    open_message(page, "failing")
    assert "failed: ValueError: <script>" in page.inner_text(".bad")
    assert "Properties" in page.inner_text("main")


def test_a_search_by_the_content_of_bodies(page: Page) -> None:
    page.goto("/topics/Orders/messages")
    expect(page.get_by_role("table", name="Messages").get_by_role("row")).to_have_count(51)
    page.get_by_role("link", name="Older messages").click()
    assert page.inner_text("tbody td.number") == "69"
    page.get_by_label("Start").fill("earliest")
    page.get_by_label("SQL92").fill("body.customer.id = 1 AND body.order < 30")
    page.get_by_role("button", name="Search").click()
    assert "10 found, 120 looked at; that is all." in page.get_by_role("status").inner_text()
    assert "where=body.customer.id" in page.url
    with page.expect_download() as downloading:
        page.get_by_role("link", name="as JSON lines").click()
    assert downloading.value.suggested_filename == "Orders.jsonl"
    lines = Path(downloading.value.path()).read_text("utf-8").splitlines()
    assert [json.loads(json.loads(line)["body"])["order"] for line in lines] == list(
        range(1, 30, 3)
    )
    page.get_by_label("In the index").fill("k5")
    page.get_by_role("button", name="Look up").click()
    assert "1 found by the indexes" in page.get_by_role("status").inner_text()


def test_two_messages_are_compared(page: Page) -> None:
    open_message(page, "k1", "Orders")
    page.get_by_label("Other message").fill("broker-a:0:4")
    page.get_by_role("button", name="Compare").click()
    table = page.get_by_role("table", name="Differences")
    row = table.get_by_role("row").filter(has_text="body/order")
    assert row.locator("td").all_inner_texts() == ["changed", "1", "4"]
    assert table.get_by_text("body/customer/id").count() == 0


def test_traces_are_bars_and_rows(page: Page) -> None:
    open_message(page, "k3", "Orders")
    page.get_by_role("link", name="Traces of this message").click()
    rows = page.get_by_role("table", name="Spans").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(page.locator("svg rect.done")).to_have_count(3)
    widths = page.locator("svg rect.done").evaluate_all("all => all.map(e => e.getBBox().width)")
    assert all(width >= 6 for width in widths)
    assert "billing" in rows.filter(has_text="consume").inner_text()


def test_a_timer_message_is_called_back(page: Page) -> None:
    page.goto("/topics/Orders")
    page.get_by_role("link", name="What waits").click()
    row = page.get_by_role("row").filter(has_text="later")
    assert HOSTILE[:30] in row.inner_text()
    assert_harmless(page)
    row.get_by_role("link", name="call it back").click()
    page.get_by_role("button", name="Call it back").click()
    assert "is called back" in page.locator(".notice").inner_text()
    assert "0 wait" in page.locator("main p[role=status]").last.inner_text()
    assert "1 were called back" in page.locator("main p[role=status]").last.inner_text()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.whole_console)])
def test_no_page_has_an_accessibility_violation(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    message = "/topics/Hostile/messages/broker-a:0:1"
    for path in (
        "/topics/Orders/messages", "/topics/Orders/lookup?key=k1",
        message, f"{message}?decoder=hex",
        f"{message}?decoder=msgpack", f"{message}/difference?other=broker-a:0:2",
        "/topics/Orders/messages/broker-a:0:3/trace", "/topics/Orders/messages/none/trace",
        "/topics/Orders/waiting", "/topics/Orders/waiting?kind=half",
        "/topics/Orders/waiting?kind=level", "/groups/billing/in-flight?topic=Orders",
    ):  # fmt: skip
        page.goto(path)
        assert_accessible(page)


def test_pages_without_bodies_and_without_writing(browser: Browser, shared: Consoled) -> None:
    with console(shared.cluster, no_bodies=True, read_only=True) as running:
        context = browser.new_context(base_url=f"http://{running.server.address}")
        page = context.new_page()
        page.goto("/topics/Orders/messages")
        assert page.get_by_role("link", name="as JSON lines").count() == 0
        page.goto("/topics/Orders/messages/broker-a:0:1")
        assert "This console shows no bodies" in page.inner_text("main")
        page.goto("/topics/Orders/waiting")
        assert page.get_by_role("link", name="call it back").count() == 0
        answer = page.goto("/topics/Orders/waiting/x/recall")
        assert answer is not None
        assert answer.status == 403
        context.close()
