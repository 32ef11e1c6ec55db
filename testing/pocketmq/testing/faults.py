"""Faults on order: what goes wrong in a cluster, when, for whom and how often.

::

    with cluster.faults.answer("SYSTEM_BUSY", request="SEND_MESSAGE", topic="Orders", times=2):
        producer.send(message)  # succeeds at the third attempt

Each fault lasts until its ``with`` block ends, or `Fault.remove`. The oldest rule that matches a
request decides. What a rule may ask for is in `fault_rules.Where`; times are the machine's, since
what waits for a broker does so in real time.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from typing_extensions import Self

from pocketmq.client import SendStatus
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.testing.core import Core
from pocketmq.testing.fault_orders import ORDERED, FaultOrders, OrderedFault
from pocketmq.testing.injection.rules import Fired
from pocketmq.testing.loop_thread import LoopThread


class FaultWarning(UserWarning):
    """A fault was ordered and never fired: its conditions fit nothing that was asked."""


class Fault:
    """Something that goes wrong until its ``with`` block ends."""

    def __init__(self, thread: LoopThread, ordered: OrderedFault) -> None:
        self._thread, self._ordered = thread, ordered
        self._is_over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Ends it: from now on everything is right again. Idempotent."""
        if not self._is_over:
            self._is_over = True
            self._thread.run(self._ordered.remove())

    @property
    def count(self) -> int:
        """How often it fired."""
        return self._ordered.count

    @property
    def fired(self) -> list[Fired]:
        """What for, oldest first."""
        return self._ordered.fired


class Faults:
    """What a test orders; topics and groups are in the namespace of its cluster.

    Its methods block for a moment, also in coroutines; none waits for a client.

    Args:
        core, thread: the cluster.
        names: the namespace.
    """

    def __init__(self, core: Core, thread: LoopThread, names: Namespace) -> None:
        self._thread, self._orders = thread, FaultOrders(core, names)

    def answer(self, code: str | int, remark: str = ORDERED, **where: Any) -> Fault:
        """Requests are refused with a `ResponseCode`, by name or number, and not carried out.

        Raises:
            ConfigError: the code or a condition does not exist.
        """
        return self._order(self._orders.answer(code, remark, **where))

    def delay(self, milliseconds: float, **where: Any) -> Fault:
        """Requests are carried out so much later."""
        return self._order(self._orders.delay(milliseconds, **where))

    def drop_request(self, **where: Any) -> Fault:
        """Requests are neither carried out nor answered."""
        return self._order(self._orders.drop_request(**where))

    def drop_reply(self, **where: Any) -> Fault:
        """Requests are carried out and not answered."""
        return self._order(self._orders.drop_reply(**where))

    def close_connection(self, **where: Any) -> Fault:
        """The connection of a request is cut instead."""
        return self._order(self._orders.close_connection(**where))

    def send_status(self, status: str | SendStatus, **where: Any) -> Fault:
        """Messages are stored, and their senders get this `SendStatus` instead of SEND_OK.

        Raises:
            ConfigError: there is no such status.
        """
        return self._order(self._orders.send_status(status, **where))

    def pause(self, broker: str) -> Fault:
        """A broker takes requests and carries none out before the fault ends: it hangs."""
        return self._order(self._orders.pause(broker))

    def kill(self, broker: str) -> Fault:
        """A broker is gone at once, without a word to anybody; it is back when the fault ends.

        As after a killed process the name server and the clients see broken connections. What the
        broker had acknowledged is there when it is back.
        """
        return self._order(self._orders.kill(broker))

    def partition(self, broker: str) -> Fault:
        """A broker cannot reach the name server, which takes it for gone; clients reach both."""
        return self._order(self._orders.partition(broker))

    def disk_full(self, broker: str | None = None) -> Fault:
        """A broker, or all, cannot write: sends are refused, and what is there can be read."""
        return self._order(self._orders.disk_full(broker))

    def _order(self, order: Coroutine[Any, Any, OrderedFault]) -> Fault:
        return Fault(self._thread, self._thread.run(order))
