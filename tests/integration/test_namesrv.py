"""The name server as brokers and clients meet it: over real connections on the loopback."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.namesrv.arbiter import VALUE_SIZE_MAX
from pocketmq.namesrv.kv_config import KVConfigError
from pocketmq.protocol.bodies.routes import (
    BrokerMemberGroup,
    ClusterInfo,
    QueueData,
    TopicRoute,
)
from pocketmq.protocol.bodies.topics import (
    DataVersion,
    KVTable,
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigTable,
    TopicList,
)
from pocketmq.protocol.codes import ResponseCode, Version
from pocketmq.protocol.errors import ConfigError, ResponseError, TopicMissingError, response_error
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.requests.extensions.replication import (
    ArbiterReadRequest,
    ArbiterReadResponse,
    ArbiterWriteRequest,
    ArbiterWriteResponse,
)
from pocketmq.protocol.requests.nameserver import (
    AddWritePermRequest,
    AddWritePermResponse,
    BrokerHeartbeatRequest,
    BrokerMemberGroupRequest,
    ClusterInfoRequest,
    DeleteKVConfigRequest,
    DeleteTopicInNamesrvRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    GetKVListRequest,
    NamesrvConfigRequest,
    PutKVConfigRequest,
    QueryDataVersionRequest,
    QueryDataVersionResponse,
    RegisterBrokerRequest,
    RegisterBrokerResponse,
    RegisterTopicRequest,
    RouteRequest,
    SystemTopicListRequest,
    TopicListRequest,
    TopicsByClusterRequest,
    UnitSubOnlyTopicListRequest,
    UnitSubTopicListRequest,
    UnitTopicListRequest,
    UnregisterBrokerRequest,
    UpdateNamesrvConfigRequest,
    WipeWritePermRequest,
    WipeWritePermResponse,
)
from pocketmq.protocol.wire import loose_json
from pocketmq.protocol.wire.command import Command
from pocketmq.protocol.wire.header import RequestHeader
from pocketmq.runtime.clock import SystemClock
from pocketmq.runtime.settings import properties_from_text
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.connection import Connection, ConnectionOptions
from pocketmq.transport.pool import ConnectionPool

CLUSTER = "DefaultCluster"
TIMEOUT_MS = 10_000
VERSION = DataVersion(counter=1, timestamp=1_700_000_000_000)


class Peer:
    """One connection to a name server, with its answers checked for success."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection

    async def ask(self, request: RequestHeader, body: bytes = b"") -> Command:
        answer = await self.connection.call(
            Command(request.code, header=request, body=body), TIMEOUT_MS
        )
        if answer.code:
            raise response_error(answer.code, answer.remark)
        return answer

    async def register(
        self,
        name: str = "broker-a",
        *topics: str,
        address: str | None = None,
        version: DataVersion = VERSION,
        broker_id: int = 0,
        **fields: object,
    ) -> Command:
        body = registration_body(*topics or ("TopicA", "TopicB"), version=version)
        header = register_header(name, address, broker_id, **fields)
        return await self.ask(header, body.encode())

    async def route(self, topic: str = "TopicA") -> TopicRoute:
        return TopicRoute.decode((await self.ask(RouteRequest(topic=topic))).body)

    async def brokers(self, topic: str = "TopicA") -> dict[str, dict[int, str]]:
        """Addresses by broker name; none if there is no route."""
        try:
            route = await self.route(topic)
        except TopicMissingError:
            return {}
        return {data.broker_name: data.broker_addrs for data in route.broker_datas}

    async def topic_list(self, request: RequestHeader) -> list[str]:
        return sorted(TopicList.decode((await self.ask(request)).body).topic_list)

    async def until_gone(self, topic: str = "TopicA") -> None:
        """Asks until a closed connection was noticed; each question is a round trip."""
        for _ in range(10_000):
            if not await self.brokers(topic):
                return
        raise AssertionError(f"{topic} still has a route")


