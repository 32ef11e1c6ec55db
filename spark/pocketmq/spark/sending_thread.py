"""The event loop of a writing task, on a thread of its own.

Spark hands rows to a task by a blocking iterator, which may be silent for minutes; answers and
timers have to be served meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from threading import Condition, Thread

from typing_extensions import Self

from pocketmq.client.instance import ClientInstance
from pocketmq.protocol.message import MessageQueue
from pocketmq.spark.options import WriteOptions
from pocketmq.spark.sending import BulkSender, Chunk, Sent
from pocketmq.transport.runtime import run


class SendingThread:
    """Sends chunks while the caller makes more; holds the caller back when too much is under way.

    The first error ends the sending, and is raised from the caller's next call.

    Args:
        options: of the write.
        queues: all that may be written.
    """

    def __init__(self, options: WriteOptions, queues: Sequence[MessageQueue]) -> None:
        self._options, self._queues = options, queues
        self._changed = Condition()
        self._under_way_bytes = 0
        self._error: BaseException | None = None
        self._sender: BulkSender | None = None
        self._thread = Thread(target=self._run, name="pocketmq-sender", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        with self._changed:
            self._changed.wait_for(lambda: self._sender is not None or self._error is not None)
        if self._error is not None:
            self._thread.join()
            raise self._error
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    @property
    def sender(self) -> BulkSender:
        """What sends; only for questions, it belongs to the thread."""
        assert self._sender is not None, "used inside `with`"
        return self._sender

    @property
    def instance(self) -> ClientInstance:
        """The client instance of the thread."""
        return self._instance

    def submit(self, chunk: Chunk) -> None:
        """Sends a chunk soon; waits while more than `inFlightBytes` are under way.

        Raises:
            OperatingError: an earlier chunk could not be sent.
        """
        size = len(chunk.messages.data)
        limit = self._options.in_flight_bytes
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._error is not None
                    or self._under_way_bytes == 0
                    or self._under_way_bytes + size <= limit
                )
            )
            self._raise_error()
            self._under_way_bytes += size
        self._loop.call_soon_threadsafe(self._begin, chunk)

    def finish(self) -> Sent:
        """Waits until everything is stored.

        Raises:
            OperatingError: a chunk could not be sent.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._error is not None or self._under_way_bytes == 0)
            self._raise_error()
        return self.sender.sent

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    # -- on the thread ------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            run(self._serve())
        except Exception as e:  # noqa: BLE001 (the border of the thread: the caller gets it)
            self._fail(e)

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        async with ClientInstance(self._options.namesrv_addr) as instance:
            self._instance = instance
            sender = BulkSender(instance, self._options, self._queues)
            await sender.meet_brokers()
            with self._changed:
                self._sender = sender
                self._changed.notify_all()
            await self._stopping.wait()
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, chunk: Chunk) -> None:
        task = self._loop.create_task(self._send(chunk))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, chunk: Chunk) -> None:
        try:
            if self._error is None:
                await self.sender.send(chunk)
        except Exception as e:  # noqa: BLE001 (the border of the thread: the caller gets it)
            self._fail(e)
        finally:
            with self._changed:
                self._under_way_bytes -= len(chunk.messages.data)
                self._changed.notify_all()

    def _fail(self, error: Exception) -> None:
        with self._changed:
            if self._error is None:
                self._error = error
            self._changed.notify_all()
