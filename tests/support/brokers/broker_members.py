"""A name server with an arbiter and the members of a broker set, on real sockets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.brokers.broker_parts import LOCALHOST, TIMEOUT_MS, Client, advance_until

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.broker.replication.leading import Leading
from pocketmq.broker.replication.set_state import SetState
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.errors import OperatingError
from pocketmq.protocol.requests.extensions.replication import SwitchLeaderRequest
from pocketmq.protocol.signing import Credentials, sign
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.pool import ConnectionPool

STEP_S = 0.2


class Members:
    """A name server with an arbiter, and a broker set.

    Args:
        directory: for the data.
        clock: of all of them.
        count: of the members.
        common: settings of the name server and the members.
        settings: of the members.
    """

    def __init__(
        self,
        directory: Path,
        clock: VirtualClock,
        count: int = 2,
        common: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        self.directory, self.clock, self._count = directory, clock, count
        self._common, self._settings = common or {}, settings
        self.brokers: dict[int, Broker] = {}
        self.pools: list[ConnectionPool] = []

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(range(1, self._count + 1))

    async def start(self) -> None:
        config = NamesrvConfig(
            listen_port=0,
            bind_address=LOCALHOST,
            arbiter_path=str(self.directory / "arbiter.db"),
            **self._common,
        )
        self.server = await NameServer(config, self.clock).__aenter__()
        for member_id in self.ids:
            await self.start_member(member_id)
        await self.until_in_sync()

    async def start_member(self, member_id: int, **own: Any) -> None:
        settings: dict[str, Any] = {
            "broker_name": "a",
            "broker_id": member_id,
            "listen_port": 0,
            "namesrv_addr": self.server.address,
            "enable_controller_mode": True,
            "auto_create_topic_enable": True,
            "store_path_root_dir": str(self.directory / str(member_id)),
            "vip_channel_enable": False,
            "grpc_server_port": -1,
            "disk_space_free_min": 0,
        }
        config = BrokerConfig(**(settings | self._common | self._settings | own))
        self.brokers[member_id] = await Broker(config, self.clock, seed=member_id).__aenter__()

    async def stop(self, member_id: int) -> None:
        """Stops a member."""
        await self.brokers.pop(member_id).close()

    async def kill(self, member_id: int) -> None:
        """Stops a member as if it had died: it hands over to nobody."""
        broker = self.brokers.pop(member_id)

        async def nobody(*_: object) -> SetState:
            raise OperatingError("it is dead")

        if broker.broker_set is not None and broker.broker_set.leading is not None:
            broker.broker_set.leading.hand_over = nobody  # type: ignore[method-assign,assignment]
        await broker.close()

    async def lose_leader(self, how: str) -> None:
        """Has another member lead, by a planned switch, or since the leader dies."""
        before = self.leader
        if how == "switch":
            await self.switch()
            return
        (member_id,) = (m for m, broker in self.brokers.items() if broker is before)
        await self.kill(member_id)
        await self.until_led_by_another(before)

    def client(self, broker: Broker) -> Client:
        """A client of one member."""
        client = Client(broker, self.clock)
        self.pools.append(client.pool)
        return client

    async def until_in_sync(self, *ids: int) -> None:
        """Moves time forward until these members, or all, are in sync."""
        await advance_until(self.clock, lambda: self.in_sync == (ids or self.ids), STEP_S)

    @property
    def leader_or_none(self) -> Broker | None:
        return next((b for b in self.brokers.values() if b.is_serving), None)

    @property
    def leader(self) -> Broker:
        leader = self.leader_or_none
        assert leader is not None
        return leader

    @property
    def leading(self) -> Leading:
        assert self.leader.broker_set is not None
        assert self.leader.broker_set.leading is not None
        return self.leader.broker_set.leading

    @property
    def followers(self) -> list[Broker]:
        leader = self.leader_or_none
        return [broker for broker in self.brokers.values() if broker is not leader]

    @property
    def follower(self) -> Broker:
        (follower,) = self.followers
        return follower

    @property
    def in_sync(self) -> tuple[int, ...]:
        return () if self.leader_or_none is None else self.leading.state.in_sync

    def pool(self, credentials: Credentials | None = None) -> ConnectionPool:
        """A client's connections, which sign if there are credentials."""
        signing = () if credentials is None else (lambda command: sign(command, credentials),)
        pool = ConnectionPool(self.clock, before_request=signing)
        self.pools.append(pool)
        return pool

    async def switch(self, credentials: Credentials | None = None) -> None:
        """Has another member lead, and waits until all are in sync again."""
        before = self.leader
        await self.pool(credentials).ask(before.address, SwitchLeaderRequest(), TIMEOUT_MS)
        await self.until_led_by_another(before)
        await self.until_in_sync()

    async def until_led_by_another(self, before: Broker) -> None:
        """Moves time forward until another member leads."""

        def is_led() -> bool:
            return self.leader_or_none not in (None, before)

        await advance_until(self.clock, is_led, STEP_S)

    async def close(self) -> None:
        for pool in self.pools:
            await pool.close()
        for broker in self.brokers.values():
            await broker.close()
        await self.server.close()
