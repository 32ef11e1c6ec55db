"""A broker set with its arbiter in a simulated world, what its clients do, and what must hold."""

from __future__ import annotations

import asyncio
import contextlib
import random
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

from support.simulation.member import Member
from support.simulation.world import Process, World
from support.store.stores import messages

from pocketmq.broker.replication.arbiter import state_key
from pocketmq.broker.replication.leading import Leading
from pocketmq.broker.replication.set_state import SetState, decode_state
from pocketmq.broker.store.log.segment import ENTRY_SIZE
from pocketmq.broker.store.metadata.common_tables import read_common_tables
from pocketmq.client import Message, Producer
from pocketmq.client.results import SendStatus
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.messages.records import decode_records
from pocketmq.protocol.requests.offsets import (
    OffsetResponse,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from pocketmq.protocol.requests.topics import CreateTopicRequest
from pocketmq.transport.pool import ConnectionPool

TOPIC = "Orders"
NAME = "a"
QUEUES = 2
SENDERS = 4
PAUSE_S_MAX = 0.3
DELAYS_S = (0.001, 0.01, 0.1)
"""Of bytes on their way, at the most."""

CLUSTER = "DefaultCluster"
NAMESRV_PORT = 9876
LEASE_MS = 2000
CALL_MS = 3000
STATE_KEY = state_key(CLUSTER, NAME)

SETTINGS = {
    "broker_name": NAME,
    "bind_address": "127.0.0.1",
    "namesrv_addr": f"127.0.0.1:{NAMESRV_PORT}",
    "enable_controller_mode": True,
    "leader_lease": LEASE_MS,
    "grpc_server_port": -1,
    "vip_channel_enable": False,
    "disk_space_free_min": 0,
    "connection_idle_timeout": 60_000,
    "flush_interval_commit_log": 500,
    "flush_consumer_offset_interval": 1000,
    "flush_delay_offset_interval": 1000,
    "clean_resource_interval": 3_600_000,
    "segment_size": 64 * 1024,
}


class Acknowledged(NamedTuple):
    """A message that a client was told is stored."""

    queue_id: int
    offset: int
    body: bytes


class Changed(NamedTuple):
    """What a client has changed beside the messages.

    Attributes:
        offset: the highest that was committed with an answer.
        asked: the highest that was asked for.
        topics: those that were created with an answer.
    """

    offset: int
    asked: int
    topics: tuple[str, ...]


class Scene:
    """Members, an arbiter in a name server, and a client.

    Args:
        directory: for the data.
        seed: decides everything.
        members: how many there are.
        settings: of the brokers.
    """

    def __init__(self, directory: Path, seed: int, members: int = 3, **settings: object) -> None:
        self.directory, self.settings = directory, settings
        self.world = World(seed)
        self.world.on_step = self._look
        self.chance = random.Random(seed + 1)
        self.acknowledged: list[Acknowledged] = []
        self.seen: dict[tuple[int, int], bytes] = {}
        self.leaders: dict[int, int] = {}
        self._looked: dict[tuple[int, int, int], int] = {}
        self._count = 0
        self.failures = 0
        self.changed = Changed(0, 0, ())
        self.retired: dict[int, int] = {}
        self.namesrv: Process | None = None
        self.start_namesrv()
        self.members = [Member(self, number + 1) for number in range(members)]
        for member in self.members:
            member.start()
        self.world.run_until(lambda: self.leader is not None)
        assert self.leader is not None
        assert self.leader.broker is not None
        self.leader.broker.topics.put(
            TopicConfig(topic_name=TOPIC, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        )
        self.client = self.world.process("client")
        self._client_pool = ConnectionPool(self.client.clock)
        self.world.network.delay_s = self.chance.choice(DELAYS_S)

    # -- the arbiter --------------------------------------------------------------------------

    def start_namesrv(self) -> None:
        self.namesrv = process = self.world.process("arbiter")
        config = NamesrvConfig(
            listen_port=NAMESRV_PORT, arbiter_path=str(self.directory / "arbiter.db")
        )
        self._server = NameServer(config, process.clock)
        self.world.run(process, self._server.__aenter__())

    def kill_namesrv(self) -> None:
        assert self.namesrv is not None
        self.namesrv.kill()
        self.namesrv = None
        assert self._server.arbiter is not None
        self._server.arbiter.close()

    @property
    def state(self) -> SetState:
        """What the arbiter has, whether it runs or not."""
        path = self.directory / "arbiter.db"
        if self.namesrv is not None:
            assert self._server.arbiter is not None
            return decode_state(self._server.arbiter.read(STATE_KEY).value)
        with contextlib.closing(sqlite3.connect(path)) as database:
            row = database.execute("SELECT value FROM entries WHERE key = ?", (STATE_KEY,))
            return decode_state(row.fetchone()[0])

    @property
    def all_settings(self) -> dict[str, object]:
        return {**SETTINGS, **self.settings}

    @property
    def flushes_at_once(self) -> bool:
        return self.all_settings.get("flush_disk_type") == "SYNC_FLUSH"

    def may_lose_power(self, member: Member) -> bool:
        """Whether the set survives a power cut at a member: one that has everything stays.

        Who flushes before an answer may lose power at any time, all members at once.
        """
        if self.flushes_at_once:
            return True
        in_sync = self.state.in_sync
        return any(
            m.member_id in in_sync and not m.is_incomplete for m in self.members if m is not member
        )

    # -- what must hold at every moment -------------------------------------------------------

    @property
    def leader(self) -> Member | None:
        """A member that acts as the leader."""
        leaders = [member for member in self.members if member.is_leading]
        return max(leaders, key=lambda member: member.epoch, default=None)

    def _look(self) -> None:
        """Checks what readers can see at each leader that serves, and at followers."""
        for member in getattr(self, "members", ()):
            if not member.is_leading:
                if (epoch := member.follows_epoch) is not None:
                    self._read_new(member, -epoch)
                continue
            known = self.leaders.setdefault(member.epoch, member.member_id)
            assert known == member.member_id, f"two leaders in epoch {member.epoch}"
            self._read_new(member, member.epoch)

    def _read_new(self, member: Member, epoch: int) -> None:
        store = member.store
        for queue_id in range(QUEUES):
            queue_log = store.find_log(TOPIC, queue_id)
            if queue_log is None:
                continue
            key = (member.member_id, epoch, queue_id)
            offset = max(self._looked.get(key, 0), queue_log.min_offset)
            while offset < queue_log.end_offset:
                part = queue_log.read(offset, 100, 1 << 20)
                for message in decode_records(part.data):
                    place = (queue_id, message.queue_offset)
                    before = self.seen.setdefault(place, message.body)
                    assert before == message.body, f"{place} was {before!r}, is {message.body!r}"
                offset = part.next_offset
            self._looked[key] = offset

    def isolate(self, member: Member) -> None:
        """Cuts a member off from the others and the arbiter; clients still reach it."""
        name = f"member {member.member_id}"
        others = [f"member {m.member_id}" for m in self.members if m is not member]
        for other in (*others, "arbiter"):
            self.world.network.cut |= {(name, other), (other, name)}

    def hand_over(self) -> None:
        """Asks the leader to let another member lead."""
        leader = self.leader
        if leader is not None and leader.process is not None and not leader.process.is_stopped:
            leader.process.start(self._hand_over(leader.leading))

    @staticmethod
    async def _hand_over(leading: Leading) -> None:
        with contextlib.suppress(PocketMQError):
            await leading.hand_over(-1, "it was asked to")

    def retire(self) -> None:
        """Has the leader remove its oldest segments, as retention does."""
        leader = self.leader
        if leader is None or leader.process is None or leader.process.is_stopped:
            return
        for queue_id in range(QUEUES):
            queue_log = leader.store.find_log(TOPIC, queue_id)
            while (
                queue_log is not None
                and queue_log.has_spare_segment
                and queue_log.segment_end(0)[1] <= queue_log.end_offset
            ):
                leader.process.run_in(queue_log.drop_oldest_segment)
                leader.process.run_in(leader.store.logs.dropped.notify, queue_log)
                self.retired[queue_id] = max(self.retired.get(queue_id, 0), queue_log.min_offset)

    # -- clients ------------------------------------------------------------------------------

    def produce(self, count: int, senders: int = SENDERS) -> asyncio.Task[None]:
        """Has some senders send so many messages each, one after the other."""
        return self.client.start(self._produce(count, senders))

    async def _produce(self, count: int, senders: int) -> None:
        async with Producer(
            "producers",
            f"127.0.0.1:{NAMESRV_PORT}",
            clock=self.client.clock,
            random=random.Random(self.chance.random()),
        ) as producer:
            await asyncio.gather(*(self._send(producer, count) for _ in range(senders)))

    def administrate(self, count: int) -> asyncio.Task[None]:
        """Has a client commit offsets, ask for them, and create topics, so many times."""
        return self.client.start(self._administrate(count))

    async def _administrate(self, count: int) -> None:
        for number in range(1, count + 1):
            leader = self.leader
            port = self.chance.choice(self.members).port if leader is None else leader.port
            address = f"127.0.0.1:{port}"
            with contextlib.suppress(PocketMQError):
                await self._commit(address, number)
                await self._query(address)
                if number % 4 == 0:
                    await self._create(address, f"Topic{number}")
            await self.client.clock.sleep(self.chance.random())

    async def _commit(self, address: str, offset: int) -> None:
        self.changed = self.changed._replace(asked=offset)
        request = UpdateConsumerOffsetRequest(
            consumer_group="group", topic=TOPIC, queue_id=0, commit_offset=offset
        )
        await self._client_pool.ask(address, request, CALL_MS)
        self.changed = self.changed._replace(offset=offset)

    async def _query(self, address: str) -> None:
        least = self.changed.offset
        request = QueryConsumerOffsetRequest(consumer_group="group", topic=TOPIC, queue_id=0)
        answer = await self._client_pool.ask_for(address, request, OffsetResponse, CALL_MS)
        assert least <= answer.offset <= self.changed.asked, f"{answer.offset} of {self.changed}"
        self.changed = self.changed._replace(offset=answer.offset)  # who was told may rely on it

    async def _create(self, address: str, topic: str) -> None:
        request = CreateTopicRequest(topic=topic, read_queue_nums=1, write_queue_nums=1, perm=6)
        await self._client_pool.ask(address, request, CALL_MS)
        self.changed = self.changed._replace(topics=(*self.changed.topics, topic))

    async def _send(self, producer: Producer, count: int) -> None:
        for _ in range(count):
            self._count += 1
            body = f"{self._count}".encode() * self.chance.choice((1, 1, 500))
            queue = MessageQueue(TOPIC, NAME, self.chance.randrange(QUEUES))
            try:
                result = await producer.send(Message(TOPIC, body), queue=queue)
            except PocketMQError:
                self.failures += 1
                await self.client.clock.sleep(self.chance.random() * 0.5)
                continue
            if result.status is SendStatus.SEND_OK:
                self.acknowledged.append(
                    Acknowledged(result.queue.queue_id, result.queue_offset, body)
                )
            await self.client.clock.sleep(self.chance.random() * PAUSE_S_MAX)

    # -- the end ------------------------------------------------------------------------------

    def heal(self) -> None:
        """Ends all faults, and waits until all members are in sync."""
        self.world.network.cut.clear()
        if self.namesrv is None:
            self.start_namesrv()
        for member in self.members:
            if member.process is None:
                member.start()
            assert member.process is not None
            member.process.is_stopped = False
        everyone = {member.member_id for member in self.members}

        def is_whole() -> bool:
            leader = self.leader
            return (
                leader is not None
                and set(leader.leading.state.in_sync) == everyone
                and leader.leading.leader.is_replicated
            )

        self.world.run_until(is_whole, 120)
        self.world.run_for(2 * LEASE_MS / 1000)
        self.world.run_until(is_whole, 120)

    def check(self) -> None:
        """Compares what there is with what clients were told."""
        leader = self.leader
        assert leader is not None
        self._read_new(leader, leader.epoch)
        there = {
            (queue_id, message.queue_offset): message.body
            for queue_id in range(QUEUES)
            for message in messages(leader.store.find_log(TOPIC, queue_id))
        }
        lost = [
            a
            for a in self.acknowledged
            if a.offset >= self.retired.get(a.queue_id, 0)
            and there.get((a.queue_id, a.offset)) != a.body
        ]
        assert not lost, f"{len(lost)} of {len(self.acknowledged)} are lost: {lost[:5]}"
        assert leader.broker is not None
        missing = [topic for topic in self.changed.topics if topic not in leader.broker.topics]
        assert not missing
        offset = leader.broker.offsets.get("group", TOPIC, 0) or 0
        assert self.changed.offset <= offset <= self.changed.asked
        assert leader.process is not None
        leader.process.run_in(leader.broker.offsets.save)
        self.world.run_for(2)
        for member in self.members:
            for queue_id in range(QUEUES):
                base = max(self._base_of(m, queue_id) for m in (member, leader))
                assert self._bytes_of(member, queue_id, base) == self._bytes_of(
                    leader, queue_id, base
                ), (member.member_id, queue_id)
            assert self._tables_of(member) == self._tables_of(leader), member.member_id

    @staticmethod
    def _tables_of(member: Member) -> dict[str, list[Any]]:
        tables: dict[str, list[Any]] = {}
        for name, rows in read_common_tables(member.store.metadata):
            if name in ("topics", "groups", "consumer_offsets", "queue_logs"):
                tables.setdefault(name, []).extend(rows)
        return tables

    @staticmethod
    def _base_of(member: Member, queue_id: int) -> tuple[int, int]:
        """Where a log begins: position and offset."""
        queue_log = member.store.find_log(TOPIC, queue_id)
        if queue_log is None or not queue_log.segments:
            return 0, 0
        return queue_log.segments[0].base_position, queue_log.segments[0].base_offset

    @staticmethod
    def _bytes_of(member: Member, queue_id: int, base: tuple[int, int]) -> bytes:
        """All records of a log from a position and offset on."""
        written: list[bytes] = []
        queue_log = member.store.find_log(TOPIC, queue_id)
        position, offset = base
        while queue_log is not None:
            data, entries = queue_log.read_written(position, offset, 1 << 20)
            if not data:
                break
            position, offset = position + len(data), offset + len(entries) // ENTRY_SIZE
            written.append(data)
        return b"".join(written)

    def close(self) -> None:
        """Ends everything."""
        for member in self.members:
            if member.process is not None:
                member.kill()
        if self.namesrv is not None:
            self.kill_namesrv()
        self.client.kill()