def register_header(
    name: str, address: str | None = None, broker_id: int = 0, **fields: object
) -> RegisterBrokerRequest:
    header = RegisterBrokerRequest(
        broker_name=name,
        broker_addr=address or f"{name}:10911",
        cluster_name=CLUSTER,
        broker_id=broker_id,
        ha_server_addr=f"{name}:10912",
    )
    for field, value in fields.items():
        setattr(header, field, value)
    return header


def registration_body(*topics: str, version: DataVersion = VERSION) -> RegisterBrokerBody:
    table = {
        t: TopicConfig(topic_name=t, read_queue_nums=4, write_queue_nums=4, topic_sys_flag=flag)
        for flag, t in enumerate(topics)
    }
    return RegisterBrokerBody(
        topic_config_serialize_wrapper=TopicConfigTable(
            topic_config_table=table, data_version=version
        )
    )


def config(**settings: object) -> NamesrvConfig:
    out = NamesrvConfig(listen_port=0, bind_address="127.0.0.1")
    for key, value in settings.items():
        setattr(out, key, value)
    return out


@asynccontextmanager
async def connected(server: NameServer, source: str = "127.0.0.1") -> AsyncIterator[Peer]:
    """A connection from one of the loopback's addresses, on the system's clock."""
    host, port = split_address(server.address)
    _, connection = await asyncio.get_running_loop().create_connection(
        lambda: Connection(SystemClock(), {}, ConnectionOptions(dials=True)),
        host,
        port,
        local_addr=(source, 0),
    )
    try:
        yield Peer(connection)
    finally:
        connection.close()
        await connection.wait_closed()


@pytest.fixture
async def server(clock: VirtualClock) -> AsyncIterator[NameServer]:
    async with NameServer(config(), clock) as server:
        yield server


@pytest.fixture
async def peer(server: NameServer) -> AsyncIterator[Peer]:
    async with connected(server) as peer:
        yield peer


# -- registration and routes --------------------------------------------------------------------


async def test_a_registered_topic_has_a_route(peer: Peer) -> None:
    with pytest.raises(ResponseError) as e:
        await peer.route()
    assert e.value.code == 17
    assert e.value.remark is not None
    assert e.value.remark.startswith(
        "No topic route info in name server for the topic: TopicA. Create the topic"
    )
    await peer.register()
    route = await peer.route()
    assert route.queue_datas == [
        QueueData(broker_name="broker-a", read_queue_nums=4, write_queue_nums=4, perm=6)
    ]
    assert await peer.brokers() == {"broker-a": {0: "broker-a:10911"}}


async def test_a_slave_is_told_where_its_master_is(peer: Peer) -> None:
    answer = await peer.register()
    assert answer.read(RegisterBrokerResponse) == RegisterBrokerResponse()
    slave = await peer.register(address="slave:1", broker_id=1)
    assert slave.read(RegisterBrokerResponse) == RegisterBrokerResponse(
        master_addr="broker-a:10911", ha_server_addr="broker-a:10912"
    )


async def test_the_json_form_follows_the_callers_version(peer: Peer) -> None:
    await peer.register()

    async def body(version: int, standard_only: bool | None = None) -> bytes:
        request = RouteRequest(topic="TopicA", accept_standard_json_only=standard_only)
        command = Command(request.code, header=request, version=version)
        return (await peer.connection.call(command, TIMEOUT_MS)).body

    assert b'{0:"broker-a:10911"}' in await body(Version.V4_9_3)
    assert b'{"0":"broker-a:10911"}' in await body(Version.V4_9_3, standard_only=True)
    assert b'{"0":"broker-a:10911"}' in await body(Version.V4_9_4)


async def test_the_body_is_checked_and_may_be_compressed(peer: Peer) -> None:
    def number(n: int) -> bytes:
        return n.to_bytes(4, "big")

    def part(data: bytes) -> bytes:
        return number(len(data)) + data

    topics = part(b"TopicZ 4 4 6 SINGLE_TAG {}") + part(b"TopicY 4 4 6 SINGLE_TAG {}")
    inflated = part(loose_json.encode(VERSION)) + number(2) + topics + part(b"[]") + number(0)
    body = zlib.compress(inflated)
    header = register_header("broker-z", compressed=True)
    header.body_crc32 = zlib.crc32(body) & 0x7FFFFFFF
    await peer.ask(header, body)
    assert await peer.brokers("TopicZ") == {"broker-z": {0: "broker-z:10911"}}
    header.body_crc32 ^= 1
    with pytest.raises(ResponseError, match="crc32 not match") as e:
        await peer.ask(header, body)
    assert e.value.code == 1


