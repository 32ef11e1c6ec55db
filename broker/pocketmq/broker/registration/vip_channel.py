"""The VIP channel: a second port, two below the first, that Java clients may send to.

RocketMQ keeps it clear of pulls, so that sends do not queue behind them (``brokerVIPChannel``,
`BrokerController.initializeRemotingServer`). Here nothing queues behind a pull: it is one more
socket of the same server. Clients before 4.4 use it unless they are told not to, later ones only if
``com.rocketmq.sendMessageWithVIPChannel`` is true.
"""

from __future__ import annotations

import logging

from pocketmq.broker.config.config import BrokerConfig
from pocketmq.transport.server import Server

log = logging.getLogger("pocketmq.broker")

VIP_OFFSET = 2


async def listen_for_vips(server: Server, config: BrokerConfig) -> int | None:
    """Listens on the server's port - 2, too; returns that port, or None without a VIP channel.

    Unless `vip_channel_enable` says otherwise there is one where the port was chosen: a port by
    the system's choice is for tests and embedded use, which want no second one at random. A port
    that is taken is left out with a warning, because nothing else depends on it.
    """
    enabled = config.vip_channel_enable
    if enabled is None:
        enabled = config.listen_port > 0
    port = server.port - VIP_OFFSET
    if not enabled or port <= 0:
        return None
    try:
        await server.listen(config.bind_address, port)
    except OSError as e:
        log.warning(
            "no VIP channel: port %d is not to be had (%s). Clients with vipChannelEnabled need "
            "it: free it or change listenPort; vipChannelEnable: false ends this warning",
            port,
            e.strerror or e,
        )
        return None
    return port
