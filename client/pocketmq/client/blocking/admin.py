"""The admin client for programs without an event loop."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pocketmq.client import admin
from pocketmq.client.admin.messages import FOREVER_MS, QUERY_COUNT_MAX, IndexName
from pocketmq.client.admin.offsets import End
from pocketmq.client.admin.results import BrokerRow, QueueLag, QueueReset, QueueState, QueueStats
from pocketmq.client.blocking.thread import Blocking
from pocketmq.client.instance.instance import NamesrvList
from pocketmq.protocol.bodies.brokers import BrokerStats
from pocketmq.protocol.bodies.clients import ConsumerConnection, GroupConfig, ProducerConnection
from pocketmq.protocol.bodies.groups import ConsumeDirectlyResult, RunningInfo
from pocketmq.protocol.bodies.routes import ClusterInfo, TopicRoute
from pocketmq.protocol.bodies.topics import QueueKey, TopicConfig
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.protocol.messages.trace import TraceRecord
from pocketmq.protocol.names.names import TRACE_TOPIC


class Admin(Blocking[admin.Admin]):
    """See `pocketmq.client.admin.Admin`."""

    def __init__(self, namesrv: NamesrvList = None, **settings: Any) -> None:
        super().__init__(lambda: admin.Admin(namesrv, **settings))

    def create_topic(
        self,
        topic: str,
        queues: int = admin.QUEUES_DEFAULT,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int = PERM_READ | PERM_WRITE,
        order: bool = False,
        attributes: str | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Creates a topic, or sets all its settings anew."""
        create = self._twin.create_topic(
            topic,
            queues,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=perm,
            order=order,
            attributes=attributes,
            cluster=cluster,
            broker_addr=broker_addr,
        )
        return self._run(create)

    def update_topic(
        self,
        topic: str,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int | None = None,
        order: bool | None = None,
        attributes: str | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Changes what is given of a topic's settings."""
        update = self._twin.update_topic(
            topic,
            read_queues=read_queues,
            write_queues=write_queues,
            perm=perm,
            order=order,
            attributes=attributes,
            cluster=cluster,
            broker_addr=broker_addr,
        )
        return self._run(update)

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Deletes a topic with its messages and offsets."""
        self._run(self._twin.delete_topic(topic, cluster=cluster))

    def topics(self, *, cluster: str | None = None) -> list[str]:
        """The names of all topics, or of a cluster's, sorted."""
        return self._run(self._twin.topics(cluster=cluster))

    def topic_route(self, topic: str) -> TopicRoute:
        """Where a topic's queues are."""
        return self._run(self._twin.topic_route(topic))

    def topic_config(self, topic: str, broker_addr: str) -> TopicConfig:
        """A topic's settings on one broker."""
        return self._run(self._twin.topic_config(topic, broker_addr))

    def topic_stats(self, topic: str) -> list[QueueStats]:
        """What each queue of a topic holds."""
        return self._run(self._twin.topic_stats(topic))

    def topic_queues(self, topic: str) -> list[QueueState]:
        """Every queue of a topic that exists or still holds messages."""
        return self._run(self._twin.topic_queues(topic))

    def cluster_info(self) -> ClusterInfo:
        """All clusters and their brokers."""
        return self._run(self._twin.cluster_info())

    def brokers(self) -> list[BrokerRow]:
        """All brokers, sorted by cluster, name and id."""
        return self._run(self._twin.brokers())

    def broker_runtime(self, broker_addr: str) -> dict[str, str]:
        """A broker's figures."""
        return self._run(self._twin.broker_runtime(broker_addr))

    def broker_config(self, broker_addr: str) -> dict[str, str]:
        """A broker's settings."""
        return self._run(self._twin.broker_config(broker_addr))

    def update_broker_config(self, broker_addr: str, changes: Mapping[str, object]) -> None:
        """Changes settings of a broker, all of them or none."""
        self._run(self._twin.update_broker_config(broker_addr, changes))

    def broker_stats(self, broker_addr: str, name: str, key: str) -> BrokerStats:
        """A statistic of one broker in the last minute, hour and day."""
        return self._run(self._twin.broker_stats(broker_addr, name, key))

    def clean_broker(self, broker_addr: str) -> None:
        """Has a broker remove what is expired or left over."""
        self._run(self._twin.clean_broker(broker_addr))

    def wipe_write_perm(self, broker_name: str) -> int:
        """Takes a broker out of all routes for writing."""
        return self._run(self._twin.wipe_write_perm(broker_name))

    def add_write_perm(self, broker_name: str) -> int:
        """Undoes `wipe_write_perm`."""
        return self._run(self._twin.add_write_perm(broker_name))

    def groups(self, *, cluster: str | None = None) -> list[str]:
        """The names of all subscription groups, sorted."""
        return self._run(self._twin.groups(cluster=cluster))

    def group_config(self, group: str, broker_addr: str) -> GroupConfig:
        """A group's settings on one broker."""
        return self._run(self._twin.group_config(group, broker_addr))

    def create_group(
        self,
        group: str | GroupConfig,
        *,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Creates a group, or sets all its settings anew."""
        return self._run(self._twin.create_group(group, cluster=cluster, broker_addr=broker_addr))

    def update_group(
        self,
        group: str,
        *,
        consume_enable: bool | None = None,
        consume_broadcast_enable: bool | None = None,
        consume_message_orderly: bool | None = None,
        retry_queue_nums: int | None = None,
        retry_max_times: int | None = None,
        notify_consumer_ids_changed_enable: bool | None = None,
        attributes: Mapping[str, str] | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Changes what is given of a group's settings."""
        update = self._twin.update_group(
            group,
            consume_enable=consume_enable,
            consume_broadcast_enable=consume_broadcast_enable,
            consume_message_orderly=consume_message_orderly,
            retry_queue_nums=retry_queue_nums,
            retry_max_times=retry_max_times,
            notify_consumer_ids_changed_enable=notify_consumer_ids_changed_enable,
            attributes=attributes,
            cluster=cluster,
            broker_addr=broker_addr,
        )
        return self._run(update)

    def group_configs(
        self, group: str, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> dict[str, GroupConfig]:
        """A group's settings by the address of each broker that has it."""
        return self._run(self._twin.group_configs(group, cluster=cluster, broker_addr=broker_addr))

    def delete_group(
        self,
        group: str,
        *,
        clean_offset: bool = False,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> None:
        """Deletes a group with its retry and dead-letter topics."""
        delete = self._twin.delete_group(
            group, clean_offset=clean_offset, cluster=cluster, broker_addr=broker_addr
        )
        self._run(delete)

    def consume_stats(self, group: str, topic: str | None = None) -> list[QueueLag]:
        """Where a group stands in each queue."""
        return self._run(self._twin.consume_stats(group, topic))

    def consumer_connections(self, group: str, broker_addr: str) -> ConsumerConnection:
        """Who consumes as a group, and what."""
        return self._run(self._twin.consumer_connections(group, broker_addr))

    def consumers(self, group: str, *, cluster: str | None = None) -> dict[str, ConsumerConnection]:
        """Who consumes as a group, by broker address."""
        return self._run(self._twin.consumers(group, cluster=cluster))

    def topic_groups(self, topic: str) -> list[str]:
        """The groups that consume a topic or have done so, sorted."""
        return self._run(self._twin.topic_groups(topic))

    def group_topics(self, group: str, *, cluster: str | None = None) -> list[str]:
        """The topics in which a group has offsets, sorted."""
        return self._run(self._twin.group_topics(group, cluster=cluster))

    def running_info(self, group: str, client_id: str, *, stacks: bool = False) -> RunningInfo:
        """How a consumer fares, as it tells itself."""
        return self._run(self._twin.running_info(group, client_id, stacks=stacks))

    def consume_directly(
        self, group: str, client_id: str, offset_msg_id: str
    ) -> ConsumeDirectlyResult:
        """Has one consumer handle one message, beside its queues."""
        return self._run(self._twin.consume_directly(group, client_id, offset_msg_id))

    def consumer_status(
        self, group: str, topic: str, *, client_id: str | None = None
    ) -> dict[str, dict[QueueKey, int]]:
        """Where consumers say they stand in a topic."""
        return self._run(self._twin.consumer_status(group, topic, client_id=client_id))

    def reset_offsets(
        self,
        group: str,
        topic: str,
        *,
        to: End | None = None,
        offset: int | None = None,
        timestamp_ms: int | None = None,
        queues: Collection[MessageQueue] | None = None,
        dry_run: bool = False,
    ) -> list[QueueReset]:
        """Puts a group elsewhere in a topic."""
        reset = self._twin.reset_offsets(
            group,
            topic,
            to=to,
            offset=offset,
            timestamp_ms=timestamp_ms,
            queues=queues,
            dry_run=dry_run,
        )
        return self._run(reset)

    def clone_offsets(
        self, source: str, target: str, topic: str | None = None, *, cluster: str | None = None
    ) -> None:
        """Puts a group where another one stands."""
        self._run(self._twin.clone_offsets(source, target, topic, cluster=cluster))

    def producer_connections(self, group: str, broker_addr: str) -> ProducerConnection:
        """Who produces as a group."""
        return self._run(self._twin.producer_connections(group, broker_addr))

    def committed_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Where a group continues; None when it has never committed there."""
        return self._run(self._twin.committed_offset(group, queue))

    def commit_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Stores where a group that does not run continues."""
        self._run(self._twin.commit_offset(group, queue, offset))

    def view_message(self, offset_msg_id: str) -> ReceivedMessage:
        """A message by the address that its id carries."""
        return self._run(self._twin.view_message(offset_msg_id))

    def query_messages(
        self,
        topic: str,
        key: str,
        *,
        index: IndexName = "key",
        count_max: int = QUERY_COUNT_MAX,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[ReceivedMessage]:
        """The newest messages of a topic that have a key, in order of their store times."""
        query = self._twin.query_messages(
            topic, key, index=index, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
        )
        return self._run(query)

    def message_by_unique_key(
        self, topic: str, msg_id: str, *, begin_ms: int = 0, end_ms: int = FOREVER_MS
    ) -> ReceivedMessage | None:
        """A message by the id that its sender's client gave it; None if there is none."""
        query = self._twin.message_by_unique_key(topic, msg_id, begin_ms=begin_ms, end_ms=end_ms)
        return self._run(query)

    def message_trace(
        self,
        msg_id: str,
        *,
        trace_topic: str = TRACE_TOPIC,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[TraceRecord]:
        """What clients with traces have told of a message."""
        query = self._twin.message_trace(
            msg_id, trace_topic=trace_topic, begin_ms=begin_ms, end_ms=end_ms
        )
        return self._run(query)

    def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """The first offset of a queue stored at that time or later."""
        return self._run(self._twin.search_offset(queue, timestamp_ms))

    def kv_put(self, namespace: str, key: str, value: str) -> None:
        """Sets a key of a namespace on all name servers."""
        self._run(self._twin.kv_put(namespace, key, value))

    def kv_get(self, namespace: str, key: str) -> str | None:
        """A key's value; None when it is not set."""
        return self._run(self._twin.kv_get(namespace, key))

    def kv_delete(self, namespace: str, key: str) -> None:
        """Removes a key of a namespace on all name servers."""
        self._run(self._twin.kv_delete(namespace, key))

    def kv_list(self, namespace: str) -> dict[str, str]:
        """All keys of a namespace."""
        return self._run(self._twin.kv_list(namespace))
