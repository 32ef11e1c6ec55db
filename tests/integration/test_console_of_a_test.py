"""The console of a cluster for tests: its clock, its faults, and the clicks as a test."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Browser, Page, expect
from support.brokers.console_parts import API
from support.brokers.control_parts import Control
from support.peers.browser import assert_accessible, chromium, quiet_page
from support.peers.reverse_proxy import reverse_proxy

from pocketmq.client import Message
from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.testing import Cluster, LocalCluster
from pocketmq.testing.console.serving import cluster_console
from pocketmq.testing.control.calls import ControlCalls

PAGES = ("/clock", "/faults", "/recording")


class Shown(NamedTuple):
    """A cluster with its console."""

    cluster: Cluster
    server: ConsoleServer

    @property
    def api(self) -> Control:
        return Control(self.server.address)


@pytest.fixture
def shown(request: pytest.FixtureRequest) -> Iterator[Shown]:
    options: dict[str, Any] = getattr(request, "param", {})
    console = options.pop("console", {})
    with LocalCluster(**{"topics": {"Orders": 1}, "clock": "virtual", **options}) as cluster:
        calls = ControlCalls(cluster.core)
        given = ConsoleOptions(port=0, **console)
        server = cluster.thread.call(cluster_console, cluster.core, calls, given)
        cluster.thread.run(cluster.core.with_it(server))
        yield Shown(cluster, server)
        cluster.thread.run(calls.faults.remove_all(None))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(shown: Shown, browser: Browser) -> Iterator[Page]:
    with quiet_page(browser, base_url=f"http://{shown.server.address}") as page:
        yield page


def asked(shown: Shown, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(shown.server.address, timeout=60)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def send(shown: Shown, topic: str, *messages: dict[str, Any]) -> None:
    path = f"{API}/topics/{topic}/messages"
    shown.api.ok("POST", path, {"messages": [{"body": "x", **message} for message in messages]})


def bodies(shown: Shown) -> list[bytes]:
    found: list[bytes] = shown.cluster.stored("Orders").bodies
    return found


def test_the_clock_is_set_forward_by_hand_and_to_what_is_due(shown: Shown, page: Page) -> None:
    send(shown, "Orders", {"body": "soon", "delayMs": 60_000}, {"body": "later", "delayLevel": 18})
    page.goto("/")
    page.get_by_role("link", name="Clock").click()
    assert "2 messages and open transactions" in page.inner_text("main")
    page.get_by_role("button", name="To what is due next").click()
    assert "Orders +1 came, 1 message still waiting" in page.inner_text(".notice")
    assert bodies(shown) == [b"soon"]
    page.get_by_label("Length").fill("1.5")
    page.get_by_label("Unit").select_option("hours")
    page.get_by_role("button", name="Set forward").click()
    assert "1 h 30 min: nothing came" in page.inner_text(".notice")
    page.get_by_role("button", name="+ 1 h").click()
    assert "Orders +1 came, 0 messages still waiting" in page.inner_text(".notice")
    assert bodies(shown) == [b"soon", b"later"]
    expect(page.get_by_role("table", name="Jumps made here").get_by_role("row")).to_have_count(4)
    page.get_by_role("button", name="To what is due next").click()
    assert "Nothing waits for its time" in page.get_by_role("alert").inner_text()


def test_a_length_that_is_none_is_told_in_the_page(shown: Shown, page: Page) -> None:
    page.goto("/clock")
    page.get_by_label("Length").fill("soon")
    page.get_by_role("button", name="Set forward").click()
    assert "the length is 'soon'" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Length").input_value() == "soon"


def test_faults_are_ordered_and_ended(shown: Shown, page: Page) -> None:
    page.goto("/faults")
    page.locator("select[name=kind]").select_option("answer")
    page.get_by_label("Code, of answer", exact=True).fill("SYSTEM_BUSY")
    page.get_by_label("Request", exact=True).fill("SEND_MESSAGE")
    page.get_by_label("Topic", exact=True).fill("Orders")
    page.get_by_label("At most so often", exact=True).fill("1")
    page.get_by_role("button", name="Order", exact=True).click()
    assert "In force: answer('SYSTEM_BUSY'" in page.inner_text(".notice")
    assert "fired 0 times" in page.inner_text("table >> nth=0")
    send(shown, "Orders", {})
    page.reload()
    assert "fired 1 time" in page.inner_text("table >> nth=0")
    assert "SEND_MESSAGE" in page.inner_text("table >> nth=0")
    page.get_by_role("button", name="End answer").click()
    assert "Ended: answer" in page.inner_text(".notice")
    assert "None." in page.inner_text("table >> nth=0")


def test_a_fault_that_does_not_fit_is_told_in_the_page(shown: Shown, page: Page) -> None:
    page.goto("/faults")
    page.locator("select[name=kind]").select_option("kill")
    page.get_by_label("Topic", exact=True).fill("Orders")
    page.get_by_label("Broker", exact=True).fill("broker-a")
    page.get_by_role("button", name="Order", exact=True).click()
    assert "kill takes no topic" in page.get_by_role("alert").inner_text()
    assert page.get_by_label("Broker", exact=True).input_value() == "broker-a"
    page.locator("select[name=kind]").select_option("answer")
    page.get_by_role("button", name="Order", exact=True).click()
    assert "code" in page.get_by_role("alert").inner_text()


@pytest.mark.parametrize("shown", [{"brokers": 2}], indirect=True)
def test_brokers_are_killed_and_come_back(shown: Shown, page: Page) -> None:
    page.goto("/faults")
    for kind in ("kill", "pause"):
        page.locator("select[name=kind]").select_option(kind)
        page.get_by_label("Broker", exact=True).fill("broker-b")
        page.get_by_role("button", name="Order", exact=True).click()
        if kind == "kill":
            row = page.get_by_role("table", name="Brokers").get_by_role("row", name="broker-b")
            assert "killed" in row.inner_text()
            page.get_by_role("button", name="End kill").click()
            assert "up" in row.inner_text()
    with shown.cluster.faults.delay(1, topic="Orders", broker="broker-a"):
        send(shown, "Orders", {"broker": "broker-a", "queue": 0})
        page.reload()
        assert "by the test" in page.inner_text("table >> nth=0")
        page.get_by_role("button", name="End all").click()
        assert "1 fault removed" in page.inner_text(".notice")
        assert "by the test" in page.inner_text("table >> nth=0")


# -- the clicks as a test -------------------------------------------------------------------------


def recorded(shown: Shown) -> str:
    status, text = asked(shown, "/recording/test_recorded.py")
    assert status == 200
    return text


def run(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a file with pytest in a process of its own, away from the tests of this project."""
    (folder / "test_recorded.py").write_text(text)
    words = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", str(folder))
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=False,
        timeout=100,
    )  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("shown", [{"brokers": 2, "clock": "offset"}], indirect=True)
