"""What integrations need of a cluster before they send and receive: brokers and topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pocketmq.client.admin import Admin
from pocketmq.client.errors import BrokerDownError, UnknownTopicError
from pocketmq.client.instance.instance import ClientInstance, NamesrvList


def admin_of(instance: ClientInstance, namesrv: NamesrvList, settings: Mapping[str, Any]) -> Admin:
    """Returns an admin for the cluster of an instance, which shares the instance's connections.

    An admin takes names as they are on the wire, so that beside an instance in a namespace it
    has connections of its own.

    Args:
        instance: of the integration's clients.
        namesrv, settings: that the instance was made with.
    """
    if not instance.namespace:
        return Admin(instance=instance)
    return Admin(namesrv, **{**settings, "namespace": ""})


async def check_brokers(admin: Admin, topic: str) -> None:
    """Checks that the cluster has a broker at the moment.

    Args:
        admin: asks the name servers.
        topic: that somebody wants; for the error.

    Raises:
        BrokerDownError: the cluster has none.
    """
    if not (await admin.cluster_info()).broker_addr_table:
        raise BrokerDownError(topic, "every broker of the cluster")


async def has_topic(admin: Admin, topic: str) -> bool:
    """Whether a broker has a topic."""
    try:
        await admin.topic_route(topic)
    except UnknownTopicError:
        return False
    return True


async def create_missing(
    admin: Admin, topics: Iterable[str], queues: int, cluster: str = ""
) -> None:
    """Creates the topics that no broker has yet.

    So an integration needs the right to create topics only where one is missing.

    Args:
        admin: creates them.
        topics: names as they are on the wire.
        queues: on each broker.
        cluster: where; may be empty if there is only one.

    Raises:
        BrokerDownError: there is no broker at the moment.
        UsageError: there are several clusters, and none is named.
    """
    for topic in topics:
        if not await has_topic(admin, topic):
            await check_brokers(admin, topic)
            await admin.create_topic(topic, queues, cluster=cluster or None, if_exists="keep")
