"""Forms of the console's pages in a real browser: main ways, keyboard, errors, other sites."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect
from support.brokers.console_parts import API, Consoled, basic, console, consoled
from support.peers.browser import assert_accessible, chromium, quiet_page

from pocketmq.client import Message, MessageQueue
from pocketmq.console.pages.visits import NOTICE, VISITOR

FORMS = (
    "/new-topic", "/topics/Orders/send", "/topics/Orders/send-file", "/topics/Orders/settings",
    "/topics/Orders/delete", "/new-group", "/groups/billing/settings", "/groups/billing/delete",
    "/groups/billing/offsets", "/groups/billing/offsets?topic=Orders&way=earliest",
    "/groups/billing/offsets?topic=Orders&way=shift",
)  # fmt: skip
HOSTILE = "<script>window.hit = 1</script>'\"><img src=x onerror='window.hit = 1'>"


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    with consoled(brokers=2, topics={"Orders": 2, "Inbox": 1}, groups=["billing"]) as running:
        with running.cluster.producer() as producer:
            for broker in ("broker-a", "broker-b"):
                for number in range(6):
                    producer.send(
                        Message("Orders", b"x", keys=[f"{broker}-{number}"]),
                        queue=MessageQueue("Orders", broker, 0),
                    )
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


def notice(page: Page) -> str:
    return page.locator(".notice").inner_text()


def problem(page: Page) -> str:
    return page.get_by_role("alert").inner_text()


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def committed(shared: Consoled) -> dict[str, int]:
    return {
        f"{queue['broker']}:{queue['queue']}": queue["committed"]
        for queue in shared.api.ok("GET", f"{API}/groups/billing")["queues"]
        if queue["topic"] == "Orders"
    }


# -- messages -------------------------------------------------------------------------------------


def test_a_message_is_sent_and_sent_again(page: Page, shared: Consoled) -> None:
    page.goto("/topics/Inbox")
    page.get_by_role("link", name="Send a message").click()
    page.get_by_label("Body", exact=True).fill("first line\nsecond line")
    page.get_by_label("Tag").fill("new")
    page.get_by_label("Keys").fill("k1 k2")
    page.get_by_label("Properties").fill("colour=red\nsize=a=b")
    page.get_by_label("Queue").fill("broker-b:0")
    press(page, "Send")
    assert "The message was sent to broker-b:0, offset 0." in notice(page)
    page.get_by_role("link", name="Look at it").click()
    assert page.locator(".notice").count() == 0  # it is shown once
    page.get_by_role("link", name="Send it again").click()
    assert page.get_by_label("Body", exact=True).input_value() == "first line\nsecond line"
    assert page.get_by_label("Properties").input_value() == "colour=red\nsize=a=b"
    page.get_by_label("Tag").fill("again")
    press(page, "Send")
    assert "was sent" in notice(page)
    found = shared.api.ok("GET", f"{API}/topics/Inbox/messages?start=earliest")["messages"]
    assert [
        (each["body"], each["keys"], each["tags"], each["properties"]["colour"],
         each["properties"]["size"])
        for each in found
    ] == [
        ("first line\nsecond line", ["k1", "k2"], tag, "red", "a=b") for tag in ("new", "again")
    ]  # fmt: skip


def test_a_body_in_hex_later(page: Page) -> None:
    page.goto("/topics/Inbox/send")
    page.get_by_label("Body", exact=True).fill("ff 00 zz")
    page.get_by_label("The body is written as").select_option("hex")
    page.get_by_label("Delay level").select_option("18")
    page.get_by_label("Keys").fill(HOSTILE)
    press(page, "Send")
    assert "the body is not in hex" in problem(page)
    assert page.get_by_label("Body", exact=True).input_value() == "ff 00 zz"
    assert page.get_by_label("Delay level").input_value() == "18"
    assert page.get_by_label("Keys").input_value() == HOSTILE
    assert page.evaluate("window.hit") is None
    page.get_by_label("Body", exact=True).fill("ff 00")
    page.get_by_label("Delay in milliseconds").fill("1000")
    press(page, "Send")
    assert "give one of them" in problem(page)
    page.get_by_label("Delay level").select_option("")
    page.get_by_label("Delay in milliseconds").fill("3600000")
    press(page, "Send")
    assert "to be delivered later" in notice(page)


def test_a_file_is_sent(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_text('{"body": "one"}\n{"text": "two"}\n', "utf-8")
    page.goto("/topics/Inbox/send-file")
    page.get_by_label("File").set_input_files(file)
    press(page, "Send")
    assert "Nothing was sent: 1 lines do not fit." in page.inner_text("main")
    assert "unknown field 'text'" in page.inner_text("table")
    page.get_by_role("link", name="Send another file").click()
    file.write_text('{"body": "one"}\n\n{"body": "two"}\n', "utf-8")
    page.get_by_label("File").set_input_files(file)
    press(page, "Send")
    assert "2 messages sent, 0 not." in notice(page)
    rows = page.get_by_role("row").filter(has_text="SEND_OK")
    expect(rows).to_have_count(2)
    assert rows.last.inner_text().startswith("3")
    assert_accessible(page)


# -- offsets --------------------------------------------------------------------------------------


def test_offsets_are_reset_after_a_preview_and_undone(page: Page, shared: Consoled) -> None:
    shared.api.ok("POST", f"{API}/groups/billing/offsets", {"topic": "Orders", "to": "earliest"})
    page.goto("/groups/billing")
    page.get_by_role("link", name="Offsets").click()
    page.get_by_label("Topic").fill("Orders")
    press(page, "Choose")
    page.get_by_label("Where").select_option("offsets")
    page.get_by_text("Offsets of the queues").click()
    assert page.get_by_label("Offset of broker-a:0").input_value() == "0"
    page.get_by_label("Offset of broker-a:0").fill("4")
    press(page, "Preview")
    told = page.get_by_role("status").inner_text()
    assert told.startswith("0 messages would come again, 4 would be passed over, stored from")
    sample = page.get_by_role("table", name="Some of these messages")
    expect(sample.get_by_role("row").filter(has_text="broker-a-3")).to_have_count(1)
    page.get_by_label("Reason").fill("they are poison")
    assert committed(shared)["broker-a:0"] == 0
    press(page, "Put the group there")
    assert "0 messages come again, 4 are passed over" in notice(page)
    assert committed(shared)["broker-a:0"] == 4
    page.get_by_role("link", name="Undo it").click()
    change = page.get_by_role("row").filter(has_text="they are poison")
    change.get_by_role("link", name="Undo…").click()
    assert page.get_by_role("status").inner_text().startswith("4 messages would come again")
    press(page, "Put the group there")
    assert committed(shared)["broker-a:0"] == 0


def test_a_group_that_moves_after_the_preview_stays(page: Page, shared: Consoled) -> None:
    path = f"{API}/groups/billing/offsets"
    shared.api.ok("POST", path, {"topic": "Orders", "to": "earliest"})
    page.goto("/groups/billing/offsets?topic=Orders&way=latest")
    shared.api.ok("POST", path, {"topic": "Orders", "shift": 1, "queue": "broker-a:0"})
    press(page, "Put the group there")
    assert "billing has moved in broker-a:0 from 0 to 1" in problem(page)
    assert committed(shared)["broker-a:0"] == 1
    shared.api.ok("POST", path, {"topic": "Orders", "shift": 1, "queue": "broker-a:0"})
    page.get_by_label("also if the group moves meanwhile").check()
    press(page, "Put the group there")
    assert "10 are passed over" in notice(page)
    assert committed(shared) == {
        "broker-a:0": 6, "broker-a:1": 0, "broker-b:0": 6, "broker-b:1": 0,
    }  # fmt: skip


def test_offsets_by_time_and_by_a_number(page: Page, shared: Consoled) -> None:
    shared.api.ok("POST", f"{API}/groups/billing/offsets", {"topic": "Orders", "to": "latest"})
    page.goto("/groups/billing/offsets?topic=Orders")
    page.get_by_label("Where").select_option("shift")
    press(page, "Preview")
    assert "there is no number" in problem(page)
    page.get_by_label("Number of messages").fill("-2")
    press(page, "Preview")
    assert page.get_by_role("status").inner_text().startswith("4 messages would come again")
    page.get_by_label("Where").select_option("time")
    page.get_by_label("Time (UTC)").fill("2020-01-01T00:00:00")
    press(page, "Preview")
    assert page.get_by_role("status").inner_text().startswith("12 messages would come again")


# -- topics and groups ----------------------------------------------------------------------------


def test_a_topic_from_its_creation_to_its_end(page: Page, shared: Consoled) -> None:
    page.goto("/topics")
    page.get_by_role("link", name="New topic").click()
    page.get_by_label("Name", exact=True).fill("Made?")
    page.get_by_label("Write queues").fill("3")
    press(page, "Create")
    assert "Made?" in problem(page)
    assert page.get_by_label("Write queues").input_value() == "3"
    page.get_by_label("Name", exact=True).fill("Made")
    press(page, "Create")
    assert notice(page) == "Topic Made was created."
    page.get_by_role("link", name="Change settings").click()
    page.locator("select[name=broker]").select_option("broker-a")
    page.get_by_label("May be written").select_option("no")
    press(page, "Change")
    assert notice(page) == "Topic Made was changed."
    settings = shared.api.ok("GET", f"{API}/topics/Made")["settings"]
    assert (settings["broker-a"]["isWritable"], settings["broker-b"]["isWritable"]) == (False, True)
    assert settings["broker-a"]["writeQueues"] == 3
    page.get_by_role("link", name="Change settings").click()
    assert page.get_by_label("May be written").input_value() == ""  # the brokers do not agree
    page.goto("/topics/Made/delete")
    page.get_by_label("to confirm").fill("made")
    press(page, "Delete the topic")
    assert "to confirm, type the name of the topic: Made" in problem(page)
    assert shared.api.ok("GET", f"{API}/topics/Made")["name"] == "Made"
    page.get_by_label("to confirm").fill("Made")
    press(page, "Delete the topic")
    assert notice(page) == "Topic Made was deleted, with 0 messages."
    assert page.url.endswith("/topics")
    assert shared.api.problem("GET", f"{API}/topics/Made")["status"] == 404


def test_what_a_deletion_takes_away_is_shown(page: Page, shared: Consoled) -> None:
    shared.api.ok("POST", f"{API}/groups/billing/offsets", {"topic": "Orders", "to": "earliest"})
    page.goto("/topics/Orders/delete")
    assert "12 messages go with it" in page.inner_text("main")
    row = page.get_by_role("row").filter(has_text="billing")
    assert row.locator("td").all_inner_texts() == ["0", "12"]
    page.goto("/groups/billing/delete")
    assert "No member is connected" in page.inner_text("main")
    row = page.get_by_role("row").filter(has_text="Orders")
    assert row.locator("td").all_inner_texts() == ["12"]


def test_a_group_by_the_keyboard_alone(page: Page, shared: Consoled) -> None:
    page.goto("/new-group")
    page.get_by_label("Name", exact=True).focus()
    page.keyboard.type("typed")
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.type("y")  # consumes in order
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/groups/typed")
    (settings, *_) = shared.api.ok("GET", f"{API}/groups/typed/settings")["brokers"].values()
    assert settings["isOrderly"]
    page.get_by_role("link", name="Delete").focus()
    page.keyboard.press("Enter")
    page.wait_for_url("**/groups/typed/delete")
    page.get_by_label("to confirm").focus()
    page.keyboard.type("typed")
    page.keyboard.press("Enter")
    page.wait_for_url("**/groups")
    assert notice(page) == "Group typed was deleted, with 0 dead letters."


# -- every form -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.whole_console)])
def test_no_form_has_an_accessibility_violation(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for path in FORMS:
        page.goto(path)
        assert_accessible(page)


def test_forms_work_without_script(browser: Browser, shared: Consoled) -> None:
    context = browser.new_context(
        base_url=f"http://{shared.server.address}", java_script_enabled=False
    )
    page = context.new_page()
    page.goto("/topics/Inbox/send")
    page.get_by_label("Body", exact=True).fill("no script")
    press(page, "Send")
    assert "was sent" in notice(page)
    context.close()


# -- who may send them ----------------------------------------------------------------------------


class Sender:
    """Sends forms as a program does.

    Args:
        address: of the console.
    """

    def __init__(self, address: str) -> None:
        self._address = address

    def ask(
        self, method: str, path: str, fields: dict[str, str] | None = None, **headers: str
    ) -> tuple[int, http.client.HTTPMessage, str]:
        """One request; a name of a header has _ for -."""
        connection = http.client.HTTPConnection(self._address)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        content = None if fields is None else urlencode(fields)
        if content is not None:
            named.setdefault("Content-Type", "application/x-www-form-urlencoded")
        try:
            connection.request(method, path, content, named)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read().decode()
        finally:
            connection.close()

    def visit(self, path: str, **given: str) -> tuple[str, str]:
        """The cookie and the token that a page with a form gives."""
        status, headers, text = self.ask("GET", path, None, **given)
        assert status == 200
        cookie = headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        found = re.search(r'name="token" value="([0-9a-f]+)"', text)
        assert found
        return cookie.partition(";")[0], found[1]


@pytest.fixture
def sender(shared: Consoled) -> Sender:
    return Sender(shared.server.address)


SEND = "/topics/Inbox/send"
BODY = {"body": "forged", "encoding": "text"}


def test_a_form_needs_cookie_and_token(shared: Consoled, sender: Sender) -> None:
    count = shared.api.ok("GET", f"{API}/topics/Inbox")["messages"]
    cookie, token = sender.visit(SEND)
    other_cookie, other_token = sender.visit(SEND)
    assert cookie.startswith(VISITOR)
    assert cookie != other_cookie
    for fields, headers in (
        (BODY, {}),
        (BODY, {"Cookie": cookie}),
        ({**BODY, "token": token}, {}),
        ({**BODY, "token": other_token}, {"Cookie": cookie}),
        ({**BODY, "token": "é"}, {"Cookie": cookie}),
        ({**BODY, "token": token}, {"Cookie": f"{VISITOR}=x"}),
    ):
        status, _, text = sender.ask("POST", SEND, fields, **headers)
        assert (status, "The form was not carried out" in text) == (403, True)
        assert "forged" in text  # what was typed is kept
    assert shared.api.ok("GET", f"{API}/topics/Inbox")["messages"] == count
    status, given, _ = sender.ask("POST", SEND, {**BODY, "token": token}, Cookie=cookie)
    assert (status, given["Location"]) == (303, "/topics/Inbox")
    assert given["Set-Cookie"].startswith(NOTICE)
    assert shared.api.ok("GET", f"{API}/topics/Inbox")["messages"] == count + 1


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Host": "evil.example"},
    ],
)
def test_forms_of_other_sites_are_refused(sender: Sender, headers: dict[str, str]) -> None:
    cookie, token = sender.visit(SEND)
    fields = {**BODY, "token": token}
    status, _, text = sender.ask("POST", SEND, fields, Cookie=cookie, **headers)
    assert status == 403
    assert "forged" not in text


def test_a_token_is_of_one_user(sender: Sender) -> None:
    one, other = basic("one", "password1"), basic("other", "password2")
    cookie, token = sender.visit(SEND, **one)
    fields = {**BODY, "token": token}
    for headers in (other, {}):
        status, _, text = sender.ask("POST", SEND, fields, Cookie=cookie, **headers)
        assert (status, "The form was not carried out" in text) == (403, True)
    assert sender.ask("POST", SEND, fields, Cookie=cookie, **one)[0] == 303


def test_what_is_no_form_is_refused(sender: Sender) -> None:
    cookie, token = sender.visit(SEND)
    status, _, _ = sender.ask("POST", SEND, BODY, Cookie=cookie, Content_Type="application/json")
    assert status == 415
    large = {**BODY, "body": "x" * (9 * 1024 * 1024), "token": token}
    assert sender.ask("POST", SEND, large, Cookie=cookie)[0] == 413
    many = {f"field{number}": "x" for number in range(1100)}
    assert sender.ask("POST", SEND, many, Cookie=cookie)[0] == 400
    broken = "multipart/form-data; boundary=x"
    assert sender.ask("POST", SEND, BODY, Cookie=cookie, Content_Type=broken)[0] == 400


def test_a_read_only_console_has_no_forms(shared: Consoled, sender: Sender) -> None:
    cookie, token = sender.visit(SEND)
    with console(shared.cluster, read_only=True) as running:
        reader = Sender(running.server.address)
        for path in (*FORMS, "/topics", "/topics/Orders", "/groups", "/groups/billing"):
            status, headers, text = reader.ask("GET", path)
            assert status == (403 if path in FORMS else 200)
            assert 'method="post"' not in text
            assert 'name="token"' not in text
            assert not re.search(r'href="[^"]*/(?:new-\w+|send|send-file|settings|delete)"', text)
            assert "Set-Cookie" not in headers
        fields = {**BODY, "token": token}
        status, _, text = reader.ask("POST", SEND, fields, Cookie=cookie)
        assert (status, "This console is read-only" in text) == (403, True)


def test_a_notice_is_shown_once(sender: Sender) -> None:
    cookie, token = sender.visit(SEND)
    _, headers, _ = sender.ask("POST", SEND, {**BODY, "token": token}, Cookie=cookie)
    left = headers["Set-Cookie"].partition(";")[0]
    shown = [sender.ask("GET", "/topics/Inbox", Cookie=left)[2] for _ in range(2)]
    assert ["was sent to" in text for text in shown] == [True, False]