def test_the_clicks_run_as_a_test(shown: Shown, page: Page, tmp_path: Path) -> None:
    api = shown.api
    api.ok("POST", f"{API}/topics/Made", {"queues": 2, "attributes": {"message.type": "DELAY"}})
    api.ok("POST", f"{API}/groups/billing", {"retryMaxTimes": 3})
    send(
        shown, "Made",
        {"body": "'''\n\"\"\" {curly} %s", "keys": ["k1", "k2"], "tags": "new"},
        {"body": None, "bodyBase64": "//4A", "properties": {"colour": "ré\"d'"}},
        {"body": "never due", "delayMs": 86_400_000},
        {"body": "due", "delayMs": 7_200_000},
        {"body": "due, too", "delayLevel": 18},
    )  # fmt: skip
    page.goto("/faults")
    page.locator("select[name=kind]").select_option("answer")
    page.get_by_label("Code, of answer", exact=True).fill("SYSTEM_BUSY")
    page.get_by_label("At most so often", exact=True).fill("1")
    page.get_by_label("Request", exact=True).fill("SEND_MESSAGE")
    page.get_by_role("button", name="Order", exact=True).click()
    send(shown, "Orders", {"body": "at the second attempt"}, {"broker": "broker-b", "queue": 0})
    page.get_by_role("button", name="End answer").click()
    page.goto("/clock")
    page.get_by_role("button", name="+ 1 h").click()
    page.get_by_role("button", name="To what is due next").click()
    page.get_by_label("Length").fill("300")
    page.get_by_role("button", name="Set forward").click()
    offsets = f"{API}/groups/billing/offsets"
    api.ok("POST", offsets, {"topic": "Orders", "to": "latest", "preview": True})
    api.ok("POST", offsets, {"topic": "Orders", "to": "latest"})
    with shown.cluster.producer() as producer:  # of others: not recorded
        producer.send(Message("Orders", b"foreign"))
    assert len(shown.cluster.stored("Made")) == 4
    page.goto("/recording")
    text = recorded(shown)
    assert page.inner_text("pre").strip() == text.strip()
    assert "assert len(cluster.published('Made')) == 4" in text
    assert "assert len(cluster.published('Orders')) == 2" in text
    assert "foreign" not in text
    done = run(text, tmp_path)
    assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
    assert "1 passed" in done.stdout
    # A test that finds something else fails.
    wrong = run(text.replace("('Made')) == 4", "('Made')) == 5"), tmp_path)
    assert wrong.returncode == 1
    page.get_by_role("button", name="Begin anew").click()
    assert "0 steps were recorded" in page.inner_text("main")
    assert "producer.send" not in recorded(shown)


