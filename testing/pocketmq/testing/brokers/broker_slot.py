"""The place of one broker in a cluster, which outlives the broker's starts and stops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from pocketmq.broker import Broker, BrokerConfig
from pocketmq.protocol.bodies.routes import AdvertiseRule
from pocketmq.runtime.clock import Clock
from pocketmq.testing.brokers.faulty_files import FaultyFiles
from pocketmq.testing.brokers.links import Links
from pocketmq.testing.brokers.reserved_ports import ReservedPorts


class BrokerSlot:
    """The place of one broker in a cluster: keeps its name, port and data while it does not run.

    Args:
        config: the broker's settings; from the first start on a port that is 0 is the bound one.
        clock: the broker's time.
        seed: of the broker's random choices.
        on_tables: called with the slot when the broker has other tables of handlers.
        links: to the other members of its broker set; None without sets.

    Attributes:
        broker: the broker while it runs, else None.
        files: the broker's disk.
    """

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        seed: int | None,
        on_tables: Callable[[BrokerSlot], object],
        links: Links | None = None,
    ) -> None:
        self.config, self._clock, self._seed = config, clock, seed
        self._on_tables, self._links = on_tables, links
        self.files = FaultyFiles()
        self.broker: Broker | None = None
        self._address = ""
        self._ports = ReservedPorts()

    @property
    def name(self) -> str:
        """The broker's name; of a member of a broker set ``broker-a/1``."""
        config = self.config
        is_member = config.enable_controller_mode
        return f"{config.broker_name}/{config.broker_id}" if is_member else config.broker_name

    @property
    def set_name(self) -> str:
        """The name that all members of a broker set have."""
        return self.config.broker_name

    @property
    def is_serving(self) -> bool:
        """Whether the broker answers clients: not a follower, and not one that is down."""
        return self.broker is not None and self.broker.is_serving

    @property
    def role(self) -> str | None:
        """``leader``, ``follower``, or ``waiting`` for either; None if it is down or alone."""
        broker = self.broker
        if broker is None or broker.broker_set is None:
            return None
        if broker.is_serving:
            return "leader"
        return "waiting" if broker.broker_set.member.following is None else "follower"

    @property
    def address(self) -> str:
        """The address that clients use, also while the broker is down; empty before its start."""
        return self._address

    async def start(self) -> Broker:
        """Starts the broker unless it runs.

        Raises:
            CannotListenError, DirectoryInUseError: its port or its data directory is in use.
        """
        if self.broker is not None:
            return self.broker
        self._choose_ports()
        config = self.config
        way = None if self._links is None else partial(self._links.way, self.name)
        broker = Broker(config, self._clock, files=self.files, seed=self._seed, way=way)
        broker.tables_changed.add(lambda: self._on_tables(self))
        await broker.__aenter__()
        self.broker, self._address = broker, broker.address
        self._on_tables(self)
        return broker

    def _choose_ports(self) -> None:
        """Gives ports that are to be free ones numbers, which stay the broker's until `close`."""
        config, reserve = self.config, self._ports.reserve
        if config.listen_port == 0:
            config = msgspec.structs.replace(
                config,
                listen_port=reserve(config.bind_address),
                vip_channel_enable=bool(config.vip_channel_enable),  # only beside a chosen port
            )
        if config.grpc_server_port == 0:
            port = reserve(config.bind_address)
            config = msgspec.structs.replace(config, grpc_server_port=port)
        self.config = config

    async def close(self) -> None:
        """Stops the broker if it runs, and gives its ports back."""
        await self.stop()
        self._ports.release()

    async def advertise(self, rules: list[AdvertiseRule]) -> None:
        """Changes the addresses that clients are told of the broker, see docs/deploy.md."""
        self.config = msgspec.structs.replace(self.config, advertise=rules)
        if self.broker is not None and self.is_serving:
            await self.broker.registration.advertise(self.config.advertise_text)

    def look_at_disk(self) -> None:
        """Lets the broker find out at once whether its disk has room again."""
        if self.broker is not None:
            self.broker.store.disk.check()
            if self.is_serving:
                self.broker.parts.schedule.try_again()

    async def kill(self) -> None:
        """Ends the broker as kill -9 would: its connections break, it does not unregister."""
        broker, self.broker = self.broker, None
        if broker is not None:
            if broker.broker_set is not None:
                await broker.broker_set.forsake()
            for connection in list(broker.server.connections):
                connection.abort("the broker was killed")
            if broker.is_serving:
                await broker.registration.close()  # so that the broker cannot unregister
            await broker.close()

    async def stop(self) -> None:
        """Stops the broker cleanly, as TERM does, if it runs."""
        broker, self.broker = self.broker, None
        if broker is not None:
            await broker.close()
