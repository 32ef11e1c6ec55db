"""A link for kombu's threads, which have no event loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pocketmq.client.blocking.base import Blocking
from pocketmq.client.errors import ClosedError
from pocketmq.kombu.link import Link
from pocketmq.kombu.linked_queue import Delivery
from pocketmq.kombu.options import Options
from pocketmq.kombu.receiver import Receiver
from pocketmq.runtime.clock import Clock

T = TypeVar("T")


class BlockingLink(Blocking[Link]):
    """Runs a link on the loop of the thread that the clients of a process share.

    A forked child cannot use the link of its parent: the child's `run` is refused, and its `close`
    leaves everything to the parent, as kombu closes the connections that a child inherits.

    Args:
        namesrv: the name servers.
        options: of the transport.
        settings: of `InstanceSettings`.
    """

    def __init__(self, namesrv: list[str], options: Options, settings: dict[str, Any]) -> None:
        self._pid = os.getpid()
        self.options = options
        super().__init__(lambda: Link(namesrv, options, settings))

    @property
    def clock(self) -> Clock:
        """The source of time."""
        return self._twin.instance.clock

    @property
    def is_inherited(self) -> bool:
        """Whether the link belongs to the process that has forked this one."""
        return os.getpid() != self._pid

    def run(self, work: Callable[[Link], Coroutine[Any, Any, T]]) -> T:
        """Does something with the link, and blocks until it is done.

        Raises:
            ClosedError: the link belongs to another process.
            What the work raises.
        """
        self._check_own()

        async def on_the_loop() -> T:
            return await work(self._twin)

        return self._run(on_the_loop())

    def call(self, function: Callable[..., T], *args: Any) -> T:
        """Calls a function on the loop; the function must not wait.

        Raises:
            ClosedError: the link belongs to another process.
        """
        self._check_own()
        return self._call(function, *args)

    def receiver(
        self,
        room: Callable[[], int],
        take: Callable[[list[Delivery]], None],
        withdraw: Callable[[str], list[Delivery]],
    ) -> Receiver:
        """Makes a receiver; see there."""
        return self.call(Receiver, self.clock, room, take, withdraw)

    def close(self) -> None:
        """Closes the link. Idempotent."""
        if not self.is_inherited:
            super().close()

    def _check_own(self) -> None:
        if self.is_inherited:
            raise ClosedError("the connection of kombu of the parent process")