async def test_bad_registrations_are_refused_with_the_reason(peer: Peer) -> None:
    for fields, reason in (
        ({"cluster_name": " "}, "clusterName is blank"),
        ({"advertise": "nonsense"}, "`advertise` rules cannot be used"),
    ):
        with pytest.raises(ResponseError, match=reason) as e:
            await peer.register(**fields)  # type: ignore[arg-type]
        assert e.value.code == 1
    with pytest.raises(ResponseError, match="the body is no RegistrationBody"):
        await peer.ask(register_header("broker-a"), b"[1]")
    with pytest.raises(ResponseError, match="register broker failed"):
        await peer.register("broker-a", "OnlyOne")
    assert await peer.topic_list(SystemTopicListRequest()) == []


async def test_a_broker_asks_whether_it_has_to_register(peer: Peer) -> None:
    query = QueryDataVersionRequest(
        broker_name="broker-a", broker_addr="broker-a:10911", cluster_name=CLUSTER, broker_id=0
    )
    answer = await peer.ask(query, loose_json.encode(VERSION))
    assert answer.read(QueryDataVersionResponse).changed
    assert answer.body == b""
    await peer.register()
    answer = await peer.ask(query, loose_json.encode(VERSION))
    assert not answer.read(QueryDataVersionResponse).changed
    assert loose_json.decode(answer.body, DataVersion) == VERSION
    answer = await peer.ask(query, loose_json.encode(VERSION.next(5)))
    assert answer.read(QueryDataVersionResponse).changed


async def test_many_topics_register_at_once(peer: Peer) -> None:
    topics = [f"Topic-{i}" for i in range(40_000)]
    await peer.register("broker-a", *topics)
    await peer.register("broker-b", *topics)
    await peer.register("broker-a", *topics, version=VERSION.next(1))
    assert len(await peer.topic_list(TopicListRequest())) == 40_000
    assert set(await peer.brokers("Topic-39999")) == {"broker-a", "broker-b"}


# -- brokers go ---------------------------------------------------------------------------------


async def test_a_broker_that_unregisters_is_gone(peer: Peer) -> None:
    await peer.register()
    await peer.ask(
        UnregisterBrokerRequest(
            broker_name="broker-a", broker_addr="broker-a:10911", cluster_name=CLUSTER, broker_id=0
        )
    )
    assert await peer.brokers() == {}


async def test_a_closed_connection_removes_its_broker(server: NameServer, peer: Peer) -> None:
    async with connected(server) as broker:
        await broker.register()
        assert await peer.brokers() != {}
    await peer.until_gone()
    assert await peer.topic_list(SystemTopicListRequest()) == []


async def test_a_broker_that_came_back_outlives_its_old_connection(
    server: NameServer, peer: Peer
) -> None:
    async with connected(server) as old, connected(server) as new:
        await old.register()
        await old.register("marker", "Marker", "Marker2")
        await new.register()
        old.connection.abort("the process was killed")
        await peer.until_gone("Marker")
        assert await peer.brokers() == {"broker-a": {0: "broker-a:10911"}}


async def test_silent_brokers_expire_after_120_s(
    server: NameServer, peer: Peer, clock: VirtualClock
) -> None:
    async with connected(server) as broker:
        await broker.register()
        for _ in range(4):
            await clock.advance(30)
            assert await broker.brokers() != {}, "a question is no sign of life, but traffic"
        await clock.advance(5)
        await broker.connection.wait_closed()
    async with connected(server) as other:
        assert await other.brokers() == {}


