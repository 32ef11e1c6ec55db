"""Surveys the queues of a stream, before each batch.

A stream outlives restarts of brokers and name servers, so a queue that does not answer is no error
by itself: it is left where it is until it does. A queue that its broker does not hold any more is
another matter, and listed apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pocketmq.client.errors import BrokerDownError, NoNameServerError
from pocketmq.client.instance.instance import ClientInstance
from pocketmq.client.instance.routes import readable_queues
from pocketmq.protocol.bodies.routes import ClusterInfo
from pocketmq.protocol.errors import OperatingError, TopicMissingError
from pocketmq.protocol.messages.message import MessageQueue
from pocketmq.protocol.requests.nameserver import ClusterInfoRequest
from pocketmq.protocol.requests.offsets import MaxOffsetRequest, MinOffsetRequest, OffsetResponse
from pocketmq.spark.errors import MissingTopicError
from pocketmq.spark.reading.selection import matching_topics
from pocketmq.spark.streaming.options import StreamOptions
from pocketmq.spark.topics import CALL_TIMEOUT_MS

Span = tuple[int, int]
"""The least and the next offset of a queue."""


class Survey(NamedTuple):
    """What the queues held at one moment.

    Attributes:
        held: what each queue holds that can be read.
        silent: known queues whose broker is not there or does not answer, and why.
        closed: known queues that cannot be read any more, and what their broker holds of them.
    """

    held: dict[MessageQueue, Span]
    silent: dict[MessageQueue, OperatingError]
    closed: dict[MessageQueue, Span]


async def survey_of_stream(
    instance: ClientInstance, options: StreamOptions, known: Collection[MessageQueue]
) -> Survey:
    """Surveys the queues that a stream reads, and those of topics that are new to its pattern.

    Raises:
        NoNameServerError: no name server answers, and nothing is known from before.
    """
    names: Collection[str] = options.named_topics
    if options.subscribe_pattern:
        names = {q.topic for q in known}
        try:
            names |= set(await matching_topics(instance, options))
        except (MissingTopicError, NoNameServerError):
            if not names:
                raise
    found = await survey(instance, sorted(names), known)
    assigned = options.assigned
    if assigned is None:
        return found
    held = {q: span for q, span in found.held.items() if q in assigned}
    silent = {q: error for q, error in found.silent.items() if q in assigned}
    return Survey(held, silent, found.closed)


async def survey(
    instance: ClientInstance, topics: Sequence[str], known: Collection[MessageQueue]
) -> Survey:
    """Surveys all queues of some topics.

    Args:
        instance: running.
        topics: their names; unknown ones have no queues.
        known: queues that were read before.

    Raises:
        NoNameServerError: no name server answers, and nothing is known from before.
    """
    listed = await _listed(instance, topics, known)
    held: dict[MessageQueue, Span] = {}
    silent: dict[MessageQueue, OperatingError] = {}
    closed: dict[MessageQueue, Span] = {}
    spans = await asyncio.gather(*(_span_of_listed(instance, q) for q in listed))
    for queue, span in zip(listed, spans, strict=True):
        if isinstance(span, OperatingError):
            silent[queue] = span
        else:
            held[queue] = span
    missing = sorted(set(known) - set(listed))
    if missing:
        masters = await _masters(instance)
        found = await asyncio.gather(*(_span_of_missing(instance, q, masters) for q in missing))
        for queue, span in zip(missing, found, strict=True):
            if isinstance(span, OperatingError):
                silent[queue] = span
            else:
                closed[queue] = span
    return Survey(held, silent, closed)


async def _listed(
    instance: ClientInstance, topics: Sequence[str], known: Collection[MessageQueue]
) -> list[MessageQueue]:
    found: list[MessageQueue] = []
    for topic in topics:
        try:
            found += readable_queues(topic, await instance.routes.ask(topic))
        except TopicMissingError:
            continue
        except NoNameServerError:
            of_topic = sorted(q for q in known if q.topic == topic)
            if not of_topic:
                raise
            found += of_topic  # as long as brokers answer, no name server is needed
    return found


async def _span_of_listed(instance: ClientInstance, queue: MessageQueue) -> Span | OperatingError:
    try:
        return await _span(instance, await instance.routes.master_of(queue), queue)
    except OperatingError as e:
        return e


async def _span_of_missing(
    instance: ClientInstance, queue: MessageQueue, masters: Mapping[str, str]
) -> Span | OperatingError:
    address = masters.get(queue.broker_name)
    if address is None:
        return BrokerDownError(queue.topic, f"the broker {queue.broker_name}")
    try:
        return await _span(instance, address, queue)
    except OperatingError as e:
        return e


async def _span(instance: ClientInstance, address: str, queue: MessageQueue) -> Span:
    least, following = await asyncio.gather(
        *(
            instance.pool.ask_for(
                address,
                request(topic=queue.topic, queue_id=queue.queue_id),
                OffsetResponse,
                CALL_TIMEOUT_MS,
            )
            for request in (MinOffsetRequest, MaxOffsetRequest)
        )
    )
    return least.offset, following.offset


async def _masters(instance: ClientInstance) -> dict[str, str]:
    """Asks for the addresses of all masters; none if no name server answers."""
    try:
        info = ClusterInfo.decode((await instance.namesrv.ask(ClusterInfoRequest())).body)
    except NoNameServerError:
        return {}
    brokers = info.broker_addr_table.values()
    return {b.broker_name: b.master_address for b in brokers if b.master_address is not None}
