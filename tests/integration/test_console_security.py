"""What the whole console gives to other sites, and to those who send what nobody would."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.brokers.console_parts import Consoled, consoled

from pocketmq.cli.servers.consoles.console import _login
from pocketmq.console.web.gate import BODY_MAX
from pocketmq.protocol.errors import ConfigError

LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    with consoled(topics={"Orders": 1}) as running:
        yield running


def ask(
    shared: Consoled, path: str, method: str = "GET", headers: dict[str, str] | None = None
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection(shared.server.address, timeout=30)
    try:
        connection.putrequest(method, path, skip_host="Host" in (headers or {}))
        for name, value in (headers or {}).items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    "path", ["/", "/topics/Orders", "/api/v1/topics", "/static/style.css", "/nowhere",
             "/api/v1/topics/Nobody", "/topics?limit=x"],
)  # fmt: skip
def test_every_answer_is_secure(shared: Consoled, path: str) -> None:
    _, headers, _ = ask(shared, path)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]
    assert "unsafe" not in headers["Content-Security-Policy"]
    assert headers["X-Frame-Options"] == "DENY"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == ("no-cache" if path.startswith("/static") else "no-store")
    assert "Server" not in headers
    assert "Access-Control-Allow-Origin" not in headers


@pytest.mark.parametrize("path", ["/", "/api/v1/topics", "/static/style.css"])
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},  # DNS rebinding
        {"Host": "localhost.evil.example"},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {**LINK, "Sec-Fetch-Dest": "iframe"},
    ],
)
def test_other_sites_get_nothing(shared: Consoled, path: str, headers: dict[str, str]) -> None:
    assert ask(shared, path, headers=headers)[0] == 403


def test_a_link_of_another_site_opens_a_page_and_changes_nothing(shared: Consoled) -> None:
    assert ask(shared, "/topics/Orders", headers=LINK)[0] == 200
    assert ask(shared, "/api/v1/topics/Orders", "DELETE", LINK)[0] == 403
    assert ask(shared, "/api/v1/topics/Made", "POST", LINK)[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "/static/../pages.py", "/static/%2e%2e/pages.py", "/static/..%2fpages.py",
        "/static/%2e%2e%2f%2e%2e%2fserver.py", "/static/..%5cpages.py", "/static//etc/passwd",
        "/static/%2fetc%2fpasswd", "/static/style.css%00.py", "/static/", "/static",
        "/static/vendor",
    ],
)  # fmt: skip
def test_files_lead_nowhere_else(shared: Consoled, path: str) -> None:
    status, _, body = ask(shared, path)
    assert status in (307, 404), path
    assert b"import" not in body
    assert b"root:" not in body


@pytest.mark.parametrize(
    "path",
    [
        "/topics/a%0d%0aSet-Cookie:%20x=1", "/api/v1/topics/a%0d%0aSet-Cookie:%20x=1",
        "/topics?contains=%0d%0aSet-Cookie:%20x=1", "/static/a%0d%0aSet-Cookie:%20x=1",
        "/nowhere%0d%0aSet-Cookie:%20x=1",
    ],
)  # fmt: skip
def test_no_header_is_injected(shared: Consoled, path: str) -> None:
    status, headers, _ = ask(shared, path)
    assert status < 500
    assert "x=1" not in str(headers)


@pytest.mark.parametrize("path", ["/api/v1/topics/Orders/messages", "/topics/Orders/send"])
def test_bodies_are_bounded_before_they_are_read(shared: Consoled, path: str) -> None:
    kind = "application/json" if path.startswith("/api") else "application/x-www-form-urlencoded"
    connection = http.client.HTTPConnection(shared.server.address, timeout=30)
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", kind)
    connection.putheader("Content-Length", str(BODY_MAX + 1))
    connection.endheaders()
    part = b"x" * 65536
    try:
        for _ in range(BODY_MAX // len(part) + 1):
            connection.send(part)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it was answered before
    assert connection.getresponse().status == 413
    connection.close()


def test_logins_need_all_of_their_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POCKETMQ_OIDC_CLIENT_SECRET", raising=False)
    with pytest.raises(ConfigError, match="--oidc-issuer needs --oidc-client-id"):
        _login("https://id.example.org", "console", None, None, "openid")
    users, secret = tmp_path / "users.yaml", tmp_path / "secret"
    users.write_text("users:\n- {value: staff, accessKey: u, secretKey: s}\n")
    secret.write_text("hush\n")
    for path in (users, secret):
        path.chmod(0o600)
    read = _login("https://id.example.org", "console", secret, users, "openid")
    assert (read.client_secret, read.users.claim) == ("hush", "groups")
    secret.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        _login("https://id.example.org", "console", secret, users, "openid")
