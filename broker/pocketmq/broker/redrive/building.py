"""Builds the redrives of a broker from its parts."""

from __future__ import annotations

from pocketmq.broker.parts import BrokerParts
from pocketmq.broker.redrive.copies import Copies
from pocketmq.broker.redrive.letters import Letters
from pocketmq.broker.redrive.marks import LetterMarks
from pocketmq.broker.redrive.redrives import Redrives
from pocketmq.broker.redrive.results import Results
from pocketmq.broker.redrive.targets import Targets
from pocketmq.protocol.bodies.redrives import RedriveOrder


def redrives_of(parts: BrokerParts, store_host: bytes) -> Redrives:
    """Builds the redrives; none of them runs before `Redrives.start`.

    Args:
        parts: of the broker.
        store_host: its encoded address.
    """
    data, clock = parts.data, parts.clock
    store, topics, settings = data.store, data.topics, data.settings
    broker_name = settings.now.broker_name

    def copies(order: RedriveOrder) -> Copies:
        return Copies(order, broker_name, store_host, settings.now.max_message_size)

    letters = Letters(store, topics, LetterMarks(store.metadata), clock)
    targets = Targets(store, topics, data.groups, data.request_modes, parts.popping.queues)
    results = Results(store, topics, data.appender, store_host, clock)
    return Redrives(
        letters, targets, copies, results, store, data.appender, store.metadata, broker_name, clock
    )
