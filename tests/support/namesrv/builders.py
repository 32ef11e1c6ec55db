"""Registrations and topics with as few words as a test needs."""

from __future__ import annotations

from pocketmq.namesrv.broker_registration import BrokerKey, BrokerRegistration
from pocketmq.protocol.bodies.registrations import RegisteredTopic
from pocketmq.protocol.bodies.topics import DataVersion, TopicQueueMapping
from pocketmq.protocol.names.advertise import Advertised, parse_advertised

CLUSTER = "DefaultCluster"
TIMEOUT_MS = 120_000
NOW_MS = 1_700_000_000_000


def address_of(name: str, broker_id: int = 0) -> str:
    return f"{name}.{broker_id}:10911"


def key_of(name: str, broker_id: int = 0, cluster: str = CLUSTER) -> BrokerKey:
    return BrokerKey(cluster, address_of(name, broker_id))


def topic_config(name: str, queues: int = 4, perm: int = 6, flag: int = 0) -> RegisteredTopic:
    return RegisteredTopic(
        topic_name=name,
        read_queue_nums=queues,
        write_queue_nums=queues,
        perm=perm,
        topic_sys_flag=flag,
    )


def registration(
    name: str = "broker-a",
    *topics: str | RegisteredTopic,
    broker_id: int = 0,
    address: str | None = None,
    cluster: str = CLUSTER,
    version: int = 1,
    state_version: int = 0,
    acting_master: bool | None = False,
    zone: str | None = None,
    timeout_ms: int = TIMEOUT_MS,
    advertise: str | None = None,
    mappings: dict[str, TopicQueueMapping] | None = None,
    channel: object = None,
) -> BrokerRegistration:
    """A registration of the named topics; TopicA and TopicB if none is named."""
    configs = [t if isinstance(t, RegisteredTopic) else topic_config(t) for t in topics] or [
        topic_config("TopicA"),
        topic_config("TopicB"),
    ]
    return BrokerRegistration(
        cluster=cluster,
        broker_name=name,
        broker_id=broker_id,
        address=address or address_of(name, broker_id),
        timeout_ms=timeout_ms,
        ha_address=f"{name}.{broker_id}:10912",
        zone=zone,
        acting_master=acting_master,
        version=DataVersion(counter=version, state_version=state_version, timestamp=NOW_MS),
        topics=configs,
        mappings=mappings or {},
        advertised=parse_advertised(advertise) if advertise else Advertised(),
        channel=channel,
    )
