"""Opens the port on which a server is scraped; loaded only where metrics are exported."""

from __future__ import annotations

from contextlib import AsyncExitStack

from pocketmq.runtime.clock import Clock
from pocketmq.runtime.metrics.endpoint import Page, ScrapeEndpoint
from pocketmq.transport.errors import CannotListenError


async def open_scrape_port(
    page: Page, host: str, port: int, clock: Clock, owner: str, stack: AsyncExitStack
) -> int:
    """Serves pages to Prometheus; returns the port.

    Args:
        page: writes what is asked for.
        host, port: where; port 0 lets the system choose.
        clock: of the server.
        owner: what the port belongs to, for the error.
        stack: closes the port.

    Raises:
        CannotListenError: the address is in use or not of this machine.
    """
    endpoint = ScrapeEndpoint(page, clock.machine)
    try:
        await endpoint.listen(host, port)
    except OSError as e:
        raise CannotListenError(owner, host, port, e) from e
    stack.push_async_callback(endpoint.close)
    return endpoint.port