async def test_how_often_silent_brokers_are_looked_for_can_be_changed(
    server: NameServer, peer: Peer, clock: VirtualClock
) -> None:
    async with connected(server) as broker:
        await peer.ask(UpdateNamesrvConfigRequest(), b"scanNotActiveBrokerInterval=60000")
        await clock.advance(6)  # the last scan by the old interval
        await broker.register(heartbeat_timeout_millis=1000)
        await clock.advance(30)
        assert await peer.brokers() != {}, "silent for too long, but nobody has looked"
        await clock.advance(30)
        await broker.connection.wait_closed()
        assert await peer.brokers() == {}


async def test_a_broker_chooses_its_own_time(
    server: NameServer, peer: Peer, clock: VirtualClock
) -> None:
    await peer.register(heartbeat_timeout_millis=10_000)
    await clock.advance(10)
    assert await peer.brokers() != {}
    await clock.advance(5)
    await peer.connection.wait_closed()
    async with connected(server) as other:
        assert await other.brokers() == {}


async def test_signs_of_life_keep_a_broker(peer: Peer, clock: VirtualClock) -> None:
    await peer.register()
    heartbeat = BrokerHeartbeatRequest(
        cluster_name=CLUSTER, broker_addr="broker-a:10911", broker_name="broker-a"
    )
    for _ in range(10):
        await clock.advance(60)
        await peer.ask(heartbeat)
    assert await peer.brokers() != {}


async def test_two_name_servers_know_nothing_of_each_other(clock: VirtualClock) -> None:
    async with NameServer(config(), clock) as second:
        async with NameServer(config(), clock) as first, connected(first) as peer:
            await peer.register()
            async with connected(second) as other:
                assert await other.brokers() == {}
        async with connected(second) as other:
            await other.register()
            assert await other.brokers() != {}


# -- questions ----------------------------------------------------------------------------------


async def test_lists(peer: Peer) -> None:
    await peer.register("broker-a", "Plain", "Unit", "UnitSub", "Both")
    topics = ["Both", "Plain", "Unit", "UnitSub"]
    assert await peer.topic_list(TopicListRequest()) == topics
    assert await peer.topic_list(TopicsByClusterRequest(cluster=CLUSTER)) == topics
    assert await peer.topic_list(TopicsByClusterRequest(cluster="Unknown")) == []
    assert await peer.topic_list(UnitTopicListRequest()) == ["Both", "Unit"]
    assert await peer.topic_list(UnitSubTopicListRequest()) == ["Both", "UnitSub"]
    assert await peer.topic_list(UnitSubOnlyTopicListRequest()) == ["UnitSub"]
    answer = await peer.ask(SystemTopicListRequest())
    assert TopicList.decode(answer.body) == TopicList(
        topic_list=[CLUSTER, "broker-a"], broker_addr="broker-a:10911"
    )


async def test_lists_can_be_turned_off(clock: VirtualClock) -> None:
    settings = config(enable_all_topic_list=False, enable_topic_list=False)
    async with NameServer(settings, clock) as server, connected(server) as peer:
        for request in (
            TopicListRequest(),
            TopicsByClusterRequest(cluster=CLUSTER),
            UnitTopicListRequest(),
        ):
            with pytest.raises(ResponseError, match="disable") as e:
                await peer.ask(request)
            assert e.value.code == 1


async def test_clusters_and_members(peer: Peer) -> None:
    await peer.register()
    await peer.register(address="slave:1", broker_id=1)
    info = ClusterInfo.decode((await peer.ask(ClusterInfoRequest())).body)
    assert info.cluster_addr_table == {CLUSTER: ["broker-a"]}
    addresses = {0: "broker-a:10911", 1: "slave:1"}
    assert info.broker_addr_table["broker-a"].broker_addrs == addresses
    request = BrokerMemberGroupRequest(cluster_name=CLUSTER, broker_name="broker-a")
    group = BrokerMemberGroup.decode((await peer.ask(request)).body)
    assert group.broker_member_group.broker_addrs == addresses


