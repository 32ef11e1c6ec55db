"""The operation on the audit."""

from __future__ import annotations

from pocketmq.client import Admin, MessageQueue, PullConsumer
from pocketmq.client.errors import UnknownTopicError
from pocketmq.console.api.access.audit_bodies import AuditQuery, AuditRecords, AuditSource
from pocketmq.console.api.access.audit_reading import (
    Place,
    decode_places,
    encode_places,
    read_audit,
)
from pocketmq.console.api.callers import Callers, Clients
from pocketmq.console.api.masters import ask_masters
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.web.operations import Call, Operation
from pocketmq.protocol.errors import NoPermissionError, PocketMQError
from pocketmq.runtime.clock import Clock

AUDIT_TOPIC = "auditTopic"
"""The setting of brokers that names the topic of their audit."""


class AuditCalls:
    """Shows who has changed what, and who was refused, as brokers tell it in their audit topics.

    Args:
        callers: their clients.
        clock: bounds the time of a search.
    """

    def __init__(self, callers: Callers, clock: Clock) -> None:
        self._callers, self._clock = callers, clock

    def operations(self) -> list[Operation]:
        """Returns the operations of this family."""
        return [
            Operation(
                "GET", f"{PREFIX}/audit", "readAudit",
                "Changes and refusals of all brokers that have an audit topic, the newest first; "
                "tells how many were looked at, and why not more.",
                self._callers.serve(self.read), AuditRecords, query=AuditQuery,
            ),
        ]  # fmt: skip

    async def read(self, clients: Clients, call: Call) -> AuditRecords:
        """Reads the audit."""
        query = call.query
        assert isinstance(query, AuditQuery)
        sources = await _sources(clients.admin)
        wanted = None if query.cursor is None else decode_places(query.cursor)
        places = []
        for source in sources:
            if source.topic is None or source.problem is not None:
                continue
            end = await _end(clients.reader, source)
            if end is not None:
                places.append(Place(source.broker, source.topic, end))
        if wanted is not None:
            known = {(place.broker, place.topic) for place in places}
            places = [place for place in wanted if (place.broker, place.topic) in known]
        found = await read_audit(clients.reader, places, query, self._clock)
        return AuditRecords(
            records=found.records,
            scanned=found.scanned,
            unreadable=found.unreadable,
            stopped=found.stopped,
            sources=sources,
            next=None if found.stopped == "end" else encode_places(found.places),
        )


async def _sources(admin: Admin) -> list[AuditSource]:
    async def topic(address: str) -> str | None:
        return (await admin.broker_config(address)).get(AUDIT_TOPIC) or None

    told = await ask_masters(admin, topic)
    sources = [AuditSource(broker=broker, topic=topic) for broker, topic in told.answers.items()]
    silent = [AuditSource(broker=one.broker, problem=one.problem) for one in told.silent]
    return sorted(sources + silent, key=lambda source: source.broker)


async def _end(reader: PullConsumer, source: AuditSource) -> int | None:
    """Where a broker's records end; None if it has none, or does not tell."""
    assert source.topic is not None
    try:
        return await reader.max_offset(MessageQueue(source.topic, source.broker, 0))
    except UnknownTopicError:
        return None  # nothing was changed or refused yet
    except NoPermissionError:
        raise
    except PocketMQError as e:
        source.problem = str(e)
        return None
