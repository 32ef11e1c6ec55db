"""Runs a cluster with the control API, which advances its time and orders faults over HTTP.

The cluster is that of `pocketmq.testing`, in this process, since all servers share one clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from pocketmq.cli.servers.cluster import (
    MEMBER_PORT_STEP,
    PORT_STEP,
    ClusterAddresses,
    ClusterOptions,
    grpc_address,
    in_options,
    rules_of_gateway,
)
from pocketmq.cli.servers.consoles.own_console import ConsoleWanted, load_console
from pocketmq.protocol.errors import ConfigError

if TYPE_CHECKING:
    from pocketmq.client.copying.seeds import Seed

EXTRA = {"starlette", "uvicorn", "anyio", "h11"}
"""The packages that the extra `control` installs."""


class ControlOptions(NamedTuple):
    """The options of the control API.

    Attributes:
        port: 0 lets the system choose.
        host: the address to listen on.
        clock: ``offset``, ``virtual`` or ``system``, see `pocketmq.testing.settings`.
    """

    port: int
    host: str
    clock: str


@asynccontextmanager
async def controlled_cluster(
    options: ClusterOptions,
    control: ControlOptions,
    console: ConsoleWanted | None,
    stop: Callable[[], object],
    seed: Seed | None,
) -> AsyncIterator[ClusterAddresses]:
    """Starts a cluster with its control API; both answer when the context is entered.

    Args:
        options: the options of the cluster.
        control: the options of the control API.
        console: the console to serve; None for none.
        stop: called when a client of the control API asks to stop the cluster.
        seed: the seed that a reset applies again; the caller applies it the first time.

    Raises:
        ConfigError: an option does not fit, an address or the data directory is in use, or the
            extra `control` is not installed.
    """
    try:
        from pocketmq.testing.control.cluster_calls import Ends
        from pocketmq.testing.control.server import ControlServer
    except ModuleNotFoundError as e:
        if e.name is None or e.name.partition(".")[0] not in EXTRA:
            raise
        raise ConfigError(
            f"--control needs {e.name}, which is not installed: pip install 'pocketmq[control]'"
        ) from e
    from pocketmq.protocol.bodies.routes import AdvertiseRule
    from pocketmq.testing.core import Core
    from pocketmq.testing.settings import cluster_settings

    async def begin_again() -> None:
        if seed is not None:
            from pocketmq.client.copying.seeds import apply_seed

            await apply_seed(seed, core.namesrv)

    options.check()
    options.data.mkdir(parents=True, exist_ok=True)
    wanted = {
        "brokers": options.brokers,
        "replicas": options.replicas,
        "data": str(options.data),
        "namesrv_port": options.namesrv_port,
        "broker_port": options.broker_port,
        "broker_port_step": PORT_STEP,
        "member_port_step": MEMBER_PORT_STEP,
        "grpc_port": options.grpc_port,
        "broker_settings": options.common_settings(),
        "namesrv_settings": options.namesrv_settings(),
        "clock": control.clock,
    }
    core = Core(cluster_settings(wanted, "pocketmq up"))
    async with AsyncExitStack() as stack:
        with in_options():
            await core.start()
        stack.push_async_callback(core.stop)
        for place, slot in enumerate(core.slots.values()):
            port = options.broker_port_of(*divmod(place, options.replicas))
            rules = rules_of_gateway(options.gateway, port)
            if rules:
                await slot.advertise([AdvertiseRule(**rule) for rule in rules])
        server = await stack.enter_async_context(
            ControlServer(core, control.host, control.port, Ends(stop, begin_again))
        )
        shown = None
        if console is not None:
            load_console(console.needed_by)
            from pocketmq.testing.console.serving import cluster_console

            served = cluster_console(core, server.calls, console.options(None))
            shown = await stack.enter_async_context(served)
        brokers = {slot.name: slot.address for slot in core.slots.values()}
        ports = [broker.grpc_port for broker in core.brokers() if broker.grpc_port is not None]
        grpc_port = options.grpc_port if options.grpc_port > 0 else next(iter(ports), None)
        replicas = options.replicas if options.grpc_port > 0 else 1
        yield ClusterAddresses(
            core.namesrv,
            brokers,
            f"http://{server.address}",
            None if shown is None else f"http://{shown.address}",
            grpc_address(brokers, grpc_port, replicas),
        )
