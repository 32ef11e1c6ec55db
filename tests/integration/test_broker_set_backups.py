"""Backups of a broker set: a restored member joins again, or begins a set of its own."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from support.brokers.backup_parts import backed_up
from support.brokers.broker_parts import LOCALHOST, TOPIC, advance_until, send_request
from support.brokers.secured import ADMIN, BARE, SETTINGS, allow, user_of
from support.store.stores import assert_sound, messages

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.broker.backup.restoring import restore
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.requests.sending import SendMessageResponse
from pocketmq.protocol.signing import Credentials, sign
from pocketmq.runtime.clock import SystemClock
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.pool import ConnectionPool

TIMEOUT_MS = 3_600_000


class BrokerSet:
    """A name server with an arbiter and members that sign, started and stopped one by one."""

    def __init__(self, directory: Path, clock: VirtualClock) -> None:
        self.directory, self.clock = directory, clock
        self.brokers: dict[int, Broker] = {}
        self.pools: list[ConnectionPool] = []
        self.server: NameServer | None = None
        self._starts = 0

    async def start_server(self) -> None:
        config = NamesrvConfig(
            listen_port=0, bind_address=LOCALHOST, arbiter_path=str(self.directory / "arbiter.db"),
            **SETTINGS,
        )  # fmt: skip
        self.server = await NameServer(config, self.clock).__aenter__()

    async def lose_server(self) -> None:
        assert self.server is not None
        await self.server.close()
        (self.directory / "arbiter.db").unlink()

    def data(self, member_id: int) -> Path:
        return self.directory / str(member_id)

    async def start(self, member_id: int, name: str = "a") -> None:
        assert self.server is not None
        config = BrokerConfig(
            broker_name=name, broker_id=member_id, listen_port=0,
            namesrv_addr=self.server.address, enable_controller_mode=True,
            auto_create_topic_enable=True, store_path_root_dir=str(self.data(member_id)),
            vip_channel_enable=False, grpc_server_port=-1, disk_space_free_min=0, **SETTINGS,
        )  # fmt: skip
        self._starts += 1
        self.brokers[member_id] = await Broker(config, self.clock, seed=self._starts).__aenter__()

    async def lose(self, *member_ids: int) -> None:
        """The machines of members are gone at once."""
        for member_id in member_ids:
            await self.brokers.pop(member_id).close()
            shutil.rmtree(self.data(member_id))

    @property
    def leader(self) -> Broker | None:
        return next((b for b in self.brokers.values() if b.is_serving), None)

    @property
    def in_sync(self) -> tuple[int, ...]:
        leader = self.leader
        if leader is None or leader.broker_set is None or leader.broker_set.leading is None:
            return ()
        return leader.broker_set.leading.state.in_sync

    async def until_in_sync(self, *members: int) -> Broker:
        await advance_until(self.clock, lambda: self.in_sync == members, 0.2)
        assert self.leader is not None
        return self.leader

    def pool(self, credentials: Credentials = ADMIN) -> ConnectionPool:
        pool = ConnectionPool(
            self.clock, before_request=(lambda command: sign(command, credentials),)
        )
        self.pools.append(pool)
        return pool

    async def send(self, *bodies: bytes) -> None:
        leader = self.leader
        assert leader is not None
        pool = self.pool()
        for body in bodies:
            await pool.ask_for(
                leader.address, send_request(), SendMessageResponse, TIMEOUT_MS, body
            )

    def stored(self, member_id: int) -> list[bytes]:
        log = self.brokers[member_id].store.find_log(TOPIC, 0)
        return [message.body for message in messages(log)]

    async def back_up(self, **options: Any) -> None:
        assert self.leader is not None
        await backed_up(self.directory / "backups", self.pool(), self.leader.address)

    async def restore(self, member_id: int, **options: Any) -> None:
        target = self.data(member_id)
        await restore(self.directory / "backups", target, SystemClock(), **options)
        assert_sound(target)

    async def close(self) -> None:
        for pool in self.pools:
            await pool.close()
        for broker in self.brokers.values():
            await broker.close()
        if self.server is not None:
            await self.server.close()


@pytest_asyncio.fixture
async def broker_set(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[BrokerSet]:
    broker_set = BrokerSet(tmp_path, clock)
    await broker_set.start_server()
    for member_id in (1, 2):
        await broker_set.start(member_id)
    await broker_set.until_in_sync(1, 2)
    yield broker_set
    await broker_set.close()


def ids(broker: Broker) -> tuple[str | None, str | None]:
    metadata = broker.store.metadata
    return metadata.state("member_set_id"), metadata.state("member_directory_id")


async def test_a_restored_follower_joins_its_set_with_what_it_has(broker_set: BrokerSet) -> None:
    sent = [b"one" * 20_000, b"two" * 20_000, b"three"]
    await broker_set.send(*sent[:2])
    await broker_set.back_up()
    await broker_set.send(sent[2])
    set_id, directory_id = ids(broker_set.brokers[2])
    await broker_set.lose(2)
    await broker_set.restore(2)
    await broker_set.start(2)
    leader = await broker_set.until_in_sync(1, 2)
    assert broker_set.stored(2) == sent
    assert leader.broker_set is not None
    assert leader.broker_set.leading is not None
    assert leader.broker_set.leading.leader.peers[2].sent_size < 40_000, "it is not copied anew"
    now = ids(broker_set.brokers[2])
    assert now[0] == set_id
    assert now[1] not in (directory_id, ids(broker_set.brokers[1])[1]), "no id is there twice"


async def test_a_restored_leader_comes_back_as_a_follower(broker_set: BrokerSet) -> None:
    await broker_set.send(b"one")
    await broker_set.back_up()
    await broker_set.lose(1)
    leader = await broker_set.until_in_sync(2)
    assert leader is broker_set.brokers[2]
    await broker_set.send(b"two")
    await broker_set.back_up()
    await broker_set.restore(1)
    await broker_set.start(1)
    assert await broker_set.until_in_sync(1, 2) is leader
    assert broker_set.stored(1) == [b"one", b"two"]


async def test_a_whole_set_is_founded_again(broker_set: BrokerSet, clock: VirtualClock) -> None:
    await broker_set.send(b"one", b"two")
    broker_set.brokers[1].parts.data.users.put_user(user_of(BARE))
    allow(broker_set.brokers[1], BARE, Topic_Orders="Pub")
    rights = broker_set.brokers[1].parts.data.users.acl("bare")
    await broker_set.back_up()
    old_set, _ = ids(broker_set.brokers[1])
    await broker_set.lose(1, 2)
    await broker_set.lose_server()
    await broker_set.start_server()
    await broker_set.restore(1, leave_set=True)
    await broker_set.start(1)
    await broker_set.until_in_sync(1)
    await broker_set.start(2)
    await broker_set.until_in_sync(1, 2)
    await broker_set.send(b"three")
    await broker_set.back_up()
    assert ids(broker_set.brokers[1])[0] != old_set
    assert broker_set.stored(1) == [b"one", b"two", b"three"]
    users = broker_set.brokers[1].parts.data.users
    assert users.user("bare") == user_of(BARE, changed_ms=2)
    assert users.acl("bare") == rights is not None
    await advance_until(clock, lambda: broker_set.stored(2) == broker_set.stored(1), 0.2)


async def test_a_set_is_founded_under_another_name_beside_the_arbiter_that_knows_the_lost_one(
    broker_set: BrokerSet,
) -> None:
    await broker_set.send(b"one")
    await broker_set.back_up()
    await broker_set.lose(1, 2)
    await broker_set.restore(1, leave_set=True)
    await broker_set.start(1, "b")
    await broker_set.until_in_sync(1)
    await broker_set.start(2, "b")
    await broker_set.until_in_sync(1, 2)
    assert broker_set.stored(1) == broker_set.stored(2) == [b"one"]


async def test_a_restored_member_founds_no_set_by_itself(
    broker_set: BrokerSet, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    await broker_set.send(b"one")
    await broker_set.back_up()
    await broker_set.lose(1, 2)
    await broker_set.lose_server()
    await broker_set.start_server()
    await broker_set.restore(1)
    await broker_set.start(1)
    await advance_until(
        clock, lambda: "but this member has been in one up to epoch 1" in caplog.text, 0.2
    )
    assert broker_set.leader is None


async def test_only_a_superuser_takes_a_backup(broker_set: BrokerSet) -> None:
    assert broker_set.leader is not None
    with pytest.raises(ResponseError) as refused:
        await backed_up(
            broker_set.directory / "backups", broker_set.pool(BARE), broker_set.leader.address
        )
    assert refused.value.code == 16
