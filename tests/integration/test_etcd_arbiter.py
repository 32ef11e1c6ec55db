"""`EtcdArbiter` on a real etcd: compare-and-set, faults, wrong answers, users and TLS."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from support.arbiters.between import Relay
from support.arbiters.etcd import Etcd, etcd
from support.brokers.broker_parts import advance_until
from support.peers.certificates import CertificateFiles

from pocketmq.broker.replication.arbiter import ArbiterError, FencedArbiter, Versioned
from pocketmq.broker.replication.etcd import ANSWER_SIZE_MAX, EtcdArbiter, EtcdSettings
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.tls.settings import ClientTls

T = TypeVar("T")
Open = Callable[..., EtcdArbiter]
KEY = "/pocketmq/c/a"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    with etcd(tmp_path_factory.mktemp("etcd")) as running:
        yield running


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"/pocketmq/c/{request.node.name}"


@pytest_asyncio.fixture
async def arbiter_of(clock: VirtualClock) -> AsyncIterator[Open]:
    """Makes arbiters that are closed after the test."""
    opened: list[EtcdArbiter] = []

    def make(*addresses: str, **settings: Any) -> EtcdArbiter:
        opened.append(EtcdArbiter(EtcdSettings(addresses=addresses, **settings), clock))
        return opened[-1]

    yield make
    for arbiter in opened:
        await arbiter.close()


async def outcome(clock: VirtualClock, asked: Awaitable[T]) -> T:
    """What comes out when the time of the clock goes on and on: nobody has time to answer."""
    task = asyncio.ensure_future(asked)
    await advance_until(clock, task.done, 0.1)
    return await task


async def after(clock: VirtualClock, seconds: float, asked: Awaitable[T]) -> T:
    """What comes out when so many seconds pass at once, and then no more."""
    task = asyncio.ensure_future(asked)
    await clock.advance(seconds)
    return await task


def post(address: str, path: str, body: dict[str, Any], token: str = "") -> Any:
    """Asks etcd without an arbiter."""
    request = urllib.request.Request(
        f"http://{address}/v3/{path}",
        data=json.dumps(body).encode(),
        headers={"Authorization": token} if token else {},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


async def test_a_value_is_replaced_only_at_its_version(
    one: Etcd, arbiter_of: Open, key: str
) -> None:
    arbiter, other = arbiter_of(*one.addresses), arbiter_of(*one.addresses)
    assert await arbiter.read(key) == Versioned(b"", 0)
    first = await arbiter.write(key, b"one", 0)
    assert first is not None
    assert await other.write(key, b"too late", 0) is None
    assert await other.read(key) == Versioned(b"one", first)
    second = await other.write(key, b"\x00\xff", first)
    assert second is not None
    assert second > first
    assert await arbiter.write(key, b"too late", first) is None
    assert await arbiter.read(key) == Versioned(b"\x00\xff", second)
    assert await arbiter.read(f"{key}/other") == Versioned(b"", 0)


async def test_of_many_that_write_at_once_one_wins(one: Etcd, arbiter_of: Open, key: str) -> None:
    arbiters = [arbiter_of(*one.addresses) for _ in range(8)]
    for round_ in range(5):
        version = (await arbiters[0].read(key)).version
        written = await asyncio.gather(
            *(a.write(key, b"%d %d" % (round_, i), version) for i, a in enumerate(arbiters))
        )
        winners = [i for i, version in enumerate(written) if version is not None]
        assert len(winners) == 1
        found = await arbiters[0].read(key)
        assert found.value == b"%d %d" % (round_, winners[0])
        assert found.version == written[winners[0]]


# -- members of etcd that are down ----------------------------------------------------------------


async def test_one_of_three_may_be_dead_or_stand_still_two_not(
    tmp_path: Path, arbiter_of: Open, clock: VirtualClock
) -> None:
    with etcd(tmp_path, members=3) as three:
        arbiter, (first, second, third) = arbiter_of(*three.addresses), three.members
        version = await arbiter.write(KEY, b"one", 0)
        assert version is not None
        first.kill()
        for member in (second, third):
            member.wait_until_answering()
        assert await arbiter.read(KEY) == Versioned(b"one", version)
        first.start()
        first.wait_until_ready()
        second.pause()
        for member in (first, third):
            member.wait_until_answering()
        later = await after(clock, 0.7, arbiter.write(KEY, b"two", version))
        assert later is not None
        third.kill()
        asked_s = clock.machine.monotonic()
        with pytest.raises(ArbiterError, match=r"does not answer.*start etcd"):
            await outcome(clock, arbiter.write(KEY, b"three", later))
        assert clock.machine.monotonic() - asked_s < 2.5
        second.resume()
        for member in (first, second):
            member.wait_until_answering()
        found = await arbiter.read(KEY)
        assert found.value in (b"two", b"three")  # nobody knew
        assert (found.value == b"two") == (found.version == later)


async def test_etcd_keeps_the_value_over_its_restart(
    tmp_path: Path, arbiter_of: Open, clock: VirtualClock
) -> None:
    with etcd(tmp_path) as running:
        arbiter = arbiter_of(*running.addresses)
        version = await arbiter.write(KEY, b"one", 0) or 0
        running.members[0].kill()
        with pytest.raises(ArbiterError, match="start etcd, or correct controllerAddr"):
            await arbiter.read(KEY)
        running.members[0].start()
        running.members[0].wait_until_ready()
        assert await arbiter.read(KEY) == Versioned(b"one", version)


async def until_there(running: Etcd, key: str, clock: VirtualClock) -> int:
    """Returns the version of a key as soon as it has one."""
    for _ in range(10_000):
        found = post(running.addresses[0], "kv/range", {"key": _text(key)})
        if "kvs" in found:
            return int(found["kvs"][0]["mod_revision"])
        await clock.advance(0)
    raise AssertionError(f"nobody has written {key}")


# -- writes of unknown fate -----------------------------------------------------------------------


async def test_a_write_whose_answer_is_lost_is_known_at_the_next_member(
    one: Etcd, arbiter_of: Open, clock: VirtualClock, key: str
) -> None:
    async with Relay(one.addresses[0]) as relay:
        arbiter = arbiter_of(relay.address, *one.addresses)
        await arbiter.read(key)
        relay.lost = True
        writing = asyncio.ensure_future(arbiter.write(key, b"one", 0))
        found = await until_there(one, key, clock)
        assert await after(clock, 1.1, writing) == found


async def test_a_write_without_any_answer_is_an_error_and_may_have_taken_place(
    one: Etcd, arbiter_of: Open, clock: VirtualClock, key: str
) -> None:
    async with Relay(one.addresses[0]) as relay:
        arbiter = FencedArbiter(arbiter_of(relay.address))
        await arbiter.read(key)
        relay.lost = True
        writing = asyncio.ensure_future(arbiter.write(key, b"one", 0))
        await until_there(one, key, clock)
        with pytest.raises(ArbiterError):
            await outcome(clock, writing)
        relay.lost = False
        assert (await arbiter.read(key)).value == b"one"


async def test_a_write_that_was_given_up_cannot_take_place_after_the_next_read(
    one: Etcd, arbiter_of: Open, clock: VirtualClock, key: str
) -> None:
    async with Relay(one.addresses[0]) as relay:
        arbiter = FencedArbiter(arbiter_of(relay.address))
        first = await arbiter.write(key, b"one", 0)
        assert first is not None
        relay.held = base64.b64encode(b"late")
        with pytest.raises(ArbiterError):
            await outcome(clock, arbiter.write(key, b"late", first))
        assert relay.seen == 1
        found = await arbiter.read(key)
        assert found.value == b"one"
        assert found.version > first
        relay.release()
        await relay.passed_on()
        assert await arbiter.read(key) == found


# -- wrong answers --------------------------------------------------------------------------------


@pytest_asyncio.fixture
async def answering() -> AsyncIterator[Callable[[bytes], Awaitable[str]]]:
    """Starts servers that answer each request with the same bytes."""
    servers: list[asyncio.Server] = []

    async def start(data: bytes) -> str:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            head = await reader.readuntil(b"\r\n\r\n")
            sizes = re.search(rb"(?i)content-length: (\d+)", head)
            assert sizes is not None
            await reader.readexactly(int(sizes.group(1)))
            writer.write(data)
            writer.close()

        servers.append(await asyncio.start_server(answer, "127.0.0.1", 0))
        return f"127.0.0.1:{servers[-1].sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


def http(body: bytes, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


HEADER = b'"header":{"cluster_id":"7","revision":"3"}'


def rows(row: bytes) -> bytes:
    return b'{%s,"kvs":[%s]}' % (HEADER, row)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "Server disconnected"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "Bad status line|Expected HTTP"),
        (http(b"<html>a proxy</html>"), "it is no etcd from 3.4 on"),
        (http(b"Not Found", "404 Not Found"), "status 404"),
        (http(b'{"header":{}}'), "names no cluster"),
        (http(b'{"header":{"cluster_id":7}}'), "Expected `str`"),
        (http(rows(b'{"value":"*","mod_revision":"1"}')), "cannot be read"),
        (http(rows(b'{"value":"YQ==","mod_revision":"x"}')), "cannot be read"),
        (http(rows(b'{"value":"YQ==","mod_revision":"-1"}')), "version -1"),
        (http(b" " * (ANSWER_SIZE_MAX + 1)), f"more than {ANSWER_SIZE_MAX} bytes"),
        (http(b'{"error":"etcdserver: no leader","code":14}', "503 x"), "no leader"),
        (http(b'{"error":"etcdserver: mvcc: full","code":8}', "429 x"), "mvcc: full.*look at etcd"),
    ],
)  # fmt: skip
async def test_wrong_answers_are_refused_and_the_next_member_is_asked(
    one: Etcd, arbiter_of: Open, answering: Callable[[bytes], Awaitable[str]],
    data: bytes, told: str,
) -> None:  # fmt: skip
    wrong = await answering(data)
    with pytest.raises(ArbiterError, match=told):
        await arbiter_of(wrong).read(KEY)
    if b'"kvs"' in data:  # of a read, not of a write
        told = "nothing was read"
    with pytest.raises(ArbiterError, match=told):
        await arbiter_of(wrong).write(KEY, b"one", 0)
    if b'"code":8' not in data and b'"kvs"' not in data:  # what an etcd says holds
        assert await arbiter_of(wrong, *one.addresses).read(f"{KEY}/none") == Versioned(b"", 0)


async def test_a_write_with_half_an_answer_is_an_error(
    arbiter_of: Open, answering: Callable[[bytes], Awaitable[str]], clock: VirtualClock
) -> None:
    for body in (b"{%s}" % HEADER, b'{"header":{"cluster_id":"7"},"succeeded":true}'):
        with pytest.raises(ArbiterError, match="it is no etcd"):
            await arbiter_of(await answering(http(body))).write(KEY, b"one", 0)


async def test_two_clusters_are_not_taken_for_one(
    one: Etcd, tmp_path: Path, arbiter_of: Open, clock: VirtualClock, key: str
) -> None:
    with etcd(tmp_path) as other:
        arbiter = arbiter_of(*other.addresses, *one.addresses)
        await arbiter.read(key)
        other.members[0].kill()
        with pytest.raises(ArbiterError, match=r"of cluster .*: name members of one cluster"):
            await arbiter.write(key, b"lost", 0)
        assert await arbiter_of(*one.addresses).read(key) == Versioned(b"", 0)


# -- users ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """An etcd that asks for users: member may use /pocketmq/, guest may not."""
    with etcd(tmp_path_factory.mktemp("guarded")) as running:
        address = running.addresses[0]
        prefix = {"key": _text("/pocketmq/"), "range_end": _text("/pocketmq0")}
        for user in ("root", "member", "guest"):
            post(address, "auth/user/add", {"name": user, "password": f"of {user}"})
        for role in ("root", "members"):
            post(address, "auth/role/add", {"name": role})
        post(address, "auth/role/grant",
             {"name": "members", "perm": {"permType": "READWRITE", **prefix}})  # fmt: skip
        post(address, "auth/user/grant", {"user": "root", "role": "root"})
        post(address, "auth/user/grant", {"user": "member", "role": "members"})
        post(address, "auth/enable", {})
        yield running


async def test_a_user_logs_in_and_again_when_the_token_is_no_more_valid(
    guarded: Etcd, arbiter_of: Open, key: str
) -> None:
    (address,) = guarded.addresses
    arbiter = arbiter_of(address, user="member", password="of member")
    version = await arbiter.write(key, b"one", 0)
    assert version is not None
    root = post(address, "auth/authenticate", {"name": "root", "password": "of root"})["token"]
    same = {"name": "member", "password": "of member"}
    post(address, "auth/user/changepw", same, root)  # takes all tokens of the user
    assert await arbiter.read(key) == Versioned(b"one", version)
    assert await arbiter.write(key, b"two", version) is not None


@pytest.mark.parametrize(
    ("user", "password", "told"),
    [
        ("", "", "user name is empty: set etcdUser and etcdPassword"),
        ("member", "wrong", r"authentication failed.*correct etcdUser \(now member\)"),
        ("nobody", "of nobody", r"authentication failed.*correct etcdUser \(now nobody\)"),
        ("guest", "of guest", "permission denied: give a role of user guest readwrite on the"),
    ],
)
async def test_who_may_not_is_refused(
    guarded: Etcd, arbiter_of: Open, key: str, user: str, password: str, told: str
) -> None:
    arbiter = arbiter_of(*guarded.addresses, user=user, password=password)
    for asked in (arbiter.read(key), arbiter.write(key, b"one", 0)):
        with pytest.raises(ArbiterError, match=told):
            await asked


async def test_a_user_may_be_set_before_etcd_asks_for_one(
    one: Etcd, arbiter_of: Open, key: str
) -> None:
    arbiter = arbiter_of(*one.addresses, user="member", password="of member")
    assert await arbiter.write(key, b"one", 0) is not None


def test_settings_do_not_show_the_password() -> None:
    assert "of member" not in repr(EtcdSettings(addresses=("a:1",), user="a", password="of member"))


# -- TLS ------------------------------------------------------------------------------------------


async def test_etcd_over_tls_with_a_certificate_for_each_side(
    tmp_path: Path, arbiter_of: Open, clock: VirtualClock, key: str
) -> None:
    files = CertificateFiles(tmp_path / "files")
    options = ("--cert-file", files.cert_path, "--key-file", files.key_path,
               "--client-cert-auth", "--trusted-ca-file", files.ca_path)  # fmt: skip
    own = ClientTls(
        trust_cert_path=files.ca_path, cert_path=files.cert_path, key_path=files.key_path
    )
    with etcd(tmp_path / "etcd", options=options, scheme="https") as running:
        addresses = running.addresses
        arbiter = arbiter_of(*addresses, tls=own)
        version = await arbiter.write(key, b"one", 0) or 0
        assert await arbiter.read(key) == Versioned(b"one", version)
        with pytest.raises(ArbiterError, match=r"is not trusted.*set etcdTrustCertPath"):
            await arbiter_of(*addresses, tls=ClientTls()).read(key)
        bare = arbiter_of(*addresses, tls=ClientTls(trust_cert_path=files.ca_path))
        with pytest.raises(ArbiterError, match="Set etcdCertPath and etcdKeyPath"):
            await bare.read(key)
        with pytest.raises(ArbiterError, match="Then controllerAddr is etcds://"):
            await arbiter_of(*addresses).read(key)


def _text(key: str) -> str:
    return base64.b64encode(key.encode()).decode()
