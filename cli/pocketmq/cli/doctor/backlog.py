"""What was given up or is late: dead letters and timers."""

from __future__ import annotations

from pocketmq.cli.doctor.cluster_state import BrokerState, ClusterState
from pocketmq.cli.doctor.findings import Finding, Severity
from pocketmq.protocol.bodies.topics import TopicStatsTable
from pocketmq.protocol.flags import is_readable
from pocketmq.protocol.names import DLQ_PREFIX
from pocketmq.protocol.requests.topics import TopicStatsRequest

DEAD_LETTERS = "dead letters"
TIMERS = "timers"

LATE_S_MAX = 10
"""So many seconds after its time a timer message may still wait."""

TOPICS_MAX = 500
"""Dead-letter topics of a broker that are looked at."""


async def check_dead_letters(state: ClusterState) -> list[Finding]:
    """Messages that groups gave up after all retries."""
    counts: dict[str, int] = {}
    hidden: set[str] = set()  # brokers before 5.0 made such topics without read permission
    for broker in state.masters:
        names = sorted(name for name in broker.topics if name.startswith(DLQ_PREFIX))
        for name in names[:TOPICS_MAX]:
            if not is_readable(broker.topics[name].perm):
                hidden.add(name)
            answer = await state.ask(broker.address, TopicStatsRequest(topic=name))
            offsets = TopicStatsTable.decode(answer.body).offset_table.values()
            counts[name] = counts.get(name, 0) + sum(o.max_offset - o.min_offset for o in offsets)
    return [
        Finding(
            DEAD_LETTERS,
            Severity.WARNING,
            topic.removeprefix(DLQ_PREFIX),
            f"{count} messages were given up after all retries, and are in {topic} until retention "
            f"takes them",
            (f"pocketmq topic update '{topic}' --perm rw; " if topic in hidden else "")
            + f"look at them: pocketmq tail '{topic}' -o beginning -e; mend what fails; send them "
            f"again: pocketmq tail '{topic}' -o beginning -e -f json | pocketmq produce TOPIC "
            f"-f json",
        )
        for topic, count in sorted(counts.items())
        if count
    ]


async def check_timers(state: ClusterState) -> list[Finding]:
    """Timer messages whose time has passed."""
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
