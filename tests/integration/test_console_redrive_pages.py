"""Dead letters and redrives on the console's pages, in a real browser."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from support.brokers.console_parts import API, Consoled, console, consoled
from support.brokers.letter_parts import ended, give_up, redriven
from support.peers.browser import assert_accessible, chromium, quiet_page

from pocketmq.client import Message, ReceivedMessage
from pocketmq.testing import Cluster

HOSTILE = (
    "</pre></textarea><script>window.hit = 1</script>"
    "<img src=x onerror='window.hit = 1'>{{ 7 * 7 }}"
)


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    with consoled(brokers=2, topics={"Orders": 1, "Fixed": 1}) as running:
        yield running


@pytest.fixture(scope="module")
def browser(shared: Consoled) -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(shared: Consoled, browser: Browser) -> Iterator[Page]:
    with quiet_page(browser, base_url=f"http://{shared.server.address}") as page:
        yield page


_numbers = itertools.count()


@pytest.fixture
def group(shared: Consoled) -> str:
    """A group of its own, with four dead letters of which one is no JSON."""
    name = f"shop-{next(_numbers)}"
    shared.cluster.create_group(name)
    for number in range(3):
        give_up(
            shared, name, f'{{"order": {number}}}'.encode(), keys=[f"k{number}"],
            broker="broker-b" if number == 2 else "broker-a",
            tags="eu", error=f"KeyError: order 47{number} has no currency",
        )  # fmt: skip
    give_up(shared, name, HOSTILE.encode(), keys=["hostile"], error=HOSTILE)
    return name


def row(page: Page, text: str) -> Locator:
    return page.get_by_role("table", name="Dead letters").get_by_role("row").filter(has_text=text)


def copies(running: Consoled, group: str) -> list[ReceivedMessage]:
    return running.cluster.stored(f"%RETRY%{group}", missing_ok=True)


def drain(cluster: Cluster, group: str) -> None:
    """Waits until a group has nothing left; not in this thread, which has the browser's loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(cluster.drain, group).result()


# -- the main way -------------------------------------------------------------------------------


def test_a_failed_message_is_found_understood_edited_and_redriven(
    shared: Consoled, page: Page
) -> None:
    def charge(messages: list[ReceivedMessage]) -> None:
        for message in messages:
            handled.append(json.loads(message.body)["currency"])

    handled: list[str] = []
    cluster = shared.cluster
    with cluster.push_consumer("charging", listener=charge, max_reconsume_times=0) as consumer:
        consumer.subscribe("Orders")
        with cluster.producer() as producer:
            producer.send(Message("Orders", b'{"order": 4711}', keys=["o-4711"]))
        drain(cluster, "charging")
        page.goto("/")
        page.get_by_role("link", name="Dead letters", exact=True).click()
        page.get_by_role("link", name="1 open of charging").click()
        assert page.url.endswith("/groups/charging/dead-letters?state=open")
        expect(row(page, "o-4711")).to_contain_text("KeyError: 'currency'")
        page.get_by_role("checkbox", name="Select").check()
        page.get_by_role("button", name="Redrive…").click()
        expect(page.locator("main")).to_contain_text("KeyError: 'currency'")
        body = page.get_by_label("Body; what you change")
        assert body.input_value() == '{"order": 4711}'
        body.fill('{"order": 4711, "currency": "EUR"}')
        page.get_by_label("Reason").fill("the shop forgot it")
        page.get_by_role("button", name="Plan again").click()
        before = page.get_by_role("region", name="before")
        after = page.get_by_role("region", name="after")
        expect(before).to_contain_text('{"order": 4711}')
        expect(after).to_contain_text('"currency": "EUR"')
        page.get_by_role("button", name="Redrive 1 message").click()
        expect(page.get_by_role("status").filter(has_text="1 of 1 done")).to_be_visible()
        drain(cluster, "charging")
    assert handled == ["EUR"]
    expect(page.locator("main")).to_contain_text("the shop forgot it")
    expect(page.get_by_role("table", name="What became of")).to_contain_text("sent")
    page.get_by_role("link", name="charging", exact=True).click()
    expect(row(page, "o-4711")).to_contain_text("redriven")


