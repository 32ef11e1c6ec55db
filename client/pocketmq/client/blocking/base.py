"""The base of the blocking classes: each runs its asynchronous twin on the shared thread's loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Generic, Self, TypeVar

from pocketmq.client.consumers.group_member import GroupMember
from pocketmq.client.lifecycle import Startable
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.runtime.loop_thread import LoopThread

T = TypeVar("T")


TwinT = TypeVar("TwinT", bound=Startable)
IteratedTwinT = TypeVar("IteratedTwinT", bound=GroupMember[Any])


class Blocking(Generic[TwinT]):
    """A blocking object; use it in a ``with`` block, or call `start` and `close`.

    Args:
        make: makes its asynchronous twin, on the loop.
    """

    def __init__(self, make: Callable[[], TwinT]) -> None:
        self._thread = LoopThread.shared()
        self._twin = self._call(make)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def start(self) -> None:
        """Makes the object usable. Idempotent."""
        self._run(self._twin.start())

    def close(self) -> None:
        """Finishes what is under way and closes the object. Idempotent."""
        self._run(self._twin.close())

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(coroutine)

    def _call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        return self._thread.call(function, *args, **kwargs)


class BlockingIterator(Blocking[IteratedTwinT]):
    """A blocking object that gives messages one by one."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage:
        try:
            return self._run(self._twin.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None