async def test_a_zone_is_asked_for_in_the_request(peer: Peer) -> None:
    await peer.register("near", zone_name="z1")
    await peer.register("far", zone_name="z2")

    async def names(mode: str | None, zone: str | None) -> set[str]:
        request = RouteRequest(topic="TopicA", zone_mode=mode, zone_name=zone)
        route = TopicRoute.decode((await peer.ask(request)).body)
        return {data.broker_name for data in route.broker_datas}

    assert await names("true", "Z1") == {"near"}
    assert await names("True", "z2") == {"far"}
    assert await names("false", "z1") == {"near", "far"}
    assert await names("true", None) == {"near", "far"}
    assert await names("true", " ") == {"near", "far"}


@pytest.mark.skipif(sys.platform == "darwin", reason="only 127.0.0.1 is there without set-up")
async def test_each_caller_is_told_its_own_address(server: NameServer, peer: Peer) -> None:
    rules = [
        {"addr": "second:1", "callers": ["127.0.0.2"]},
        {"addr": "third:1", "callers": ["127.0.0.3/32", "10.0.0.0/8"]},
    ]
    await peer.register(advertise=json.dumps(rules))
    for source, address in (
        ("127.0.0.1", "broker-a:10911"),
        ("127.0.0.2", "second:1"),
        ("127.0.0.3", "third:1"),
    ):
        async with connected(server, source) as caller:
            assert (await caller.brokers())["broker-a"][0] == address
            info = ClusterInfo.decode((await caller.ask(ClusterInfoRequest())).body)
            assert info.broker_addr_table["broker-a"].master_address == address
            request = BrokerMemberGroupRequest(cluster_name=CLUSTER, broker_name="broker-a")
            group = BrokerMemberGroup.decode((await caller.ask(request)).body)
            assert group.broker_member_group.broker_addrs[0] == address
            names = TopicList.decode((await caller.ask(SystemTopicListRequest())).body)
            assert names.broker_addr == address
            slave = await caller.register("broker-a", address=f"slave-of-{source}:1", broker_id=1)
            assert slave.read(RegisterBrokerResponse).master_addr == address


async def test_it_waits_for_brokers_if_told_to(clock: VirtualClock) -> None:
    settings = config(need_wait_for_service=True)
    async with NameServer(settings, clock) as server, connected(server) as peer:
        await peer.register()
        await clock.advance(44)
        with pytest.raises(ResponseError, match="name server not ready: it waits another 1 s"):
            await peer.route()
        await clock.advance(1)
        assert await peer.brokers() != {}


# -- changes by hand ----------------------------------------------------------------------------


async def test_write_permission_is_wiped_and_given_back(peer: Peer) -> None:
    await peer.register()
    wiped = await peer.ask(WipeWritePermRequest(broker_name="broker-a"))
    assert wiped.read(WipeWritePermResponse).wipe_topic_count == 2
    assert [q.perm for q in (await peer.route()).queue_datas] == [4]
    added = await peer.ask(AddWritePermRequest(broker_name="broker-a"))
    assert added.read(AddWritePermResponse).add_topic_count == 2
    assert [q.perm for q in (await peer.route()).queue_datas] == [6]


async def test_topics_are_added_and_deleted(peer: Peer) -> None:
    await peer.register()
    queues = QueueData(broker_name="broker-a", read_queue_nums=1, write_queue_nums=1, perm=6)
    body = TopicRoute(queue_datas=[queues]).encode()
    await peer.ask(RegisterTopicRequest(topic="New"), body)
    assert (await peer.route("New")).queue_datas == [queues]
    await peer.ask(DeleteTopicInNamesrvRequest(topic="New", cluster_name="Unknown"))
    assert await peer.brokers("New") != {}
    await peer.ask(DeleteTopicInNamesrvRequest(topic="New", cluster_name=CLUSTER))
    assert await peer.brokers("New") == {}
    await peer.ask(DeleteTopicInNamesrvRequest(topic="TopicA"))
    assert await peer.brokers() == {}