def test_the_same_way_by_keyboard_alone(shared: Consoled, page: Page, group: str) -> None:
    page.goto(f"/groups/{group}/dead-letters?key=k1")

    def go_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "(document.activeElement.getAttribute('aria-label') || "
                "document.activeElement.textContent || '').trim()"
            )
            if focused.startswith(name):
                return
        raise AssertionError(f"no way to {name}")

    go_to("Select broker-a")
    page.keyboard.press("Space")
    go_to("Redrive…")
    page.keyboard.press("Enter")
    page.wait_for_url("**/redrive?*")
    go_to("Redrive 1 message")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status").filter(has_text="1 of 1 done")).to_be_visible()
    assert [m.body for m in copies(shared, group)] == [b'{"order": 1}']


# -- finding ------------------------------------------------------------------------------------


def test_a_filter_is_in_the_address_and_goes_into_the_plan(
    shared: Consoled, page: Page, group: str
) -> None:
    page.goto(f"/groups/{group}/dead-letters")
    errors = page.get_by_role("table", name="Why they failed")
    expect(errors.get_by_role("row").filter(has_text="KeyError")).to_contain_text("3")
    errors.get_by_role("link", name="KeyError").click()
    assert "error=" in page.url
    page.get_by_label("State").select_option("open")
    page.get_by_label("SQL92").fill("TAGS = 'eu'")
    page.get_by_role("button", name="Filter").click()
    assert "state=open" in page.url
    assert "where=" in page.url
    expect(page.get_by_role("status")).to_contain_text("3 found, 4 looked at")
    page.get_by_label("With").select_option("all")
    page.get_by_role("button", name="Redrive…").click()
    expect(page.get_by_role("status")).to_contain_text("Redrive 3 messages")
    page.get_by_text("Change the messages").click()
    page.get_by_label("JSON merge patch").fill('{"currency": "EUR", "order": null}')
    page.get_by_label("Properties to set").fill("why=fixed\n\nby=me=you")
    page.get_by_label("Tag").fill("again")
    page.get_by_role("button", name="Plan again").click()
    expect(page.get_by_role("region", name="broker-a:0:0 after")).to_contain_text("EUR")
    assert page.get_by_label("JSON merge patch").input_value().startswith('{"currency"')
    page.get_by_role("button", name="Redrive 3 messages").click()
    expect(page.get_by_role("status").filter(has_text="3 of 3 done")).to_be_visible()
    found = copies(shared, group)
    assert {m.body for m in found} == {b'{"currency":"EUR"}'}
    assert {(m.tags, m.properties["why"], m.properties["by"]) for m in found} == {
        ("again", "fixed", "me=you")
    }


def test_a_message_page_leads_to_its_redrive(page: Page, group: str) -> None:
    page.goto(f"/groups/{group}/dead-letters?key=k0")
    row(page, "k0").get_by_role("link").click()
    page.get_by_role("link", name="Redrive this one").click()
    expect(page.get_by_role("status")).to_contain_text("Redrive 1 message")
    assert page.get_by_label("Body; what you change").input_value() == '{"order": 0}'


# -- what may go wrong --------------------------------------------------------------------------


def test_what_was_typed_after_the_plan_is_planned_first(
    shared: Consoled, page: Page, group: str
) -> None:
    page.goto(f"/groups/{group}/redrive?of=all&key=k0")
    page.get_by_label("Body in place").locator("xpath=ancestor::details/summary").click()
    page.get_by_label("Body in place").fill("new")
    page.get_by_role("button", name="Redrive 1 message").click()
    expect(page.get_by_role("alert")).to_contain_text("has changed since it was planned")
    expect(page.get_by_role("region", name="after")).to_contain_text("new")
    assert copies(shared, group) == []
    page.get_by_role("button", name="Redrive 1 message").click()
    expect(page.get_by_role("status").filter(has_text="1 of 1 done")).to_be_visible()
    assert [m.body for m in copies(shared, group)] == [b"new"]


