"""Bodies about rates over time."""

from __future__ import annotations

from msgspec import field

from pocketmq.console.api.reach import PartialBody
from pocketmq.console.web.bodies import RequestBody, ResponseBody


class RatesQuery(RequestBody):
    """Whose rates are wanted: a topic's or a group's; without both those of all brokers."""

    topic: str | None = None
    group: str | None = None


class RatePoint(ResponseBody):
    """One step.

    Attributes:
        time_ms: its end.
        in_rate: messages that were stored, a second; null while brokers did not answer.
        out_rate: messages that were delivered, a second; of a group, that it finished. Null where
            brokers do not tell it.
        left: messages that a group had not finished at the end of the step.
    """

    time_ms: int
    in_rate: float | None = None
    out_rate: float | None = None
    left: int | None = None


class Rates(ResponseBody):
    """Rates over time.

    The console looks every `stepS` seconds, from the first request for these rates on until nobody
    has asked for ten minutes.

    Attributes:
        step_s: seconds of a step.
        points: the last ten minutes, the oldest first; empty at the first request.
    """

    step_s: float
    points: list[RatePoint]


class Sample(PartialBody):
    """What counters stand at.

    Attributes:
        stored: messages that ever came, by source: a broker, or a queue.
        gone: messages that ever went to consumers, by source; of the sources that tell it.
        left: messages that a group has not finished.
    """

    stored: dict[str, int] = field(default_factory=dict)
    gone: dict[str, int] = field(default_factory=dict)
    left: int | None = None
