"""The second port of a broker, for clients with vipChannelEnabled."""

from __future__ import annotations

import logging
import socket

import pytest
from support.brokers.broker_parts import LOCALHOST, Stage, send_request

from pocketmq.broker import Broker
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.requests.sending import SendMessageResponse
from pocketmq.protocol.wire.command import Command
from pocketmq.testing.clock import VirtualClock
from pocketmq.transport.pool import ConnectionPool

TRIES_MAX = 20


async def broker_with_vips(stage: Stage) -> Broker:
    """A broker whose second port happened to be free."""
    for _ in range(TRIES_MAX):
        broker = await stage.broker(vip_channel_enable=True)
        if broker.vip_port is not None:
            return broker
        await broker.close()
    raise OSError(f"no port with a free neighbour in {TRIES_MAX} tries")


async def test_sends_are_taken_on_port_minus_2(stage: Stage, clock: VirtualClock) -> None:
    broker = await broker_with_vips(stage)
    client = stage.client(broker)
    await client.create_topic()
    _, port = split_address(broker.address)
    assert broker.vip_port == port - 2
    pool = ConnectionPool(clock)
    try:
        connection = await pool.get(f"{LOCALHOST}:{port - 2}")
        request = send_request()
        answer = await connection.call(Command(request.code, header=request, body=b"vip"), 3000)
    finally:
        await pool.close()
    assert answer.read(SendMessageResponse).queue_offset == 0
    assert (await client.pull()).bodies == [b"vip"]


async def test_both_ports_are_free_after_the_end(stage: Stage) -> None:
    broker = await broker_with_vips(stage)
    _, port = split_address(broker.address)
    await broker.close()
    for free in (port, port - 2):
        socket.create_server((LOCALHOST, free)).close()


async def test_a_taken_port_is_left_out(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    broker = await broker_with_vips(stage)
    _, port = split_address(broker.address)
    await broker.close()
    with (
        socket.create_server((LOCALHOST, port - 2)),
        caplog.at_level(logging.WARNING, "pocketmq.broker"),
    ):
        broker = await stage.broker(listen_port=port)
        assert broker.vip_port is None
        client = stage.client(broker)
        await client.create_topic()
        await client.send()
    assert f"no VIP channel: port {port - 2}" in caplog.text


@pytest.mark.parametrize(("enabled", "has_one"), [(None, True), (True, True), (False, False)])
async def test_there_is_one_where_the_port_was_chosen(
    stage: Stage, enabled: bool | None, has_one: bool
) -> None:
    broker = await broker_with_vips(stage)
    _, port = split_address(broker.address)
    await broker.close()
    broker = await stage.broker(listen_port=port, vip_channel_enable=enabled)
    assert (broker.vip_port == port - 2) is has_one


async def test_a_port_by_the_systems_choice_has_none(stage: Stage) -> None:
    assert (await stage.broker()).vip_port is None