def test_what_cannot_be_is_told_and_what_was_typed_stays(page: Page, group: str) -> None:
    page.goto(f"/groups/{group}/redrive?of=selected")
    expect(page.get_by_role("alert")).to_contain_text("no dead letter is selected")
    page.goto(f"/groups/{group}/redrive?of=all")
    page.get_by_label("Send to").select_option("topic")
    page.get_by_label("Topic", exact=True).fill("Nowhere")
    page.get_by_role("button", name="Plan again").click()
    expect(page.get_by_role("alert")).to_contain_text("there is no topic Nowhere")
    assert page.get_by_label("Topic", exact=True).input_value() == "Nowhere"
    page.get_by_label("Topic", exact=True).fill("Fixed")
    page.get_by_role("button", name="Plan", exact=True).click()
    expect(page.locator("main")).to_contain_text("all groups that consume Fixed")
    page.get_by_text("Change the messages").click()
    page.get_by_label("JSON merge patch").fill("[]")
    page.get_by_role("button", name="Plan again").click()
    expect(page.get_by_role("alert")).to_contain_text("no JSON object")


def test_a_refused_message_is_told_before_and_after(page: Page, group: str) -> None:
    page.goto(f"/groups/{group}/redrive?of=all")
    page.get_by_text("Change the messages").click()
    page.get_by_label("JSON merge patch").fill('{"a": 1}')
    page.get_by_role("button", name="Plan again").click()
    refused = page.get_by_role("table", name="Refused")
    expect(refused).to_contain_text("no JSON")
    expect(page.locator("main")).to_contain_text("1 of 3 would be refused")
    page.get_by_role("button", name="Redrive 4 messages").click()
    expect(page.get_by_role("status").filter(has_text="4 of 4 done")).to_be_visible()
    results = page.get_by_role("table", name="What became of")
    expect(results.get_by_role("row")).to_have_count(2)  # the refused one, first of all
    expect(results).to_contain_text("no JSON")
    page.get_by_role("link", name="sent", exact=True).click()
    expect(results.get_by_role("row")).to_have_count(4)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download all").click()
    with open(download.value.path()) as lines:
        assert len([json.loads(line) for line in lines]) == 4


def test_discarded_and_reopened(page: Page, group: str) -> None:
    page.goto(f"/groups/{group}/dead-letters?key=k2")
    page.get_by_role("checkbox", name="Select").check()
    page.get_by_role("button", name="Discard…").click()
    assert page.get_by_label("Send to").count() == 0
    page.get_by_role("button", name="Discard 1 message").click()
    expect(page.get_by_role("status").filter(has_text="1 discarded")).to_be_visible()
    page.goto(f"/groups/{group}/dead-letters?state=discarded")
    expect(row(page, "k2")).to_contain_text("discarded")
    page.get_by_label("With").select_option("all")
    page.get_by_role("button", name="Reopen…").click()
    page.get_by_role("button", name="Reopen 1 message").click()
    expect(page.get_by_role("status").filter(has_text="1 reopened")).to_be_visible()


def test_progress_follows_a_redrive_which_is_paused_and_cancelled(
    shared: Consoled, page: Page, group: str
) -> None:
    page.goto(f"/groups/{group}/redrive?of=all")
    page.get_by_label("Messages a second").fill("0.01")
    page.get_by_role("button", name="Plan again").click()
    expect(page.get_by_role("status")).to_contain_text("in about")
    page.get_by_role("button", name="Redrive 4 messages").click()
    status = page.locator("#progress").get_by_role("status")
    expect(status).to_contain_text("running")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("main")).to_contain_text("The redrive was paused.")
    expect(status).to_contain_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(status).to_contain_text("running")
    one = page.url.rpartition("/")[2]
    page.get_by_role("button", name="Cancel").focus()
    shared.api.ok("POST", f"{API}/groups/{group}/redrives/{one}/cancel")
    expect(status).to_contain_text("cancelled")  # by itself
    expect(page.get_by_role("button", name="Cancel")).to_have_count(0)
    page.goto(f"/groups/{group}/redrives/{one}/pause")
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("alert")).to_contain_text("already")
    page.goto(f"/groups/{group}/redrives")
    expect(page.get_by_role("row").filter(has_text=one)).to_contain_text("cancelled")


