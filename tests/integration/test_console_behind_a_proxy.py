"""The console behind a reverse proxy: its links, forms and cookies, and whom it believes a path."""

from __future__ import annotations

import http.client
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser
from support.brokers.console_parts import console
from support.peers.browser import chromium
from support.peers.reverse_proxy import reverse_proxy

from pocketmq.testing import Cluster, LocalCluster

LINK = re.compile(r'(?:href|src|action)="([^"]*)"')


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with LocalCluster(topics={"Orders": 1}, groups=["billing"]) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def browser(cluster: Cluster) -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def ask(address: str, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(address)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, headers=names)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def links(text: str) -> list[str]:
    return [link for link in LINK.findall(text) if link.startswith("/")]


@pytest.mark.parametrize("is_forwarded", [False, True], ids=["configured", "forwarded"])
def test_a_browser_goes_through_a_proxy(
    cluster: Cluster, browser: Browser, is_forwarded: bool
) -> None:
    given = {"forwarded_prefix": True} if is_forwarded else {"base": "/tools/mq"}
    with reverse_proxy("/tools/mq", sets_prefix=is_forwarded) as proxy:
        options = {**given, "origin": proxy.origin}
        with console(cluster, **options) as running:
            proxy.upstream = running.server.address
            context = browser.new_context(base_url=proxy.origin)
            page = context.new_page()
            page.goto("/tools/mq/")
            page.get_by_role("link", name="Topics").click()
            page.get_by_role("link", name="Orders", exact=True).click()
            page.wait_for_url("**/tools/mq/topics/Orders")
            assert page.get_by_role("table", name="Queues").is_visible()
            styled = page.evaluate("getComputedStyle(document.querySelector('header')).display")
            assert styled == "flex"
            assert page.get_by_role("button", name="Shortcuts").is_visible()  # scripts have run
            context.close()
            assert [path for path in proxy.elsewhere if path != "/favicon.ico"] == []


def test_the_header_is_believed_only_where_it_is_switched_on(cluster: Cluster) -> None:
    with console(cluster) as running:
        _, text = ask(running.server.address, "/topics", X_Forwarded_Prefix="/evil")
        assert links(text)
        assert "evil" not in text
    with console(cluster, forwarded_prefix=True, base="/own") as running:
        address = running.server.address
        _, text = ask(address, "/topics", X_Forwarded_Prefix="/mq/")
        assert all(link.startswith("/mq/") for link in links(text))
        _, text = ask(address, "/topics")  # the next request names none
        assert all(link.startswith("/own/") for link in links(text))


@pytest.mark.parametrize(
    "path",
    ["//evil.example.org", "https://evil.example.org", "mq", '/"><script>', "/a?b", "/a" * 300],
)
def test_a_header_that_is_no_path_is_refused(cluster: Cluster, path: str) -> None:
    with console(cluster, forwarded_prefix=True) as running:
        status, text = ask(running.server.address, "/topics", X_Forwarded_Prefix=path)
        assert status == 400
        assert "X-Forwarded-Prefix" in text
        assert not any(link.startswith("//") or "evil" in link for link in links(text))


def test_browsers_are_admitted_where_the_console_is_seen(cluster: Cluster) -> None:
    with console(cluster, origin="https://mq.example.org:8443") as running:
        address = running.server.address
        own = {"Host": "mq.example.org:8443", "Origin": "https://mq.example.org:8443"}
        assert ask(address, "/api/v1/topics", **own)[0] == 200
        assert ask(address, "/api/v1/topics", Origin=own["Origin"])[0] == 200
        assert ask(address, "/api/v1/topics", Origin="https://mq.example.org")[0] == 403
        assert ask(address, "/api/v1/topics", Origin="http://mq.example.org:8443")[0] == 403
        assert ask(address, "/api/v1/topics", Host="other.example.org")[0] == 403
    with console(cluster) as running:
        address = running.server.address
        assert ask(address, "/api/v1/topics", Host="mq.example.org:8443")[0] == 403
        assert ask(address, "/api/v1/topics", Origin=own["Origin"])[0] == 403
        assert ask(address, "/api/v1/topics", Host="")[0] == 403
