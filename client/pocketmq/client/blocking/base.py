"""The base of the blocking classes: each runs its asynchronous twin on the shared thread's loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
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
        self._thread: LoopThread | None = LoopThread.shared()
        self._leaving = threading.Lock()
        try:
            self._twin = self._call(make)
        except BaseException:
            self._leave()
            raise

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._end(lambda: self._twin.__aexit__(*exc_info))

    def start(self) -> None:
        """Makes the object usable. Idempotent."""
        if self._thread is None:
            self._thread = LoopThread.shared()
        self._run(self._twin.start())

    def close(self) -> None:
        """Finishes what is under way and closes the object. Idempotent.

        The thread that the clients of a process share ends with the last of them.
        """
        self._end(self._twin.close)

    def _end(self, end: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._thread is not None:
            self._run(end())
            self._leave()

    def _leave(self) -> None:
        with self._leaving:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.leave()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        with self._used_thread() as thread:
            return thread.run(coroutine)

    def _call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        with self._used_thread() as thread:
            return thread.call(function, *args, **kwargs)

    @contextmanager
    def _used_thread(self) -> Iterator[LoopThread]:
        """Gives the shared thread, to a closed object too: its twin says that it is closed."""
        thread = self._thread
        if thread is not None:
            yield thread
            return
        thread = LoopThread.shared()
        try:
            yield thread
        finally:
            thread.leave()


class BlockingIterator(Blocking[IteratedTwinT]):
    """A blocking object that gives messages one by one."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ReceivedMessage:
        try:
            return self._run(self._twin.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None
