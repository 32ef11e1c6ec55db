"""Logins to the console by a real OpenID Connect provider, in a real browser and without one."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect
from support.brokers.console_parts import basic
from support.brokers.oidc_provider import CLIENT_ID, CLIENT_SECRET, Provider
from support.brokers.secured import ADMIN, BARE
from support.brokers.secured_console import SecuredConsole, secured_console
from support.peers.browser import assert_accessible, chromium, quiet_page

from pocketmq.console.login.settings import (
    LoginOptions,
    MappedUser,
    UserMap,
    check_issuer,
    read_users,
)
from pocketmq.console.server import ConsoleOptions, ConsoleServer
from pocketmq.console.web.server import WebServer
from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.loop_thread import LoopThread

USERS = UserMap(
    users=[
        MappedUser("mq-admins", ADMIN.access_key, ADMIN.secret_key),
        MappedUser("mq-guests", BARE.access_key, BARE.secret_key),
    ]
)
ANN = {"preferred_username": "ann", "groups": ["staff", "mq-admins"]}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    thread, provider = LoopThread("provider"), Provider()
    server = WebServer(provider.app(), "127.0.0.1", 0, "the provider", "-")
    thread.run(server.__aenter__())
    provider.issuer = f"http://{server.address}"
    yield provider
    thread.run(server.__aexit__())
    thread.leave()


@pytest.fixture(scope="module")
def site(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredConsole]:
    login = LoginOptions(provider.issuer, CLIENT_ID, CLIENT_SECRET, USERS)
    with secured_console(tmp_path_factory.mktemp("site"), login=login) as running:
        yield running


@pytest.fixture(scope="module")
def browser(site: SecuredConsole) -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(autouse=True)
def ann(provider: Provider) -> None:
    provider.claims, provider.named_issuer, provider.forged = dict(ANN), "", False


class Visitor:
    """A browser without a screen: it keeps cookies, and follows what it is told to."""

    def __init__(self, site: SecuredConsole) -> None:
        self.home = site.server.address
        self.cookies: dict[str, str] = {}
        self.set_cookies: list[str] = []

    def get(
        self, url: str, method: str = "GET", headers: dict[str, str] | None = None
    ) -> tuple[int, str, str]:
        """The status, where it leads to, and the text."""
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.netloc or self.home, timeout=30)
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        path = f"{parts.path}?{parts.query}" if parts.query else parts.path
        connection.request(method, path, headers={"Cookie": cookies, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        for line in answer.headers.get_all("Set-Cookie") or ():
            self.set_cookies.append(line)
            name, _, value = line.partition(";")[0].partition("=")
            self.cookies[name] = value.strip('"')
        connection.close()
        return answer.status, answer.headers.get("Location", ""), text

    def come_back(self, **changed: str) -> tuple[int, str, str]:
        """Begins a login, lets the provider send the browser back, and goes there."""
        _, there, _ = self.get("/login?path=/topics")
        _, back, _ = self.get(there)
        for name, value in changed.items():
            before = dict(part.split("=") for part in urlsplit(back).query.split("&"))[name]
            back = back.replace(f"{name}={before}", f"{name}={value}")
        return self.get(back)

    def log_in(self) -> None:
        """Logs in."""
        assert self.come_back()[:2] == (303, "/topics")


def test_a_person_logs_in_and_out(
    browser: Browser, site: SecuredConsole, provider: Provider
) -> None:
    provider.claims["ask"] = True
    with quiet_page(browser, base_url=f"http://{site.server.address}") as page:
        page.goto("/topics?kind=all")
        page.get_by_role("link", name="Log in as ann").click()
        page.wait_for_url("**/topics?kind=all")
        expect(page.locator("h1")).to_have_text("Topics")
        page.goto("/new-topic")
        page.get_by_label("Name").first.fill("ByAnn")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("status").first).to_contain_text("ByAnn")
        page.goto("/audit?resource=ByAnn")
        row = page.get_by_role("row").filter(has_text="UPDATE_AND_CREATE_TOPIC")
        expect(row.first).to_contain_text("admin")
        expect(row.first).to_contain_text("for ann at 127.0.0.1")
        page.get_by_role("link", name="Log out").click()
        assert_accessible(page)
        page.get_by_role("button", name="Log out").click()
        expect(page.locator("h1")).to_have_text("Nobody is logged in")
        assert_accessible(page)
        page.goto("/users")
        expect(page.get_by_role("link", name="Log in as ann")).to_be_visible()


def test_a_session_has_the_rights_of_the_mapped_user(
    site: SecuredConsole, provider: Provider
) -> None:
    visitor = Visitor(site)
    assert visitor.get("/api/v1/users")[0] == 401
    assert visitor.get("/users")[:2] == (303, "/login?path=%2Fusers")
    visitor.log_in()
    assert visitor.get("/api/v1/users")[0] == 200
    provider.claims["groups"] = "mq-guests"
    guest = Visitor(site)
    guest.log_in()
    assert guest.get("/api/v1/users")[0] == 403
    provider.claims["groups"] = ["strangers"]
    status, _, text = Visitor(site).come_back()
    assert (status, "Nobody knows this person" in text) == (403, True)


def test_cookies_are_out_of_reach(site: SecuredConsole) -> None:
    visitor = Visitor(site)
    visitor.log_in()
    assert len(visitor.set_cookies) == 3
    assert all("HttpOnly" in line and "SameSite=lax" in line for line in visitor.set_cookies)
    text = str(visitor.set_cookies)
    assert not any(secret in text for secret in (ADMIN.secret_key, CLIENT_SECRET))


def test_basic_admits_nobody_where_people_log_in(site: SecuredConsole) -> None:
    named = basic(ADMIN.access_key, ADMIN.secret_key)
    assert Visitor(site).get("/api/v1/users", headers=named)[0] == 401


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"iss": "https://elsewhere.example"},
        {"aud": "another-client"},
        {"exp": 1_000_000_000, "iat": 999_999_000},
    ],
)
def test_a_token_that_does_not_hold_is_refused(
    site: SecuredConsole, provider: Provider, claims: dict[str, Any]
) -> None:
    provider.claims |= claims
    visitor = Visitor(site)
    status, _, text = visitor.come_back()
    assert (status, "The login was refused" in text) == (403, True)
    assert "pocketmq_session" not in visitor.cookies
    assert visitor.get("/api/v1/users")[0] == 401


def test_a_provider_that_is_another_issuer_is_refused(
    site: SecuredConsole, provider: Provider
) -> None:
    provider.named_issuer = "https://elsewhere.example"
    login = LoginOptions(provider.issuer, CLIENT_ID, CLIENT_SECRET, USERS)
    other = ConsoleServer("127.0.0.1:1", ConsoleOptions(port=0, login=login))
    site.thread.run(other.__aenter__())
    try:
        status, _, text = Visitor(site._replace(server=other)).get("/login")
    finally:
        site.thread.run(other.__aexit__())
    assert (status, "The login is not possible now" in text) == (502, True)


def test_strangers_pass_the_gate_first(site: SecuredConsole) -> None:
    status, _, text = Visitor(site).get("/users", headers={"Host": "evil.example"})
    assert (status, "evil.example" in text) == (403, True)


def test_a_token_of_another_key_is_refused(site: SecuredConsole, provider: Provider) -> None:
    provider.forged = True
    assert Visitor(site).come_back()[0] == 403


def test_a_login_of_another_browser_or_state_is_refused(
    site: SecuredConsole, provider: Provider
) -> None:
    before = provider.verified
    assert Visitor(site).come_back(state="another")[0] == 403
    victim = Visitor(site)
    assert victim.get("/login/callback?code=x&state=y")[0] == 403
    attacker = Visitor(site)
    _, there, _ = attacker.get("/login")
    _, back, _ = attacker.get(there)
    assert victim.get(back)[0] == 403
    assert provider.verified == before  # no code was exchanged


def test_sessions_end(site: SecuredConsole) -> None:
    visitor = Visitor(site)
    visitor.log_in()
    stolen = Visitor(site)
    stolen.cookies = dict(visitor.cookies)
    crossing = {"Origin": "https://evil.example"}
    assert visitor.get("/logout", "POST", crossing)[0] == 403
    assert visitor.get("/api/v1/users")[0] == 200
    assert visitor.get("/logout", "POST")[0] == 303
    assert stolen.get("/api/v1/users")[0] == 401
    forged = Visitor(site)
    forged.cookies["pocketmq_session"] = stolen.cookies["pocketmq_session"][:-2] + "xx"
    assert forged.get("/api/v1/users")[0] == 401


@pytest.mark.parametrize("path", ["//evil.example", "https://evil.example", "/\\evil.example"])
def test_a_login_leads_to_no_other_site(site: SecuredConsole, path: str) -> None:
    visitor = Visitor(site)
    _, there, _ = visitor.get(f"/login?path={path}")
    _, back, _ = visitor.get(there)
    assert visitor.get(back)[:2] == (303, "/")


def test_users_are_read_of_a_private_file(tmp_path: Path) -> None:
    path = tmp_path / "users.yaml"
    path.write_text("claim: email\nusers:\n- {value: a@b, accessKey: u, secretKey: s3cret}\n")
    path.chmod(0o600)
    users = read_users(path)
    found = users.user_of({"email": "a@b"})
    assert found is not None
    assert (found.access_key, users.user_of({"email": "x"})) == ("u", None)
    assert "s3cret" not in f"{LoginOptions('i', 'c', 's3cret', users)!r}"
    path.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_users(path)


@pytest.mark.parametrize("issuer", ["", "ftp://x", "http://id.example.org", "https://x/?a=b"])
def test_an_issuer_is_safe(issuer: str) -> None:
    with pytest.raises(ConfigError, match="the issuer is"):
        check_issuer(issuer)
