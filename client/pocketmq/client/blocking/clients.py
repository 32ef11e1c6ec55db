"""The blocking twins of the client's classes.

Made by `make reference` (docs/scripts/blocking_client.py) of the asynchronous ones: change those.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from pocketmq.client import admin
from pocketmq.client.admin.dead_letters import SAMPLES_DEFAULT
from pocketmq.client.admin.messages import FOREVER_MS, QUERY_COUNT_MAX, IndexName
from pocketmq.client.admin.offsets import End
from pocketmq.client.admin.results import BrokerRow, QueueLag, QueueReset, QueueState, QueueStats
from pocketmq.client.admin.topics import QUEUES_DEFAULT, IfExists
from pocketmq.client.blocking.base import Blocking, BlockingIterator
from pocketmq.client.consumers import (
    lite_pull_consumer,
    pull_consumer,
    push_consumer,
    simple_consumer,
)
from pocketmq.client.consumers.pull_consumer import DEFAULT_CONSUMER_GROUP
from pocketmq.client.instance.instance import NamesrvList
from pocketmq.client.listening.dispatch import Listener
from pocketmq.client.message_selector import Expression
from pocketmq.client.producers import producer, transaction_producer
from pocketmq.client.producers.producer import DEFAULT_PRODUCER_GROUP, OnSent
from pocketmq.client.producers.selectors import QueueSelector
from pocketmq.client.producers.transactions import TransactionListener, TransactionSendResult
from pocketmq.client.queues.pulling import PULL_MESSAGES_DEFAULT
from pocketmq.client.rebalance.allocate_strategies import AllocateStrategy, allocate_averagely
from pocketmq.client.rebalance.queue_listeners import MessageQueueListener, TopicQueuesListener
from pocketmq.client.results import PullResult, SendResult
from pocketmq.protocol.bodies.brokers import BrokerStats, HAStatus, SettingDetail
from pocketmq.protocol.bodies.clients import (
    SUBSCRIBE_ALL,
    ConsumerConnection,
    GroupConfig,
    ProducerConnection,
)
from pocketmq.protocol.bodies.controller import ReplicasInfo
from pocketmq.protocol.bodies.groups import ConsumeDirectlyResult, RunningInfo
from pocketmq.protocol.bodies.popping import PoppedQueue
from pocketmq.protocol.bodies.queries import ConsumeQueueEntries
from pocketmq.protocol.bodies.redrives import (
    LetterCounts,
    LetterState,
    Redrive,
    RedriveChange,
    RedriveOrder,
    RedrivePlan,
    ResultPage,
)
from pocketmq.protocol.bodies.replication import MemberReport
from pocketmq.protocol.bodies.routes import ClusterInfo, TopicRoute
from pocketmq.protocol.bodies.topics import QueueKey, TopicConfig, TopicFigures
from pocketmq.protocol.bodies.users import AclInfo, PolicyEntryInfo, UserInfo
from pocketmq.protocol.errors import NoPermissionError
from pocketmq.protocol.flags import PERM_READ, PERM_WRITE
from pocketmq.protocol.messages.message import Message, MessageQueue, ReceivedMessage
from pocketmq.protocol.messages.trace import TraceRecord
from pocketmq.protocol.names.names import TRACE_TOPIC
from pocketmq.protocol.requests.extensions.backups import BackupTablesResponse
from pocketmq.protocol.requests.popping import ALL_QUEUES, POPPED_MAX


class Admin(Blocking[admin.Admin]):
    """See `pocketmq.client.Admin`."""

    def __init__(self, namesrv: NamesrvList = None, **settings: Any) -> None:
        super().__init__(lambda: admin.Admin(namesrv, **settings))

    def create_topic(
        self,
        topic: str,
        queues: int = QUEUES_DEFAULT,
        *,
        read_queues: int | None = None,
        write_queues: int | None = None,
        perm: int = PERM_READ | PERM_WRITE,
        order: bool = False,
        attributes: str | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
        if_exists: IfExists = "replace",
    ) -> list[str]:
        """Creates a topic, or sets all its settings anew, and waits until the route shows it."""
        return self._run(
            self._twin.create_topic(
                topic,
                queues,
                read_queues=read_queues,
                write_queues=write_queues,
                perm=perm,
                order=order,
                attributes=attributes,
                cluster=cluster,
                broker_addr=broker_addr,
                if_exists=if_exists,
            )
        )

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
        """Changes the given settings of a topic, on every broker that has the topic."""
        return self._run(
            self._twin.update_topic(
                topic,
                read_queues=read_queues,
                write_queues=write_queues,
                perm=perm,
                order=order,
                attributes=attributes,
                cluster=cluster,
                broker_addr=broker_addr,
            )
        )

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Deletes a topic with its messages and offsets, on brokers and in name servers."""
        self._run(self._twin.delete_topic(topic, cluster=cluster))

    def topics(self, *, cluster: str | None = None) -> list[str]:
        """Returns the names of all topics, or of a cluster's, sorted."""
        return self._run(self._twin.topics(cluster=cluster))

    def topic_config(self, topic: str, broker_addr: str) -> TopicConfig:
        """Returns a topic's settings on one broker."""
        return self._run(self._twin.topic_config(topic, broker_addr))

    def topic_configs(self, broker_addr: str) -> dict[str, TopicConfig]:
        """Returns the settings of all topics on one broker, the broker's own topics too."""
        return self._run(self._twin.topic_configs(broker_addr))

    def topic_stats(self, topic: str, *, broker_addr: str | None = None) -> list[QueueStats]:
        """Returns the offsets of each queue of a topic, sorted by broker and queue."""
        return self._run(self._twin.topic_stats(topic, broker_addr=broker_addr))

    def topic_figures(self, topics: Sequence[str], broker_addr: str) -> dict[str, TopicFigures]:
        """Returns what one broker of this project holds of topics, and their rates, by name."""
        return self._run(self._twin.topic_figures(topics, broker_addr))

    def topic_queues(self, topic: str) -> list[QueueState]:
        """Returns every queue of a topic that exists or still holds messages, sorted."""
        return self._run(self._twin.topic_queues(topic))

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
        """Changes the given settings of a group, on every broker that has the group."""
        return self._run(
            self._twin.update_group(
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
        )

    def delete_group(
        self,
        group: str,
        *,
        clean_offset: bool = False,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> None:
        """Deletes a group with its retry and dead-letter topics."""
        self._run(
            self._twin.delete_group(
                group, clean_offset=clean_offset, cluster=cluster, broker_addr=broker_addr
            )
        )

    def groups(self, *, cluster: str | None = None) -> list[str]:
        """Returns the names of all subscription groups, sorted."""
        return self._run(self._twin.groups(cluster=cluster))

    def group_config(self, group: str, broker_addr: str) -> GroupConfig:
        """Returns a group's settings on one broker."""
        return self._run(self._twin.group_config(group, broker_addr))

    def forbidden_topics(self, group: str, broker_addr: str) -> list[str]:
        """Returns the topics that a group may not read on one broker (updateGroupForbidden)."""
        return self._run(self._twin.forbidden_topics(group, broker_addr))

    def group_configs(
        self, group: str, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> dict[str, GroupConfig]:
        """Returns a group's settings by the address of each broker that has the group."""
        return self._run(self._twin.group_configs(group, cluster=cluster, broker_addr=broker_addr))

    def topic_groups(self, topic: str) -> list[str]:
        """Returns the groups that consume a topic or have done so, sorted."""
        return self._run(self._twin.topic_groups(topic))

    def group_topics(self, group: str, *, cluster: str | None = None) -> list[str]:
        """Returns the topics in which a group has offsets, sorted."""
        return self._run(self._twin.group_topics(group, cluster=cluster))

    def consumer_connections(self, group: str, broker_addr: str) -> ConsumerConnection:
        """Returns a group's consumers on one broker; raises code 206 if there are none."""
        return self._run(self._twin.consumer_connections(group, broker_addr))

    def consumers(self, group: str, *, cluster: str | None = None) -> dict[str, ConsumerConnection]:
        """Returns a group's consumers by the address of each broker that has some."""
        return self._run(self._twin.consumers(group, cluster=cluster))

    def producer_connections(self, group: str, broker_addr: str) -> ProducerConnection:
        """Returns a group's producers on one broker; raises code 1 if there are none."""
        return self._run(self._twin.producer_connections(group, broker_addr))

    def running_info(
        self, group: str, client_id: str, *, stacks: bool = False, broker_addr: str | None = None
    ) -> RunningInfo:
        """Asks a consumer for its running info: settings, queues, rates."""
        return self._run(
            self._twin.running_info(group, client_id, stacks=stacks, broker_addr=broker_addr)
        )

    def consume_directly(
        self, group: str, client_id: str, offset_msg_id: str
    ) -> ConsumeDirectlyResult:
        """Makes one consumer handle one message, beside its queues; no offset changes."""
        return self._run(self._twin.consume_directly(group, client_id, offset_msg_id))

    def consumer_status(
        self, group: str, topic: str, *, client_id: str | None = None
    ) -> dict[str, dict[QueueKey, int]]:
        """Asks a group's consumers for their offsets in a topic, by client id and queue."""
        return self._run(self._twin.consumer_status(group, topic, client_id=client_id))

    def consume_stats(self, group: str, topic: str | None = None) -> list[QueueLag]:
        """Returns a group's offset and lag in each queue, sorted by topic, broker and queue."""
        return self._run(self._twin.consume_stats(group, topic))

    def committed_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Returns a group's committed offset in a queue; None if it has never committed there."""
        return self._run(self._twin.committed_offset(group, queue))

    def commit_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commits an offset for a group that has no running consumers."""
        self._run(self._twin.commit_offset(group, queue, offset))

    def reset_offsets(
        self,
        group: str,
        topic: str,
        *,
        to: End | None = None,
        offset: int | None = None,
        timestamp_ms: int | None = None,
        offsets: Mapping[MessageQueue, int] | None = None,
        queues: Collection[MessageQueue] | None = None,
        dry_run: bool = False,
    ) -> list[QueueReset]:
        """Resets a group's offsets in a topic; its running consumers go on there at once."""
        return self._run(
            self._twin.reset_offsets(
                group,
                topic,
                to=to,
                offset=offset,
                timestamp_ms=timestamp_ms,
                offsets=offsets,
                queues=queues,
                dry_run=dry_run,
            )
        )

    def clone_offsets(
        self, source: str, target: str, topic: str | None = None, *, cluster: str | None = None
    ) -> None:
        """Copies a group's offsets to another group, which should have no running consumers."""
        self._run(self._twin.clone_offsets(source, target, topic, cluster=cluster))

    def brokers(self) -> list[BrokerRow]:
        """Returns all brokers, sorted by cluster, name and id."""
        return self._run(self._twin.brokers())

    def namesrv_cluster_info(self, namesrv_addr: str) -> ClusterInfo:
        """Returns all clusters and their brokers as one name server knows them."""
        return self._run(self._twin.namesrv_cluster_info(namesrv_addr))

    def namesrv_release(self, namesrv_addr: str) -> str | None:
        """Returns a name server's release of PocketMQ; None if it tells none, as Apache's."""
        return self._run(self._twin.namesrv_release(namesrv_addr))

    def namesrv_config(self, namesrv_addr: str) -> dict[str, str]:
        """Returns the settings of a name server."""
        return self._run(self._twin.namesrv_config(namesrv_addr))

    def broker_runtime(self, broker_addr: str) -> dict[str, str]:
        """Returns a broker's runtime figures, such as ``putTps`` or ``msgPutTotalTodayNow``."""
        return self._run(self._twin.broker_runtime(broker_addr))

    def broker_config(self, broker_addr: str) -> dict[str, str]:
        """Returns a broker's settings."""
        return self._run(self._twin.broker_config(broker_addr))

    def broker_settings(
        self, broker_addr: str, changes: Mapping[str, object] | None = None
    ) -> tuple[list[SettingDetail], str]:
        """Returns a broker's settings with their defaults, and the version of the settings."""
        return self._run(self._twin.broker_settings(broker_addr, changes))

    def update_broker_config(self, broker_addr: str, changes: Mapping[str, object]) -> None:
        """Changes all given settings of a broker, or none; the changes hold at once."""
        self._run(self._twin.update_broker_config(broker_addr, changes))

    def broker_stats(self, broker_addr: str, name: str, key: str) -> BrokerStats:
        """Returns a statistic of one broker in the last minute, hour and day."""
        return self._run(self._twin.broker_stats(broker_addr, name, key))

    def switch_leader(self, broker_addr: str, member_id: int = -1, reason: str = "") -> int:
        """Has another member of a broker set lead; returns the id of the member that leads then."""
        return self._run(self._twin.switch_leader(broker_addr, member_id, reason))

    def backup_tables(
        self, broker_addr: str, snapshot: str = "", page: int = 0
    ) -> tuple[BackupTablesResponse, bytes]:
        """Returns a page of a broker's snapshot, for `pocketmq store backup`."""
        return self._run(self._twin.backup_tables(broker_addr, snapshot, page))

    def backup_logs(self, broker_addr: str, snapshot: str, wants: bytes) -> tuple[int, bytes]:
        """Returns how many wants are fulfilled, and records of a broker's logs."""
        return self._run(self._twin.backup_logs(broker_addr, snapshot, wants))

    def describe_member(self, broker_addr: str) -> MemberReport:
        """Tells what a member of a broker set has, whether it leads or follows."""
        return self._run(self._twin.describe_member(broker_addr))

    def ha_status(self, broker_addr: str) -> HAStatus:
        """Tells how a broker replicates: a leader what each follower lacks (907)."""
        return self._run(self._twin.ha_status(broker_addr))

    def sync_state_sets(self, broker_addr: str, *names: str) -> dict[str, ReplicasInfo]:
        """Tells who leads broker sets and who is in sync, by brokerName (1006)."""
        return self._run(self._twin.sync_state_sets(broker_addr, *names))

    def elect_member(
        self, broker_addr: str, version: int, epoch: int, *, unclean: bool = False, reason: str = ""
    ) -> int:
        """Has a member lead its broker set, whose leader is gone; returns the new epoch."""
        return self._run(
            self._twin.elect_member(broker_addr, version, epoch, unclean=unclean, reason=reason)
        )

    def clean_broker(self, broker_addr: str) -> None:
        """Makes a broker remove expired files, and the queues of deleted topics."""
        self._run(self._twin.clean_broker(broker_addr))

    def wipe_write_perm(self, broker_name: str) -> int:
        """Takes a broker out of all routes for writing; returns how many topics changed."""
        return self._run(self._twin.wipe_write_perm(broker_name))

    def add_write_perm(self, broker_name: str) -> int:
        """Undoes `wipe_write_perm`; returns how many topics changed."""
        return self._run(self._twin.add_write_perm(broker_name))

    def view_message(self, offset_msg_id: str) -> ReceivedMessage:
        """Returns the message at the address that an offset message id carries."""
        return self._run(self._twin.view_message(offset_msg_id))

    def queue_entries(
        self, queue: MessageQueue, offset: int, count: int = 1
    ) -> ConsumeQueueEntries:
        """Returns index entries of a queue, with the ends of the queue."""
        return self._run(self._twin.queue_entries(queue, offset, count))

    def message_at(self, queue: MessageQueue, offset: int) -> ReceivedMessage | None:
        """Returns the message at an offset of a queue; None if the queue does not hold it."""
        return self._run(self._twin.message_at(queue, offset))

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
        """Returns the newest messages of a topic that have a key, in order of storage."""
        return self._run(
            self._twin.query_messages(
                topic, key, index=index, count_max=count_max, begin_ms=begin_ms, end_ms=end_ms
            )
        )

    def message_by_unique_key(
        self, topic: str, msg_id: str, *, begin_ms: int = 0, end_ms: int = FOREVER_MS
    ) -> ReceivedMessage | None:
        """Returns the message with the id that its sender gave it; None if there is none."""
        return self._run(
            self._twin.message_by_unique_key(topic, msg_id, begin_ms=begin_ms, end_ms=end_ms)
        )

    def message_trace(
        self,
        msg_id: str,
        *,
        trace_topic: str = TRACE_TOPIC,
        begin_ms: int = 0,
        end_ms: int = FOREVER_MS,
    ) -> list[TraceRecord]:
        """Returns the traces of a message: who sent it, who consumed it, and how."""
        return self._run(
            self._twin.message_trace(
                msg_id, trace_topic=trace_topic, begin_ms=begin_ms, end_ms=end_ms
            )
        )

    def search_offset(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Returns the first offset of a queue stored at that time or later."""
        return self._run(self._twin.search_offset(queue, timestamp_ms))

    def in_flight(
        self,
        group: str,
        topic: str,
        broker_addr: str,
        *,
        queue_id: int = ALL_QUEUES,
        offset: int = 0,
        count_max: int = 1000,
    ) -> list[PoppedQueue]:
        """Returns what a group has popped of a topic and not acknowledged, by queue."""
        return self._run(
            self._twin.in_flight(
                group, topic, broker_addr, queue_id=queue_id, offset=offset, count_max=count_max
            )
        )

    def dead_letter_counts(self, *, cluster: str | None = None) -> list[LetterCounts]:
        """Counts the dead letters of all groups of a cluster, sorted by group."""
        return self._run(self._twin.dead_letter_counts(cluster=cluster))

    def dead_letter_states(
        self, group: str, broker_name: str, queue_id: int, offset: int, count: int
    ) -> list[LetterState]:
        """Returns what became of the dead letters of one queue from an offset on, in order."""
        return self._run(self._twin.dead_letter_states(group, broker_name, queue_id, offset, count))

    def plan_redrive(
        self, order: RedriveOrder, *, samples: int = SAMPLES_DEFAULT
    ) -> list[RedrivePlan]:
        """Asks what an order would do, on each broker that has dead letters of its group."""
        return self._run(self._twin.plan_redrive(order, samples=samples))

    def start_redrive(
        self, plans: Sequence[RedrivePlan], redrive_id: str | None = None
    ) -> list[Redrive]:
        """Starts what was planned, on each broker with selected dead letters."""
        return self._run(self._twin.start_redrive(plans, redrive_id))

    def redrives(self, group: str) -> list[Redrive]:
        """Returns the redrives of a group, the newest first; one for each broker that has it."""
        return self._run(self._twin.redrives(group))

    def change_redrive(
        self, group: str, redrive_id: str, change: RedriveChange, *, reason: str = ""
    ) -> list[Redrive]:
        """Pauses, resumes or cancels a redrive on all brokers where it is under way."""
        return self._run(self._twin.change_redrive(group, redrive_id, change, reason=reason))

    def redrive_results(
        self, group: str, redrive_id: str, broker_name: str, begin: int = -1
    ) -> ResultPage:
        """Returns a page of results of a redrive; the last result of a dead letter counts."""
        return self._run(self._twin.redrive_results(group, redrive_id, broker_name, begin))

    def kv_put(self, namespace: str, key: str, value: str) -> None:
        """Sets a key of a namespace on all name servers."""
        self._run(self._twin.kv_put(namespace, key, value))

    def kv_get(self, namespace: str, key: str) -> str | None:
        """Returns the value of a key; None if it is not set."""
        return self._run(self._twin.kv_get(namespace, key))

    def kv_delete(self, namespace: str, key: str) -> None:
        """Removes a key of a namespace on all name servers."""
        self._run(self._twin.kv_delete(namespace, key))

    def kv_list(self, namespace: str) -> dict[str, str]:
        """Returns all keys of a namespace with their values."""
        return self._run(self._twin.kv_list(namespace))

    def create_user(
        self,
        name: str,
        password: str,
        *,
        user_type: str = "Normal",
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Creates a user."""
        return self._run(
            self._twin.create_user(
                name, password, user_type=user_type, cluster=cluster, broker_addr=broker_addr
            )
        )

    def update_user(
        self,
        name: str,
        *,
        password: str | None = None,
        user_type: str | None = None,
        user_status: str | None = None,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Changes what is given of a user, from its next request on."""
        return self._run(
            self._twin.update_user(
                name,
                password=password,
                user_type=user_type,
                user_status=user_status,
                cluster=cluster,
                broker_addr=broker_addr,
            )
        )

    def delete_user(
        self, name: str, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> list[str]:
        """Deletes a user and its policies; one that does not exist is no error."""
        return self._run(self._twin.delete_user(name, cluster=cluster, broker_addr=broker_addr))

    def user(
        self, name: str, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> dict[str, UserInfo]:
        """Returns a user by the addresses of the brokers that know it."""
        return self._run(self._twin.user(name, cluster=cluster, broker_addr=broker_addr))

    def users(
        self, name_part: str = "", *, cluster: str | None = None, broker_addr: str | None = None
    ) -> dict[str, list[UserInfo]]:
        """Returns the users whose names contain a text, by the addresses of the brokers."""
        return self._run(self._twin.users(name_part, cluster=cluster, broker_addr=broker_addr))

    def create_acl(
        self,
        user: str,
        entries: Sequence[PolicyEntryInfo],
        *,
        policy_type: str = "Custom",
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Adds entries to a user's policies; an entry of the same resource is replaced."""
        return self._run(
            self._twin.create_acl(
                user, entries, policy_type=policy_type, cluster=cluster, broker_addr=broker_addr
            )
        )

    def delete_acl(
        self,
        user: str,
        resource: str | None = None,
        *,
        policy_type: str = "Custom",
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> list[str]:
        """Deletes the entry of a resource from a user's policies, or all policies."""
        return self._run(
            self._twin.delete_acl(
                user, resource, policy_type=policy_type, cluster=cluster, broker_addr=broker_addr
            )
        )

    def acl(
        self, user: str, *, cluster: str | None = None, broker_addr: str | None = None
    ) -> dict[str, AclInfo]:
        """Returns a user's policies, if need be without entries, by broker addresses."""
        return self._run(self._twin.acl(user, cluster=cluster, broker_addr=broker_addr))

    def acls(
        self,
        user_part: str = "",
        resource_part: str = "",
        *,
        cluster: str | None = None,
        broker_addr: str | None = None,
    ) -> dict[str, list[AclInfo]]:
        """Returns the policies whose users and resources contain texts, by broker addresses."""
        return self._run(
            self._twin.acls(user_part, resource_part, cluster=cluster, broker_addr=broker_addr)
        )

    def cluster_info(self) -> ClusterInfo:
        """Returns all clusters and their brokers."""
        return self._run(self._twin.cluster_info())

    def topic_route(self, topic: str) -> TopicRoute:
        """Returns a topic's route: its queues and the addresses of its brokers."""
        return self._run(self._twin.topic_route(topic))


class LitePullConsumer(BlockingIterator[lite_pull_consumer.LitePullConsumer]):
    """See `pocketmq.client.LitePullConsumer`; plain listeners run in threads."""

    def __init__(
        self,
        group: str,
        namesrv: NamesrvList = None,
        *,
        allocate: AllocateStrategy = allocate_averagely,
        **settings: Any,
    ) -> None:
        super().__init__(
            lambda: lite_pull_consumer.LitePullConsumer(
                group, namesrv, allocate=allocate, **settings
            )
        )

    def subscribe(
        self,
        topic: str,
        expression: Expression = SUBSCRIBE_ALL,
        listener: MessageQueueListener | None = None,
    ) -> None:
        """Subscribes to a topic, before or after the start."""
        self._call(self._twin.subscribe, topic, expression, listener)

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription to a topic."""
        self._call(self._twin.unsubscribe, topic)

    def assign(
        self, queues: Iterable[MessageQueue], expression: Expression = SUBSCRIBE_ALL
    ) -> None:
        """Assigns queues to pull, before or after the start; a later call replaces them."""
        self._call(self._twin.assign, queues, expression)

    def listen_to_topic(self, topic: str, listener: TopicQueuesListener) -> None:
        """Sets the listener to all queues of a topic, not only this member's."""
        self._run(self._twin.listen_to_topic(topic, listener))

    def poll(self, timeout_ms: float | None = None) -> list[ReceivedMessage]:
        """Returns the next messages of one queue, at most `pull_batch_size`, in offset order."""
        return self._run(self._twin.poll(timeout_ms))

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        """Pauses queues: neither pulls nor hands out their messages until `resume`."""
        self._call(self._twin.pause, queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        """Resumes paused queues."""
        self._call(self._twin.resume, queues)

    def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Stores the group's offsets; those that cannot be stored now are stored later."""
        self._run(self._twin.commit(offsets))

    def committed(self, queue: MessageQueue) -> int | None:
        """Returns the group's stored offset in a queue; None if there is none."""
        return self._run(self._twin.committed(queue))

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Continues at an offset; pulled messages of the queue that were not polled are dropped."""
        self._run(self._twin.seek(queue, offset))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Continues with the oldest message. Raises what `seek` raises."""
        self._run(self._twin.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Continues with the next message that is sent. Raises what `seek` raises."""
        self._run(self._twin.seek_to_end(queue))

    def seek_to_time(self, queue: MessageQueue, timestamp_ms: int) -> None:
        """Continues with the first message stored at that time or later, else at the end."""
        self._run(self._twin.seek_to_time(queue, timestamp_ms))

    def offset_for_timestamp(self, queue: MessageQueue, timestamp_ms: int) -> int:
        """Returns the first offset stored at that time or later."""
        return self._run(self._twin.offset_for_timestamp(queue, timestamp_ms))

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are this member's now, sorted."""
        return self._call(lambda: self._twin.assignment)

    def queues(self, topic: str) -> list[MessageQueue]:
        """Returns all queues of a topic that can be pulled from, sorted by broker and number."""
        return self._run(self._twin.queues(topic))

    def check_subscriptions(self) -> None:
        """Asks the brokers whether they can serve the subscriptions, as `start` does."""
        self._run(self._twin.check_subscriptions())

    @property
    def refusal(self) -> NoPermissionError | None:
        """Why brokers do not let the user consume (16); None while they do."""
        return self._call(lambda: self._twin.refusal)

    def cached_messages(self) -> dict[str, tuple[int, int]]:
        """Returns how many messages the consumer holds that are not handled, and their bytes."""
        return self._call(self._twin.cached_messages)


class Producer(Blocking[producer.Producer]):
    """See `pocketmq.client.Producer`."""

    def __init__(
        self, group: str = DEFAULT_PRODUCER_GROUP, namesrv: NamesrvList = None, **settings: Any
    ) -> None:
        super().__init__(lambda: producer.Producer(group, namesrv, **settings))

    def send(
        self,
        message: Message,
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> SendResult:
        """Sends a message and returns when a broker has stored it."""
        return self._run(
            self._twin.send(message, timeout_ms, queue=queue, selector=selector, arg=arg)
        )

    def send_async(
        self,
        message: Message,
        on_sent: OnSent,
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Begins to send; the callback runs on the client's thread and must not block."""
        self._call(
            self._twin.send_async,
            message,
            on_sent,
            timeout_ms,
            queue=queue,
            selector=selector,
            arg=arg,
        )

    def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> None:
        """Sends a message without waiting for an answer: fast, but it may be lost unnoticed."""
        self._run(self._twin.send_oneway(message, queue=queue, selector=selector, arg=arg))

    def send_batch(
        self,
        messages: Sequence[Message],
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> list[SendResult]:
        """Sends messages of one topic together, in as few requests as the size limit allows."""
        return self._run(
            self._twin.send_batch(messages, timeout_ms, queue=queue, selector=selector, arg=arg)
        )

    def request(
        self,
        message: Message,
        timeout_ms: float | None = None,
        *,
        queue: MessageQueue | None = None,
        selector: QueueSelector | None = None,
        arg: Any = None,
    ) -> ReceivedMessage:
        """Sends a request and returns the reply, which a consumer makes with `reply_message`."""
        return self._run(
            self._twin.request(message, timeout_ms, queue=queue, selector=selector, arg=arg)
        )

    def recall(self, topic: str, recall_handle: str, timeout_ms: float | None = None) -> str:
        """Recalls a timer message before it is delivered; a delay level cannot be recalled."""
        return self._run(self._twin.recall(topic, recall_handle, timeout_ms))

    def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Returns the queues that a topic's messages can be sent to (fetchPublishMessageQueues)."""
        return self._run(self._twin.queues(topic))


class PullConsumer(Blocking[pull_consumer.PullConsumer]):
    """See `pocketmq.client.PullConsumer`."""

    def __init__(
        self,
        group: str = DEFAULT_CONSUMER_GROUP,
        namesrv: NamesrvList = None,
        *,
        allocate: AllocateStrategy = allocate_averagely,
        **settings: Any,
    ) -> None:
        super().__init__(
            lambda: pull_consumer.PullConsumer(group, namesrv, allocate=allocate, **settings)
        )

    def queues(self, topic: str) -> list[MessageQueue]:
        """Returns the queues that can be pulled from, sorted by broker and number."""
        return self._run(self._twin.queues(topic))

    def queues_in_balance(self, topic: str) -> list[MessageQueue]:
        """Returns the queues of a topic that are allocated to this member, sorted."""
        return self._run(self._twin.queues_in_balance(topic))

    def listen_to_queues(self, topic: str, listener: MessageQueueListener | None) -> None:
        """Sets who is called when `queues_in_balance` changes (`registerMessageQueueListener`)."""
        self._run(self._twin.listen_to_queues(topic, listener))

    def pull(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = PULL_MESSAGES_DEFAULT,
        *,
        expression: Expression = SUBSCRIBE_ALL,
        max_bytes: int | None = None,
        hold_ms: int = 0,
    ) -> PullResult:
        """Pulls messages of one queue."""
        return self._run(
            self._twin.pull(
                queue,
                offset,
                max_messages,
                expression=expression,
                max_bytes=max_bytes,
                hold_ms=hold_ms,
            )
        )

    def pull_block_if_not_found(
        self,
        queue: MessageQueue,
        offset: int,
        max_messages: int = PULL_MESSAGES_DEFAULT,
        *,
        expression: Expression = SUBSCRIBE_ALL,
    ) -> PullResult:
        """Pulls messages, and waits for one if there is none, `pull_hold_ms` at the most."""
        return self._run(
            self._twin.pull_block_if_not_found(queue, offset, max_messages, expression=expression)
        )

    def send_back(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Sends a message back that could not be handled: the group gets it again later."""
        self._run(self._twin.send_back(message, delay_level))

    def min_offset(self, queue: MessageQueue) -> int:
        """Returns the offset of the oldest message that the queue still holds."""
        return self._run(self._twin.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """Returns the offset that the next message will get."""
        return self._run(self._twin.max_offset(queue))

    def search_offset(self, queue: MessageQueue, timestamp_ms: int, *, upper: bool = False) -> int:
        """Returns the first offset stored at that time or later; with `upper` the last before."""
        return self._run(self._twin.search_offset(queue, timestamp_ms, upper=upper))

    def earliest_store_time_ms(self, queue: MessageQueue) -> int:
        """Returns when the oldest message was stored; -1 if there is none."""
        return self._run(self._twin.earliest_store_time_ms(queue))

    def committed_offset(self, queue: MessageQueue) -> int | None:
        """Returns the group's committed offset in a queue; None if there is none."""
        return self._run(self._twin.committed_offset(queue))

    def commit(self, queue: MessageQueue, offset: int) -> None:
        """Commits the group's offset in a queue."""
        self._run(self._twin.commit(queue, offset))


class PushConsumer(BlockingIterator[push_consumer.PushConsumer]):
    """See `pocketmq.client.PushConsumer`; plain listeners run in threads."""

    def __init__(
        self,
        group: str,
        namesrv: NamesrvList = None,
        *,
        listener: Listener | None = None,
        allocate: AllocateStrategy = allocate_averagely,
        **settings: Any,
    ) -> None:
        super().__init__(
            lambda: push_consumer.PushConsumer(
                group, namesrv, listener=listener, allocate=allocate, **settings
            )
        )

    def subscribe(self, topic: str, expression: Expression = SUBSCRIBE_ALL) -> None:
        """Subscribes to a topic, before or after the start."""
        self._call(self._twin.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription to a topic."""
        self._call(self._twin.unsubscribe, topic)

    @property
    def is_paused(self) -> bool:
        """Whether the consumer is paused."""
        return self._call(lambda: self._twin.is_paused)

    def pause(self) -> None:
        """Pulls and hands out nothing until `resume`; the queues stay this member's. Idempotent."""
        self._call(self._twin.pause)

    def resume(self) -> None:
        """Pulls and hands out messages again. Idempotent."""
        self._call(self._twin.resume)

    @property
    def concurrency(self) -> int:
        """How many batches are handled at the same time; may be changed at any time."""
        return self._call(lambda: self._twin.concurrency)

    @concurrency.setter
    def concurrency(self, concurrency: int) -> None:
        self._call(setattr, self._twin, "concurrency", concurrency)

    def ack(self, message: ReceivedMessage) -> None:
        """Acknowledges a message of the iteration as handled."""
        self._call(self._twin.ack, message)

    def retry(self, message: ReceivedMessage, delay_level: int = 0) -> None:
        """Sends a message of the iteration back, to come again later."""
        self._call(self._twin.retry, message, delay_level)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues of the subscribed topics that are this member's now, sorted."""
        return self._call(lambda: self._twin.queues)

    def check_subscriptions(self) -> None:
        """Asks the brokers whether they can serve the subscriptions, as `start` does."""
        self._run(self._twin.check_subscriptions())

    @property
    def refusal(self) -> NoPermissionError | None:
        """Why brokers do not let the user consume (16); None while they do."""
        return self._call(lambda: self._twin.refusal)

    def cached_messages(self) -> dict[str, tuple[int, int]]:
        """Returns how many messages the consumer holds that are not handled, and their bytes."""
        return self._call(self._twin.cached_messages)


class SimpleConsumer(Blocking[simple_consumer.SimpleConsumer]):
    """See `pocketmq.client.SimpleConsumer`."""

    def __init__(self, group: str, namesrv: NamesrvList = None, **settings: Any) -> None:
        super().__init__(lambda: simple_consumer.SimpleConsumer(group, namesrv, **settings))

    @property
    def is_waiting(self) -> bool:
        """Whether the consumer has no subscription yet."""
        return self._call(lambda: self._twin.is_waiting)

    def subscribe(self, topic: str, expression: Expression = SUBSCRIBE_ALL) -> None:
        """Subscribes to a topic, before or after the start."""
        self._call(self._twin.subscribe, topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription to a topic."""
        self._call(self._twin.unsubscribe, topic)

    def receive(
        self,
        max_messages: int = POPPED_MAX,
        invisible_ms: int | None = None,
        *,
        await_ms: int | None = None,
    ) -> list[ReceivedMessage]:
        """Receives messages of the subscribed topics, in turn of topics and brokers."""
        return self._run(self._twin.receive(max_messages, invisible_ms, await_ms=await_ms))

    def ack(self, *messages: ReceivedMessage) -> None:
        """Says that messages are handled: they do not come again."""
        self._run(self._twin.ack(*messages))

    def change_invisible_duration(self, message: ReceivedMessage, invisible_ms: int) -> None:
        """Sets anew for how long nobody else gets a message; 0 gives it back."""
        self._run(self._twin.change_invisible_duration(message, invisible_ms))


class TransactionProducer(Producer):
    """See `pocketmq.client.TransactionProducer`; plain methods of the listener run in threads."""

    _twin: transaction_producer.TransactionProducer

    def __init__(
        self,
        group: str,
        namesrv: NamesrvList = None,
        *,
        listener: TransactionListener,
        **settings: Any,
    ) -> None:
        Blocking.__init__(
            self,
            lambda: transaction_producer.TransactionProducer(
                group, namesrv, listener=listener, **settings
            ),
        )

    def send_in_transaction(
        self, message: Message, arg: Any = None, timeout_ms: float | None = None
    ) -> TransactionSendResult:
        """Sends a message, has the listener execute its transaction, and ends it in the broker."""
        return self._run(self._twin.send_in_transaction(message, arg, timeout_ms))