async def test_the_kv_configuration_outlives_a_restart(clock: VirtualClock, tmp_path: Path) -> None:
    settings = config(kv_config_path=str(tmp_path / "kvConfig.json"), order_message_enable=True)
    namespace = "ORDER_TOPIC_CONFIG"
    get = GetKVConfigRequest(namespace=namespace, key="TopicA")
    async with NameServer(settings, clock) as server, connected(server) as peer:
        with pytest.raises(ResponseError, match="No config item") as e:
            await peer.ask(get)
        assert e.value.code == 22
        with pytest.raises(ResponseError, match="No config item") as e:
            await peer.ask(GetKVListRequest(namespace=namespace))
        assert e.value.code == 22
        assert (await peer.register()).body == b""
        for key in ("TopicA", "TopicB"):
            await peer.ask(PutKVConfigRequest(namespace=namespace, key=key, value="broker-a:4"))
        await peer.ask(DeleteKVConfigRequest(namespace=namespace, key="TopicB"))
    async with NameServer(settings, clock) as server, connected(server) as peer:
        assert (await peer.ask(get)).read(GetKVConfigResponse).value == "broker-a:4"
        table = {"TopicA": "broker-a:4"}
        answer = await peer.ask(GetKVListRequest(namespace=namespace))
        assert KVTable.decode(answer.body).table == table
        assert KVTable.decode((await peer.register()).body).table == table
        assert (await peer.route()).order_topic_conf == "broker-a:4"


async def test_changes_of_the_kv_configuration_keep_their_order(
    clock: VirtualClock, tmp_path: Path
) -> None:
    path, namespace, last = tmp_path / "kvConfig.json", "NS", 20
    settings = config(kv_config_path=str(path))
    of_rocketmq = {namespace: {f"k{n}": "" for n in range(1001)}}
    path.write_text(json.dumps({"configTable": of_rocketmq}))
    async with NameServer(settings, clock) as server, connected(server) as peer:
        puts = [
            peer.ask(PutKVConfigRequest(namespace=namespace, key=f"k{n % 11}", value=f"{n}"))
            for n in range(last + 1)
        ]
        get = peer.ask(GetKVConfigRequest(namespace=namespace, key=f"k{last % 11}"))
        listing = peer.ask(GetKVListRequest(namespace=namespace))
        *_, value, table = await asyncio.gather(*puts, get, listing)
        assert value.read(GetKVConfigResponse).value == f"{last}"
        assert len(KVTable.decode(table.body).table) == 1001
        with pytest.raises(ResponseError, match="a text is longer than 65536 characters"):
            await peer.ask(PutKVConfigRequest(namespace=namespace, key="k", value="v" * 65_537))
    async with NameServer(settings, clock) as server, connected(server) as peer:
        again = await peer.ask(GetKVListRequest(namespace=namespace))
        assert again.body == table.body


async def test_a_damaged_kv_file_stops_the_start(clock: VirtualClock, tmp_path: Path) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text("{")
    with pytest.raises(KVConfigError, match=r"kvConfig\.json: the file is damaged"):
        async with NameServer(config(kv_config_path=str(path)), clock):
            pass


async def test_settings_are_shown_and_changed_until_the_next_start(peer: Peer) -> None:
    async def shown() -> dict[str, str]:
        return properties_from_text((await peer.ask(NamesrvConfigRequest())).body.decode())

    before = await shown()
    assert before["brokerExpiredTimeout"] == "120000"
    await peer.ask(UpdateNamesrvConfigRequest(), b"enableTopicList=false\n")
    assert await shown() == before | {"enableTopicList": "false"}
    with pytest.raises(ResponseError, match="disable"):
        await peer.topic_list(UnitTopicListRequest())
    for text, code, reason in (
        (b"enableTopicList=true\nlistenPort=1", 16, "black list. listenPort"),
        (b"kvConfigPath=/x", 16, "black list. kvConfigPath"),
        (b"enableTopcList=true", 1, "did you mean 'enableTopicList'"),
        (b"enableTopicList=perhaps", 1, "the value of enableTopicList does not fit"),
        (b"\xff", 1, "no UTF-8"),
    ):
        with pytest.raises(ResponseError, match=reason) as e:
            await peer.ask(UpdateNamesrvConfigRequest(), text)
        assert e.value.code == code
    assert (await shown())["enableTopicList"] == "false", "all of a change or nothing"


