"""The port of the remoting protocol, which leaders and followers of broker sets open alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pocketmq.auth.exposure import check_exposure
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.broker.handlers.table import VIEW_CODES
from pocketmq.broker.statistics.back_pressure import BackPressure
from pocketmq.runtime.clock import Clock
from pocketmq.runtime.open_files import room_for_connections
from pocketmq.transport.connection import Connection, Handlers
from pocketmq.transport.errors import CannotListenError
from pocketmq.transport.frame_stream import ReadEvents
from pocketmq.transport.limits import Limits
from pocketmq.transport.server import Server
from pocketmq.transport.tls.settings import server_tls

if TYPE_CHECKING:  # it is loaded where metrics are exported
    from pocketmq.transport.metering.metered import Meter


def remoting_server(
    config: BrokerConfig,
    clock: Clock,
    handlers: Handlers,
    connections: dict[Connection, None],
    pressure: BackPressure,
    on_close: Callable[[Connection], object],
    read_events: ReadEvents | None = None,
    meter: Meter | None = None,
) -> Server:
    """Makes the server of a broker; it does not listen yet.

    Args:
        config: what the configuration says.
        clock: for deadlines and idle limits.
        handlers: by request code.
        connections: where the server keeps its open connections.
        pressure: what holds up clients that ask for too much.
        on_close: called when a connection is gone.
        read_events: notified when a read of any connection begins and ends.
        meter: is told of each answer; None if nobody wants to know.

    Raises:
        ConfigError: the settings of TLS cannot be used.
    """
    return Server(
        clock,
        handlers,
        limits=Limits(
            idle_timeout_s=config.connection_idle_timeout / 1000,
            write_buffer_max=config.write_buffer_max,
        ),
        on_close=on_close,
        connections_max=room_for_connections(config.connections_max, config.open_files_max),
        connections_max_of_address=config.connections_max_of_address,
        read_events=read_events,
        watch=pressure.watch,
        budget=pressure.budget,
        slow_readers=pressure.slow_readers,
        connections=connections,
        view_codes=VIEW_CODES,
        tls=server_tls(config),
        meter=meter,
    )


async def listen(server: Server, config: BrokerConfig, port: int) -> None:
    """Opens a broker's port on its `bindAddress`.

    Raises:
        ConfigError: others could reach a broker that asks nobody who they are.
        CannotListenError: the address is in use or not of this machine.
    """
    host, is_guarded = config.bind_address, config.authentication_enabled
    check_exposure(config.broker_name, host, is_guarded=is_guarded, insecure=config.insecure)
    try:
        await server.listen(host, port)
    except OSError as e:
        raise CannotListenError(config.broker_name, host, port, e) from e
