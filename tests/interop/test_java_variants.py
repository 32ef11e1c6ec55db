"""Apache's Java client on clusters of another kind, and with settings that change what it sends."""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.interop.apache_servers import free_broker_port
from support.interop.clusters import Cluster, configured_cluster, pocketmq_cluster
from support.interop.java_probe import JavaProbe, is_older
from support.interop.scenarios import Document, NewName, keys, numbers

from pocketmq.client import Admin, Message, Producer, PullConsumer, PullStatus, ReceivedMessage

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

CODECS = ("JSON", "ROCKETMQ")
IPV6_LOOPBACK = "::1"
BORN_HOST_IPV6, STORE_HOST_IPV6 = 1 << 4, 1 << 5
IPV6_ID_DIGITS = 2 * (16 + 4 + 8)
VIP_CHANNEL = {"com.rocketmq.sendMessageWithVIPChannel": "true"}


def sent_and_pulled(
    probe: JavaProbe, namesrv: str, topic: str, jvm: dict[str, str]
) -> tuple[list[Document], list[Document]]:
    """Every form of send, and what a pull consumer then finds."""
    sent = probe.run("send", namesrv=namesrv, topic=topic, jvm=jvm)["sent"]
    pulled = probe.run(
        "pull", namesrv=namesrv, topic=topic, group=f"{topic}-pull", expect=len(sent), jvm=jvm
    )
    messages = [message for queue in pulled["queues"] for message in queue["messages"]]
    assert digests(messages) == digests(one["message"] for one in sent)
    return sent, messages


def digests(messages: Any) -> list[str]:
    return sorted(message["body"]["sha256"] for message in messages)


async def read_all(namesrv: str, topic: str) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async with PullConsumer("interop-python", namesrv) as consumer:
        for queue in await consumer.queues(topic):
            result = await consumer.pull(queue, 0)
            while result.status is PullStatus.FOUND:
                found += result.messages
                result = await consumer.pull(queue, result.next_offset)
    return found


# -- VIP channel --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_vips(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose broker has a VIP channel: its port was chosen."""
    settings = {"listenPort": free_broker_port()}
    with configured_cluster(tmp_path_factory.mktemp("vip"), settings) as started:
        yield started


def test_client_sends_through_the_vip_channel(
    probe: JavaProbe, with_vips: Cluster, new_name: NewName
) -> None:
    sent_and_pulled(probe, with_vips.namesrv, new_name("vip"), VIP_CHANNEL)


# -- compression --------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "compression", ["ZLIB", pytest.param("LZ4", marks=pytest.mark.whole_interop), "ZSTD"]
)
async def test_compressed_messages_are_read_by_both_clients(
    probe: JavaProbe, cluster: Cluster, new_name: NewName, codec: str, compression: str
) -> None:
    if not probe.is_5 and compression != "ZLIB":
        pytest.skip(f"clients before 5.0 do not know {compression}")
    topic = new_name(f"{compression}-{codec}")
    jvm = {"rocketmq.serialize.type": codec, "rocketmq.message.compressType": compression}
    sent, _ = await asyncio.to_thread(sent_and_pulled, probe, cluster.namesrv, topic, jvm)
    found = await read_all(cluster.namesrv, topic)
    assert sorted(hashlib.sha256(message.body).hexdigest() for message in found) == digests(
        one["message"] for one in sent
    )


# -- several brokers ----------------------------------------------------------------------------


def test_a_topic_on_four_brokers(probe: JavaProbe, tmp_path: Path, new_name: NewName) -> None:
    name = new_name("spread")
    with pocketmq_cluster(tmp_path, "--brokers", "4") as started:
        seen = probe.run(
            "clustering", namesrv=started.namesrv, topic=name, group=f"{name}-group", queues=1
        )
    shares = [queue["brokerName"] for share in seen["shares"].values() for queue in share]
    assert sorted(shares) == list(started.brokers)
    deliveries = seen["deliveries"]
    assert keys(deliveries) == numbers(seen["sent"])
    taken = Counter(one["message"]["brokerName"] for one in deliveries)
    assert taken == dict.fromkeys(started.brokers, seen["sent"] // 4)


# -- IPv6 ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def on_ipv6(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that has no IPv4 address."""
    settings = {"listenPort": free_broker_port()}
    with configured_cluster(tmp_path_factory.mktemp("ipv6"), settings, IPV6_LOOPBACK) as started:
        yield started


def test_java_client_on_ipv6(probe: JavaProbe, on_ipv6: Cluster, new_name: NewName) -> None:
    assert on_ipv6.namesrv.startswith(f"[{IPV6_LOOPBACK}]:")
    if probe.client_version.startswith("5.1.") or is_older(probe.client_version, "4.9"):
        pytest.skip(f"the client {probe.client_version} cannot connect to [{IPV6_LOOPBACK}]")
    jvm = {"java.net.preferIPv6Addresses": "true"}
    sent, pulled = sent_and_pulled(probe, on_ipv6.namesrv, new_name("ipv6"), jvm)
    answered = [one["result"]["offsetMsgId"] for one in sent if one["form"] == "sync"]
    assert answered
    for message in pulled:
        assert message["sysFlag"] & BORN_HOST_IPV6
        assert message["sysFlag"] & STORE_HOST_IPV6
        assert message["storeHost"].rpartition(":")[0] == "0:0:0:0:0:0:0:1"
        assert len(message["offsetMsgId"]) == IPV6_ID_DIGITS
    assert set(answered) <= {message["offsetMsgId"] for message in pulled}


async def test_python_client_on_ipv6(on_ipv6: Cluster, new_name: NewName) -> None:
    topic, namesrv = new_name("ipv6-python"), on_ipv6.namesrv
    async with Admin(namesrv) as admin, Producer("senders", namesrv) as sender:
        await admin.create_topic(topic, 1)
        result = await sender.send(Message(topic, b"six"))
        assert len(result.offset_msg_id) == IPV6_ID_DIGITS
        viewed = await admin.view_message(result.offset_msg_id)
    [pulled] = await read_all(namesrv, topic)
    assert viewed.body == pulled.body == b"six"
    assert pulled.store_host == on_ipv6.brokers["broker-a"]
