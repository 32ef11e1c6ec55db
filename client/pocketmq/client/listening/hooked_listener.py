"""A listener with hooks around it; consumers without hooks do not use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pocketmq.client.hooks import ConsumeHooks, ConsumeMessageContext, run
from pocketmq.client.listening.dispatch import AsyncListener
from pocketmq.client.results import ConsumeResult, OrderlyResult, RetryLater
from pocketmq.protocol.messages.message import ReceivedMessage
from pocketmq.protocol.messages.trace import ConsumeReturnType
from pocketmq.runtime.clock import Clock

SUCCESSES = (ConsumeResult.SUCCESS, OrderlyResult.SUCCESS, OrderlyResult.COMMIT)


class HookedListener:
    """Calls hooks before and after a listener, as RocketMQ's consume services do.

    Args:
        listener: handles a batch.
        hooks: what to call.
        group: the consumer group.
        namespace: of the consumer.
        clock: measures the listener.
        consume_timeout_ms: what takes longer counts as timed out, whatever it said; 0 for never.
    """

    def __init__(
        self,
        listener: AsyncListener,
        hooks: ConsumeHooks,
        group: str,
        namespace: str,
        clock: Clock,
        consume_timeout_ms: float,
    ) -> None:
        self._listener, self._hooks, self._clock = listener, hooks, clock
        self._group, self._namespace = group, namespace
        self._timeout_s = consume_timeout_ms / 1000

    async def __call__(self, batch: list[ReceivedMessage]) -> object:
        """Handles a batch; returns and raises what the listener does."""
        context = ConsumeMessageContext(self._group, batch, batch[0].queue, self._namespace)
        run(self._hooks.before, context)
        begun_s = self._clock.monotonic()
        try:
            result: object = await self._listener(batch)
            context.success = _is_success(result, len(batch))
        except BaseException as e:
            context.error = e
            raise
        finally:
            took_s = self._clock.monotonic() - begun_s
            is_late = self._timeout_s > 0 and took_s >= self._timeout_s
            context.return_type = _return_type(context, is_late=is_late)
            run(self._hooks.after, context)
        return result


def hooks_around(
    hooks: ConsumeHooks, group: str, namespace: str, clock: Clock, consume_timeout_ms: float
) -> Callable[[AsyncListener], AsyncListener]:
    """Returns a function that puts hooks around a listener."""
    return lambda listener: HookedListener(
        listener, hooks, group, namespace, clock, consume_timeout_ms
    )


def call_hooks_for_pulled(
    hooks: ConsumeHooks, group: str, messages: Sequence[ReceivedMessage], namespace: str
) -> None:
    """Calls hooks for messages that the application pulled: they count as handled.

    RocketMQ's pull consumers do the same (`DefaultMQPullConsumerImpl#pullSyncImpl`).
    """
    if not messages or not (hooks.before or hooks.after):
        return
    context = ConsumeMessageContext(group, messages, messages[0].queue, namespace)
    run(hooks.before, context)
    context.success, context.return_type = True, ConsumeReturnType.SUCCESS
    run(hooks.after, context)


def _is_success(result: object, count: int) -> bool:
    if isinstance(result, RetryLater):
        return result.ack_index + 1 >= count
    return result is None or result in SUCCESSES


def _return_type(context: ConsumeMessageContext, *, is_late: bool) -> ConsumeReturnType:
    if context.error is not None:
        return ConsumeReturnType.EXCEPTION
    if is_late:
        return ConsumeReturnType.TIME_OUT
    return ConsumeReturnType.SUCCESS if context.success else ConsumeReturnType.FAILED
