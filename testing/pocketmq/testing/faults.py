"""Faults that a test orders: their kind, and the requests, clients and times they are for.

::

    with cluster.faults.answer("SYSTEM_BUSY", request="SEND_MESSAGE", topic="Orders", times=2):
        producer.send(message)  # succeeds at the third attempt

Each fault lasts until its ``with`` block ends, or `Fault.remove`. The oldest rule that matches a
request decides. `injection.rules.Where` lists the conditions of a rule; times are the machine's,
since clients wait for a broker in real time.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Self

from pocketmq.client import SendStatus
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.testing.cluster_thread import ClusterThread
from pocketmq.testing.core import Core
from pocketmq.testing.fault_orders import ORDERED, FaultOrders
from pocketmq.testing.injection.ordered import OrderedFault
from pocketmq.testing.injection.rules import Fired


class FaultWarning(UserWarning):
    """Warns of an ordered fault that never fired: no request matched its conditions."""


class Fault:
    """A fault that is in force until its ``with`` block ends."""

    def __init__(self, thread: ClusterThread, ordered: OrderedFault) -> None:
        self._thread, self._ordered = thread, ordered
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Ends the fault. Idempotent."""
        if not self._is_over:
            self._thread.run(self._ordered.remove())
            self._is_over = True

    @property
    def count(self) -> int:
        """How often the fault fired."""
        return self._ordered.count

    @property
    def fired(self) -> list[Fired]:
        """The requests that the fault fired for, oldest first."""
        return self._ordered.fired


class Faults:
    """Orders faults; topics and groups are in the namespace of the cluster.

    The methods block for a moment, also in coroutines; none waits for a client.

    Args:
        core, thread: the cluster.
        names: the namespace.
    """

    def __init__(self, core: Core, thread: ClusterThread, names: Namespace) -> None:
        self._thread, self._orders = thread, FaultOrders(core, names)

    def answer(self, code: str | int, remark: str = ORDERED, **where: Any) -> Fault:
        """Refuses requests with a `ResponseCode`, by name or number, instead of carrying them out.

        Raises:
            ConfigError: the code or a condition does not exist.
        """
        return self._order(self._orders.answer(code, remark, **where))

    def delay(self, milliseconds: float, **where: Any) -> Fault:
        """Delays requests before they are carried out."""
        return self._order(self._orders.delay(milliseconds, **where))

    def drop_request(self, **where: Any) -> Fault:
        """Neither carries out nor answers requests."""
        return self._order(self._orders.drop_request(**where))

    def drop_reply(self, **where: Any) -> Fault:
        """Carries out requests without answering them."""
        return self._order(self._orders.drop_reply(**where))

    def close_connection(self, **where: Any) -> Fault:
        """Cuts the connection of a request instead of carrying the request out."""
        return self._order(self._orders.close_connection(**where))

    def send_status(self, status: str | SendStatus, **where: Any) -> Fault:
        """Stores messages and answers their senders with this `SendStatus` instead of SEND_OK.

        Raises:
            ConfigError: there is no such status.
        """
        return self._order(self._orders.send_status(status, **where))

    def pause(self, broker: str) -> Fault:
        """Lets a broker hang: it takes requests and carries them out when the fault ends.

        A member of a broker set is cut off from the others, too, which elect another leader.
        """
        return self._order(self._orders.pause(broker))

    def kill(self, broker: str) -> Fault:
        """Kills a broker at once, without unregistering; starts it again when the fault ends.

        As after kill -9 the name server and the clients see broken connections. All that the
        broker had acknowledged is there when it is back. The name of a broker set stands for its
        leader; the member is in sync again when the fault has ended.
        """
        return self._order(self._orders.kill(broker))

    def partition(self, broker: str, other: str | None = None) -> Fault:
        """Cuts a broker off from the name server, which drops it; clients still reach both.

        Args:
            broker: the broker; the name of a broker set stands for its leader.
            other: cuts the link between two members of a broker set instead.

        Raises:
            UsageError: there is no such broker, or these two have no link.
        """
        return self._order(self._orders.partition(broker, other))

    def slow_link(self, broker: str, milliseconds: float, other: str | None = None) -> Fault:
        """Makes the way between members of a broker set longer, in both directions.

        Args:
            broker: the member; the name of a broker set stands for its leader.
            milliseconds: how much longer bytes take, one way.
            other: between these two members only, not between the first one and all others.

        Raises:
            UsageError: there is no such broker, or these two have no link.
        """
        return self._order(self._orders.slow_link(broker, milliseconds, other))

    def arbiter_away(self) -> Fault:
        """Cuts all members of broker sets off from the arbiter: no member can be elected.

        Raises:
            UsageError: the cluster has no broker sets.
        """
        return self._order(self._orders.arbiter_away())

    def disk_full(self, broker: str | None = None) -> Fault:
        """Fills the disk of one broker, or of all: sends are refused, reads go on."""
        return self._order(self._orders.disk_full(broker))

    def _order(self, order: Coroutine[Any, Any, OrderedFault]) -> Fault:
        return Fault(self._thread, self._thread.run(order))
