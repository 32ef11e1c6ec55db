"""Bodies about clusters and brokers."""

from __future__ import annotations

from msgspec import field

from pocketmq.console.api.masters import SilentBroker
from pocketmq.console.web.bodies import ResponseBody


class Broker(ResponseBody):
    """A broker.

    Attributes:
        id: 0 of a master, or of the leader of a broker set.
        version: as the broker tells it.
        in_rate, out_rate: messages a second in the last ten seconds; null if it does not tell.
        stored_today, delivered_today: messages since midnight.
        disk_used: share of its disk, from 0 to 1.
        problem: why the broker could not be asked; null if it answers.
    """

    cluster: str
    name: str
    id: int
    address: str
    version: str | None = None
    started_ms: int | None = None
    in_rate: float | None = None
    out_rate: float | None = None
    stored_today: int | None = None
    delivered_today: int | None = None
    disk_used: float | None = None
    problem: str | None = None


class Cluster(ResponseBody):
    """All brokers that the name servers know.

    Attributes:
        silent: brokers that were registered lately, and are no more.
    """

    name_servers: list[str]
    brokers: list[Broker]
    silent: list[SilentBroker] = field(default_factory=list)