def test_a_recording_is_bounded(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pocketmq.testing.console.recording.STEPS_MAX", 2)
    for _ in range(3):
        send(shown, "Orders", {})
    assert recorded(shown).count("producer.send") == 2
    assert "further steps" in recorded(shown)
    assert "were left out" in asked(shown, "/recording")[1]


def test_what_is_refused_is_not_recorded(shown: Shown) -> None:
    with shown.cluster.faults.disk_full():
        refused = shown.api.problem(
            "POST", f"{API}/topics/Orders/messages", {"messages": [{"body": "x"}]}
        )
        assert refused["status"] >= 500
    assert "producer.send" not in recorded(shown)


def test_a_change_that_is_not_repeated_is_named(shown: Shown) -> None:
    change = {"changes": {"traceOn": "false"}}
    shown.api.ok("PUT", f"{API}/brokers/broker-a/settings", change)
    assert re.search(r"# \w+\.\w+ was carried out, too", recorded(shown))


# -- whom it serves -------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [{"console": {"read_only": True}}], indirect=True)
def test_a_read_only_console_shows_and_changes_nothing(shown: Shown) -> None:
    for path in PAGES:
        status, text = asked(shown, path)
        assert (status, '<form method="post"' in text) == (200, False), path
    for path in ("/clock/jump", "/faults/order", "/faults/removal", "/recording/anew"):
        assert asked(shown, path, "POST")[0] == 403, path


@pytest.mark.parametrize("shown", [{"console": {"no_bodies": True}}], indirect=True)
def test_a_console_without_bodies_offers_no_recording(shown: Shown) -> None:
    assert asked(shown, "/recording")[0] == 404
    assert "/recording" not in asked(shown, "/clock")[1]


def test_other_sites_get_nothing(shown: Shown) -> None:
    for path in (*PAGES, "/recording/test_recorded.py"):
        assert asked(shown, path, **{"Sec-Fetch-Site": "cross-site"})[0] == 403, path
    before = shown.cluster.clock.now_ms()
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    connection = http.client.HTTPConnection(shown.server.address)
    connection.request("POST", "/clock/jump", b"jump=60", form)  # without a token
    assert connection.getresponse().status == 403
    connection.close()
    assert shown.cluster.clock.now_ms() == before


def test_forms_go_through_a_proxy(browser: Browser) -> None:
    with reverse_proxy("/tools/mq") as proxy, LocalCluster(clock="virtual") as cluster:
        calls = ControlCalls(cluster.core)
        options = ConsoleOptions(port=0, base="/tools/mq", origin=proxy.origin)
        server = cluster.thread.call(cluster_console, cluster.core, calls, options)
        cluster.thread.run(cluster.core.with_it(server))
        proxy.upstream = server.address
        before = cluster.clock.now_ms()
        context = browser.new_context(base_url=proxy.origin)
        page = context.new_page()
        page.goto("/tools/mq/clock")
        page.get_by_role("button", name="+ 1 min").click()
        page.wait_for_url("**/tools/mq/clock")
        assert "1 min" in page.inner_text(".notice")
        assert cluster.clock.now_ms() == before + 60_000
        context.close()


def test_a_test_opens_a_console_of_its_own(shown: Shown) -> None:
    url = shown.cluster.console()
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    connection.request("GET", "/clock")
    assert connection.getresponse().status == 200
    connection.close()


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.whole_console)])
def test_no_page_has_an_accessibility_violation(shown: Shown, page: Page, scheme: str) -> None:
    send(shown, "Orders", {"delayMs": 1000})
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.goto("/clock")
    page.get_by_role("button", name="To what is due next").click()
    page.goto("/faults")
    page.get_by_label("Topic", exact=True).fill("Nowhere")
    page.locator("select[name=kind]").select_option("drop_reply")
    page.get_by_role("button", name="Order", exact=True).click()
    for path in PAGES:
        page.goto(path)
        assert_accessible(page)


def test_the_keyboard_suffices(shown: Shown, page: Page) -> None:
    page.goto("/clock")
    before = shown.cluster.clock.now_ms()
    page.get_by_label("Length").focus()
    page.keyboard.type("30")
    page.keyboard.press("Enter")
    page.wait_for_selector(".notice")
    assert shown.cluster.clock.now_ms() == before + 30_000
    page.get_by_role("button", name="+ 10 s").focus()
    page.keyboard.press("Space")
    page.wait_for_selector(".notice >> text=10 s")
    assert shown.cluster.clock.now_ms() == before + 40_000


def test_the_slider_sets_the_clock_forward_by_the_step_that_it_names(
    shown: Shown, page: Page
) -> None:
    page.goto("/clock")
    before = shown.cluster.clock.now_ms()
    slider = page.get_by_role("slider")
    expect(page.locator("output")).to_have_text("1 s")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(page.locator("output")).to_have_text("1 min")
    assert slider.get_attribute("aria-valuetext") == "1 min"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**/clock")
    expect(page.locator(".notice")).to_contain_text("1 min")
    assert shown.cluster.clock.now_ms() == before + 60_000
