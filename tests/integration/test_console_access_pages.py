"""Pages of brokers, settings, users, policies and the audit in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect
from support.brokers.secured import ADMIN, BARE, allow
from support.brokers.secured_console import SecuredConsole, secured_console
from support.peers.browser import assert_accessible, chromium, quiet_page

from pocketmq.console.api.access.bodies import NewUser, UserChange

HOSTILE = "<img src=x onerror='window.hit=1'>{{7-7}}"
SECRET = "never-to-be-seen-7"
PAGES = (
    "/brokers/broker-a", "/brokers/broker-a/settings", "/brokers/broker-a/settings?changed=true",
    "/brokers/broker-a/settings/change", "/name-servers",
    "/brokers/broker-a/settings/change?changes=fileReservedTime%3D48",
    "/brokers/broker-a/settings/change?changes=nonsense%3D48",
    "/users", "/users/bare", "/users/admin", "/new-user", "/users/bare/settings",
    "/users/bare/delete", "/users/bare/new-policy",
    "/users/bare/delete-policy?resource=Topic:T&type=Custom",
    "/users/bare/explanation?action=Pub&resource=Topic:T", "/audit", "/audit?user=nobody",
    "/users/nobody", "/brokers/nobody",
)  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredConsole]:
    with secured_console(tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.fixture(scope="module")
def browser(site: SecuredConsole) -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def page(site: SecuredConsole, browser: Browser) -> Iterator[Page]:
    admin = {"username": ADMIN.access_key, "password": ADMIN.secret_key}
    address = f"http://{site.server.address}"
    with quiet_page(browser, base_url=address, http_credentials=admin) as page:
        yield page


def test_the_life_of_a_user(page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="Users").click()
    page.get_by_role("link", name="New user").click()
    page.get_by_label("Name").fill("shop")
    page.get_by_label("Password").fill(SECRET)
    page.get_by_label("Reason").fill("a new shop")
    page.get_by_role("button", name="Create").click()
    expect(page.locator("main")).to_contain_text("User shop was created on broker-a.")
    page.get_by_role("link", name="Add a policy").click()
    page.get_by_label("Resources").fill("Topic:orders*\nGroup:shop")
    page.get_by_label("Pub").check()
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_role("row").filter(has_text="Topic:orders*")).to_have_count(1)
    page.get_by_label("Resource").fill("Topic:orders-1")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("main strong")).to_have_text("allowed")
    expect(page.locator("table")).to_contain_text("Allow Pub on Topic:orders*")
    page.get_by_role("link", name="shop").click()
    page.get_by_role("link", name="Delete the policy of Topic:orders*").click()
    page.get_by_role("button", name="Delete the policy").click()
    expect(page.get_by_role("row").filter(has_text="Topic:orders*")).to_have_count(0)
    page.get_by_role("link", name="Change", exact=True).click()
    page.get_by_label("Status").select_option("disable")
    page.get_by_role("button", name="Change").click()
    expect(page.get_by_role("table", name="On the brokers")).to_contain_text("disabled")
    page.get_by_role("link", name="Delete", exact=True).click()
    page.get_by_label("to confirm").fill("shop")
    page.get_by_role("button", name="Delete the user").click()
    expect(page.locator("main")).to_contain_text("User shop was deleted on broker-a.")
    page.get_by_role("link", name="Audit").click()
    rows = page.get_by_role("row").filter(has_text="AUTH_CREATE_USER")
    expect(rows).to_contain_text("a new shop")
    expect(rows).to_contain_text("admin")


def test_a_password_is_never_in_a_page(page: Page) -> None:
    page.goto("/new-user")
    page.get_by_label("Name").fill("bare")  # there is one
    page.get_by_label("Password").fill(SECRET)
    page.get_by_role("button", name="Create").click()
    expect(page.locator("main")).to_contain_text("The user exists")
    assert page.get_by_label("Name").input_value() == "bare"  # what was typed stays
    assert page.get_by_label("Password").input_value() == ""
    assert SECRET not in page.content()
    for shown in ("/users", "/users/bare", "/audit"):
        page.goto(shown)
        assert not any(secret in page.content() for secret in (SECRET, BARE.secret_key))


def test_a_setting_is_changed_after_a_preview(page: Page, site: SecuredConsole) -> None:
    page.goto("/")
    page.get_by_role("link", name="broker-a").click()
    expect(page.get_by_role("table", name="Members")).to_contain_text("master")
    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Name contains").fill("fileReserved")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="change fileReservedTime").click()
    page.get_by_label("Settings, one a line").fill("fileReservedTime=48")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("table", name="What this changes")).to_be_visible()
    row = page.get_by_role("row").filter(has_text="fileReservedTime")
    assert row.inner_text().split()[:5] == ["fileReservedTime", "72", "default", "48", "72"]
    assert site.cluster.broker.config.file_reserved_time == 72
    page.get_by_label("Reason").fill("the disk is small")
    page.get_by_role("button", name="Change 1 settings").click()
    expect(page.locator("main")).to_contain_text("has changed its settings: fileReservedTime=48.")
    assert site.cluster.broker.config.file_reserved_time == 48
    page.goto("/brokers/broker-a/settings?contains=fileReserved")
    assert "run time (the configuration says 72)" in page.inner_text("table")
    page.goto("/audit?action=UPDATE_BROKER_CONFIG")
    assert "the disk is small" in page.get_by_role("row").nth(1).inner_text()


def test_a_setting_that_does_not_fit_is_told_in_the_page(page: Page) -> None:
    page.goto("/brokers/broker-a/settings/change")
    page.get_by_label("Settings, one a line").fill("fileReservedTime=0")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("it must be between 1 and")
    assert page.get_by_label("Settings, one a line").input_value() == "fileReservedTime=0"
    page.get_by_label("Settings, one a line").fill("listenPort=1")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_role("alert")).to_contain_text("is read at the start")


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.whole_console)])
def test_no_page_has_an_accessibility_violation(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    for path in PAGES:
        page.goto(path)
        assert_accessible(page)


def test_hostile_names_do_nothing(page: Page, site: SecuredConsole) -> None:
    site.thread.call(allow, site.cluster.broker, BARE, **{f"Topic_{HOSTILE}": "Pub"})
    page.goto("/users/bare")
    expect(page.get_by_role("table", name="Policies")).to_contain_text(HOSTILE)
    page.get_by_role("link", name="Delete the policy of").click()
    expect(page.locator("main")).to_contain_text(HOSTILE)
    page.get_by_role("button", name="Delete the policy").click()
    expect(page.locator("main")).to_contain_text("has lost a policy")
    page.goto("/audit?resource=onerror")
    expect(page.get_by_role("status").first).to_contain_text("1 found")
    page.locator("summary").first.click()
    expect(page.locator("details table").first).to_contain_text("onerror")
    page.goto("/users?contains=" + HOSTILE)
    assert page.get_by_label("Name contains").input_value() == HOSTILE
    assert page.evaluate("window.hit") is None


def test_the_keyboard_suffices(page: Page) -> None:
    page.goto("/audit")
    page.keyboard.press("/")
    page.keyboard.type("admin")
    page.keyboard.press("Enter")
    page.wait_for_url("**user=admin**")
    page.goto("/new-user")
    page.get_by_label("Name").focus()
    page.keyboard.type("keys")
    page.keyboard.press("Tab")
    page.keyboard.type(SECRET)
    page.keyboard.press("Enter")
    page.wait_for_url("**/users/keys")


def test_pages_of_those_who_may_not(site: SecuredConsole, browser: Browser) -> None:
    bare = {"username": BARE.access_key, "password": BARE.secret_key}
    address = f"http://{site.server.address}"
    with quiet_page(browser, base_url=address, http_credentials=bare) as page:
        for path in ("/users", "/users/admin", "/audit", "/brokers/broker-a", "/name-servers"):
            answer = page.goto(path)
            assert answer is not None
            assert answer.status == 403, path
            expect(page.locator("main")).to_contain_text("The user may not do this")


def test_no_repr_has_a_password() -> None:
    assert SECRET not in f"{NewUser(password=SECRET)} {UserChange(password=SECRET)!r}"
