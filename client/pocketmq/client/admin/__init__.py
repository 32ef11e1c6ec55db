"""The admin client: topics, groups, offsets, messages, brokers, name servers."""

from __future__ import annotations

from pocketmq.client.admin.brokers import BrokerAdmin
from pocketmq.client.admin.dead_letters import DeadLetterAdmin
from pocketmq.client.admin.groups import GroupAdmin
from pocketmq.client.admin.in_flight import InFlightAdmin
from pocketmq.client.admin.kv_config import KVConfigAdmin
from pocketmq.client.admin.messages import MessageAdmin
from pocketmq.client.admin.offsets import OffsetAdmin
from pocketmq.client.admin.topics import QUEUES_DEFAULT, TopicAdmin
from pocketmq.client.admin.users import UserAdmin

__all__ = ["QUEUES_DEFAULT", "Admin"]


class Admin(
    TopicAdmin,
    GroupAdmin,
    OffsetAdmin,
    BrokerAdmin,
    MessageAdmin,
    InFlightAdmin,
    DeadLetterAdmin,
    KVConfigAdmin,
    UserAdmin,
):
    """Administers a cluster (`tools/admin/DefaultMQAdminExtImpl`)::

        async with Admin("127.0.0.1:9876") as admin:
            await admin.create_topic("Orders", queues=8)

    Methods that change brokers take `cluster` (all its masters) or `broker_addr` (one address);
    with neither they apply to the only cluster that there is. All methods may raise
    NoNameServerError, ResponseError and the transport's errors.

    Args:
        namesrv: the name servers, as ``"a:9876;b:9876"`` or a list; by default NAMESRV_ADDR.
        instance: a shared instance instead of one of its own.
        clock: the source of time.
        random: the source of randomness.
        settings: fields of `InstanceSettings`.

    Raises:
        ConfigError.
    """
