"""The operations on topics."""

from __future__ import annotations

from msgspec import structs

from pocketmq.client import Admin
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.bodies.topics import (
    Queue,
    Topic,
    TopicListQuery,
    TopicName,
    Topics,
    TopicSettings,
)
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.names import kind_of, part_of
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.rates.topic_figures import FIGURES_MAX, figures_by_broker, listed
from pocketmq.console.web.operations import Call, Operation
from pocketmq.console.web.problems import not_found
from pocketmq.protocol.errors import TopicMissingError
from pocketmq.protocol.flags import is_readable, is_writable


class TopicCalls:
    """Lists and shows topics.

    Args:
        callers: their clients.
    """

    def __init__(self, callers: Callers) -> None:
        self._callers = callers

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        serve = self._callers.serve
        one = f"{PREFIX}/topics/{{topic}}"
        return [
            Operation(
                "GET", f"{PREFIX}/topics", "listTopics", "Topics by name.",
                serve(self.listed), Topics, query=TopicListQuery,
            ),
            Operation(
                "GET", one, "getTopic", "A topic with its queues, settings and groups.",
                serve(self.one), Topic,
            ),
        ]  # fmt: skip

    async def listed(self, clients: Clients, call: Call) -> Topics:
        """Lists topics."""
        query = call.query
        admin = clients.admin
        system = await _own_names(admin)
        found = {name: kind_of(name, system) for name in await admin.topics()}
        fitting = [name for name, kind in found.items() if query.kind in (kind, "all")]
        if query.figures:
            query = structs.replace(query, limit=min(query.limit, FIGURES_MAX))
        total, part, behind = part_of(fitting, query)
        shown = [TopicName(name=name, kind=found[name]) for name in part]
        if query.figures and part:
            listed(shown, (await figures_by_broker(admin, part)).values())
        return Topics(total=total, topics=shown, next=behind)

    async def one(self, clients: Clients, call: Call) -> Topic:
        """Shows a topic."""
        admin = clients.admin
        return await topic_of(admin, call.path["topic"])


async def _own_names(admin: Admin) -> frozenset[str]:
    """The names of brokers and clusters, after which they have a topic each."""
    info = await admin.cluster_info()
    return frozenset({*info.cluster_addr_table, *info.broker_addr_table})


async def topic_of(admin: Admin, name: str) -> Topic:
    """Shows a topic.

    Raises:
        ProblemError: 404, there is none.
    """
    try:
        route = await admin.topic_route(name)
    except UnknownTopicError as e:
        raise not_found("topic", name, f"GET {PREFIX}/topics") from e
    settings: dict[str, TopicSettings] = {}
    for data in sorted(route.broker_datas, key=lambda data: data.broker_name):
        if data.master_address is None:
            continue
        try:
            config = await admin.topic_config(name, data.master_address)
        except TopicMissingError:
            continue
        settings[data.broker_name] = TopicSettings(
            read_queues=config.read_queue_nums,
            write_queues=config.write_queue_nums,
            is_readable=is_readable(config.perm),
            is_writable=is_writable(config.perm),
            order=config.order,
            attributes=config.attributes,
        )
    stats = await admin.topic_stats(name)
    queues = [
        Queue(
            broker=row.queue.broker_name,
            queue=row.queue.queue_id,
            min_offset=row.min_offset,
            max_offset=row.max_offset,
            last_stored_ms=row.last_update_ms or None,
        )
        for row in stats
    ]
    return Topic(
        name=name,
        kind=kind_of(name, await _own_names(admin)),
        messages=sum(row.count for row in stats),
        settings=settings,
        groups=await admin.topic_groups(name),
        queues=queues,
    )
