"""One task that a worker has: it is acknowledged, comes again, or becomes a dead letter."""

from __future__ import annotations

import asyncio
import logging
import weakref

from pocketmq.client.consumers.work_queue import WorkQueue
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.taskiq.redelivery import failure

log = logging.getLogger("pocketmq.taskiq")


class Delivery:
    """Settles a message when Taskiq acknowledges its task.

    A task that Taskiq drops without a word (a middleware failed, or a task with ``ack_type``
    ``manual`` did not acknowledge itself) comes again after its invisible time, once Taskiq has
    begun another one: until then it keeps the last.

    Args:
        message: as it was popped.
        work: where it was popped.
        redeliveries_max: a task that came again so often and fails is a dead letter.
    """

    def __init__(self, message: ReceivedMessage, work: WorkQueue, redeliveries_max: int) -> None:
        self._message, self._work = message, work
        self._redeliveries_max = redeliveries_max
        loop = asyncio.get_running_loop()
        self._dropped = weakref.finalize(self, _let_go, loop, work, message)
        self._dropped.atexit = False

    async def settle(self) -> None:
        """Acknowledges the message, unless the task failed and is to come again."""
        self._dropped.detach()
        failed, message = failure.get(), self._message
        if failed is None:
            self._work.acknowledge(message)
        elif failed.delay_ms is None or message.reconsume_times >= self._redeliveries_max:
            log.warning("message %s is a dead letter: %s", message.msg_id, failed.error)
            await self._work.give_up(message, failed.error)
        else:
            await put_off(self._work, message, failed.delay_ms)


async def put_off(work: WorkQueue, message: ReceivedMessage, delay_ms: int) -> None:
    """Lets a message come again after a delay, or when it is visible if no broker hears of that.

    Args:
        work: where it was popped.
        message: as it was popped.
        delay_ms: in milliseconds.
    """
    try:
        await work.requeue(message, delay_ms)
    except PocketMQError as e:
        log.info("message %s comes again when it is visible: %s", message.msg_id, e)


def _let_go(loop: asyncio.AbstractEventLoop, work: WorkQueue, message: ReceivedMessage) -> None:
    """From whichever thread the garbage is collected in."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(work.let_go, message)