# -- hostile, read-only, accessible -------------------------------------------------------------


def test_hostile_messages_do_nothing(page: Page, group: str) -> None:
    page.goto(f"/groups/{group}/dead-letters?key=hostile")
    expect(row(page, "hostile")).to_contain_text(HOSTILE[:60])
    page.get_by_role("checkbox", name="Select").check()
    page.get_by_role("button", name="Redrive…").click()
    body = page.get_by_label("Body; what you change")
    assert body.input_value() == HOSTILE
    body.fill(HOSTILE + "!")
    page.get_by_role("button", name="Plan again").click()
    assert page.get_by_role("region", name="before").locator("pre").inner_text() == HOSTILE
    assert page.get_by_role("region", name="after").locator("pre").inner_text() == HOSTILE + "!"
    assert page.evaluate("window.hit") is None


def test_a_read_only_console_shows_no_way_to_redrive(
    shared: Consoled, browser: Browser, group: str
) -> None:
    with console(shared.cluster, read_only=True) as running:
        base = f"http://{running.server.address}"
        one = redriven(shared.api, group, {"selection": {"key": "k0"}})["redrive"]
        with quiet_page(browser, base_url=base) as page:
            page.goto(f"/groups/{group}/dead-letters")
            expect(row(page, "k0")).to_contain_text("redriven")
            assert page.get_by_role("checkbox").count() == 0
            assert page.get_by_role("button", name="Redrive…").count() == 0
            page.goto(f"/groups/{group}/redrives/{one}")
            expect(page.get_by_role("status")).to_contain_text("1 of 1 done")
            page.goto(f"/groups/{group}/redrive?of=all")
            expect(page.locator("main")).to_contain_text("read-only")


def test_bodies_stay_hidden(shared: Consoled, browser: Browser, group: str) -> None:
    with (
        console(shared.cluster, no_bodies=True) as running,
        quiet_page(browser, base_url=f"http://{running.server.address}") as page,
    ):
        page.goto(f"/groups/{group}/dead-letters?key=k0")
        page.get_by_role("checkbox", name="Select").check()
        page.get_by_role("button", name="Redrive…").click()
        expect(page.get_by_role("region", name="before")).to_contain_text("shows no bodies")
        assert '": 0}' not in page.content()
        assert "&quot;: 0}" not in page.content()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.whole_console)])
def test_no_page_has_an_accessibility_violation(
    shared: Consoled, page: Page, group: str, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    one = redriven(shared.api, group, {"edit": {"mergePatch": {"a": 1}}})["redrive"]
    order = {"rate": 0.001, "selection": {"states": ["redriven"]}}
    path = f"{API}/groups/{group}/redrives"
    plan = shared.api.ok("POST", f"{path}/plan", order)
    shared.api.ok("POST", path, {"order": order, "plan": plan["plan"]})
    letters = f"/groups/{group}/dead-letters"
    for shown in (
        "/dead-letters", letters, f"{letters}?state=open", f"{letters}?error=never",
        "/groups/nobody/dead-letters", f"/groups/{group}/redrive?of=all",
        f"/groups/{group}/redrive?of=all&action=discard&key=k0&again=true",
        f"/groups/{group}/redrive?of=selected", f"/groups/{group}/redrives",
        f"/groups/{group}/redrives/{one}", f"/groups/{group}/redrives/{plan['redrive']}",
        f"/groups/{group}/redrives/{one}/pause", f"/groups/{group}/redrives/nothing",
        f"{letters}?where={quote('a =')}",
    ):  # fmt: skip
        page.goto(shown)
        assert_accessible(page)
    shared.api.ok("POST", f"{path}/{plan['redrive']}/cancel")
    ended(shared.api, group, plan["redrive"])