# -- bad peers, start and stop ------------------------------------------------------------------


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff\x00\x00\x00\x08",
        b"\x00\x00\x00\x06\x00\x00\x00\x02{]",
        b"\x00\x00\x00\x06\x63\x00\x00\x02{}",
    ],
)
async def test_garbage_ends_its_own_connection_only(
    server: NameServer, peer: Peer, garbage: bytes
) -> None:
    await peer.register()
    loop = asyncio.get_running_loop()
    with socket.create_connection(split_address(server.address)) as bad:
        bad.setblocking(False)
        await loop.sock_sendall(bad, garbage)
        assert await loop.sock_recv(bad, 1) == b""
    assert await peer.brokers() != {}


async def test_unreadable_and_unknown_requests_are_refused(peer: Peer) -> None:
    await peer.register()
    for command, code in (
        (Command(9999), 3),
        (Command(RouteRequest.code), 1),
        (Command(RegisterBrokerRequest.code, extra={"brokerName": "b"}), 1),
        (Command(RegisterTopicRequest.code, extra={"topic": "T"}, body=b"{"), 1),
        (Command(UpdateNamesrvConfigRequest.code), 0),
    ):
        answer = await peer.connection.call(command, TIMEOUT_MS)
        assert answer.code == code
        assert bool(answer.remark) == bool(code)
    assert await peer.brokers() != {}


async def test_a_taken_port_is_named(server: NameServer, clock: VirtualClock) -> None:
    _, port = split_address(server.address)
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1:{port}: .*listenPort"):
        async with NameServer(config(listen_port=port), clock):
            pass
    assert clock.pending_timers == 1, "only the scan of the first server waits"


async def test_it_stops_cleanly_and_twice(clock: VirtualClock) -> None:
    server = NameServer(config(), clock)
    async with server, connected(server) as peer:
        await peer.register()
        await server.close()
        await peer.connection.wait_closed()
        await server.close()
    assert clock.pending_timers == 0


async def test_settings_given_are_not_changed(clock: VirtualClock) -> None:
    given = config()
    async with NameServer(given, clock) as server, connected(server) as peer:
        await peer.ask(UpdateNamesrvConfigRequest(), b"enableTopicList=false")
    assert given == config()


async def test_all_interfaces_are_reached_by_the_loopback(clock: VirtualClock) -> None:
    async with NameServer(config(bind_address="0.0.0.0", insecure=True), clock) as server:
        assert server.address.startswith("127.0.0.1:")
        async with connected(server) as peer:
            await peer.register()


async def test_the_arbiter_keeps_what_members_of_broker_sets_agree_on(
    clock: VirtualClock, tmp_path: Path
) -> None:
    pool = ConnectionPool(clock)
    path = tmp_path / "arbiter.db"
    async with NameServer(config(arbiter_path=str(path)), clock) as server:
        write = ArbiterWriteRequest(key="/c/b", version=0)
        first = await pool.ask_for(server.address, write, ArbiterWriteResponse, 1000, b"state")
        again = await pool.ask_for(server.address, write, ArbiterWriteResponse, 1000, b"other")
        assert (first.version, first.replaced) == (1, True)
        assert (again.version, again.replaced) == (1, False)
        large = await pool.call(server.address, write, 1000, bytes(VALUE_SIZE_MAX + 1))
        assert large.code == ResponseCode.INVALID_PARAMETER
    async with NameServer(config(arbiter_path=str(path)), clock) as server:
        answer = await pool.ask(server.address, ArbiterReadRequest(key="/c/b"), 1000)
        assert (bytes(answer.body), answer.read(ArbiterReadResponse).version) == (b"state", 1)
    await pool.close()


async def test_without_a_file_a_name_server_is_no_arbiter(clock: VirtualClock) -> None:
    pool = ConnectionPool(clock)
    async with NameServer(config(), clock) as server:
        answer = await pool.call(server.address, ArbiterReadRequest(key="/c/b"), 1000)
        assert answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert "set arbiterPath" in (answer.remark or "")
    await pool.close()
