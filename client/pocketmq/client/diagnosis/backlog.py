"""Finds messages that were given up or are late: dead letters and timers."""

from __future__ import annotations

from pocketmq.client.diagnosis.cluster_state import BrokerState, ClusterState
from pocketmq.client.diagnosis.findings import Finding, Severity
from pocketmq.client.diagnosis.groups import groups_of
from pocketmq.client.diagnosis.rounds import look_at_each
from pocketmq.protocol.bodies.topics import TopicStatsTable
from pocketmq.protocol.flags import is_readable
from pocketmq.protocol.names.names import DLQ_PREFIX
from pocketmq.protocol.requests.topics import TopicStatsRequest

DEAD_LETTERS = "dead letters"
TIMERS = "timers"

LATE_S_MAX = 10
"""Seconds that a timer message may be late."""


async def check_dead_letters(state: ClusterState) -> list[Finding]:
    """Finds messages that groups gave up after all retries."""
    names = {name for b in state.masters for name in b.topics if name.startswith(DLQ_PREFIX)}
    if state.topic is not None:
        names &= {f"{DLQ_PREFIX}{group}" for group in await groups_of(state)}

    async def given_up(topic: str) -> list[Finding]:
        return await _given_up(state, topic)

    return await look_at_each(
        state, DEAD_LETTERS, "topics of dead letters", sorted(names), given_up
    )


async def _given_up(state: ClusterState, topic: str) -> list[Finding]:
    count, can_read = 0, True
    for broker in state.masters:
        if topic in broker.topics:
            # Brokers before 5.0 made such topics without read permission.
            can_read &= is_readable(broker.topics[topic].perm)
            answer = await state.ask(broker.address, TopicStatsRequest(topic=topic))
            offsets = TopicStatsTable.decode(answer.body).offset_table.values()
            count += sum(queue.max_offset - queue.min_offset for queue in offsets)
    if not count:
        return []
    return [
        Finding(
            DEAD_LETTERS,
            Severity.WARNING,
            topic.removeprefix(DLQ_PREFIX),
            f"{count} messages were given up after all retries, and are in {topic} until retention "
            f"takes them",
            ("" if can_read else f"pocketmq topic update '{topic}' --perm rw; ")
            + f"look at them: pocketmq tail '{topic}' -O beginning -e; mend what fails; send them "
            f"again: pocketmq tail '{topic}' -O beginning -e -f json | pocketmq produce TOPIC "
            f"-f json",
        )
    ]


async def check_timers(state: ClusterState) -> list[Finding]:
    """Finds timer messages whose time has passed."""
    return [
        Finding(
            TIMERS,
            Severity.WARNING,
            str(broker),
            f"its timer messages are {late_s} s late, {broker.figures.get('timerCongestNum')} wait "
            f"in all",
            "its disk may be full or slow, or the machine busy: pocketmq broker stats "
            f"-b {broker.address}",
        )
        for broker in state.brokers
        if (late_s := _late_s(broker)) > LATE_S_MAX
    ]


def _late_s(broker: BrokerState) -> int:
    return int(broker.figures.get("timerReadBehind", "0"))
