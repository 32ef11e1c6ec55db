"""What hooks of a consumer see of a listener, and that they cannot disturb it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from support.peers.messages import received

from pocketmq.client import (
    ConsumeHooks,
    ConsumeMessageContext,
    ConsumeResult,
    ConsumeReturnType,
    OrderlyResult,
    ReceivedMessage,
    RetryLater,
    SuspendQueue,
)
from pocketmq.client.listening.hooked_listener import call_hooks_for_pulled, hooks_around
from pocketmq.testing.clock import VirtualClock

TIMEOUT_MS = 1_000


class Watcher:
    """Hooks that note their contexts, and how they were at each call."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, bool, ConsumeMessageContext]] = []
        self.hooks = ConsumeHooks(before=[self._before], after=[self._after])

    def _before(self, context: ConsumeMessageContext) -> None:
        self.calls.append(("before", context.success, context))

    def _after(self, context: ConsumeMessageContext) -> None:
        self.calls.append(("after", context.success, context))


async def ended(clock: VirtualClock, outcome: object, took_s: float = 0) -> ConsumeMessageContext:
    """What the hooks know when a listener of two messages ended in some way."""
    watcher = Watcher()
    batch = [received(5), received(6)]

    async def listener(messages: list[ReceivedMessage]) -> Any:
        if took_s:
            await clock.advance(took_s)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    around = hooks_around(watcher.hooks, "cg", "shop", clock, TIMEOUT_MS)
    if isinstance(outcome, BaseException):
        with pytest.raises(type(outcome)):
            await around(listener)(batch)
    else:
        assert await around(listener)(batch) is outcome
    before, after = watcher.calls
    assert before[:2] == ("before", False)
    assert after[0] == "after"
    assert before[2] is after[2]
    context = after[2]
    assert (context.consumer_group, context.namespace) == ("cg", "shop")
    assert (context.messages, context.queue) == (batch, batch[0].queue)
    return context


@pytest.mark.parametrize(
    ("outcome", "took_s", "expected", "success"),
    [
        (None, 0, ConsumeReturnType.SUCCESS, True),
        (ConsumeResult.SUCCESS, 0, ConsumeReturnType.SUCCESS, True),
        (ConsumeResult.RETRY, 0, ConsumeReturnType.FAILED, False),
        (RetryLater(3), 0, ConsumeReturnType.FAILED, False),
        (RetryLater(ack_index=0), 0, ConsumeReturnType.FAILED, False),
        (RetryLater(ack_index=1), 0, ConsumeReturnType.SUCCESS, True),
        (OrderlyResult.COMMIT, 0, ConsumeReturnType.SUCCESS, True),
        (OrderlyResult.SUSPEND, 0, ConsumeReturnType.FAILED, False),
        (OrderlyResult.ROLLBACK, 0, ConsumeReturnType.FAILED, False),
        (SuspendQueue(50), 0, ConsumeReturnType.FAILED, False),
        (RuntimeError("no"), 0, ConsumeReturnType.EXCEPTION, False),
        (asyncio.CancelledError(), 0, ConsumeReturnType.EXCEPTION, False),
        (None, 0.9, ConsumeReturnType.SUCCESS, True),
        (None, 1.0, ConsumeReturnType.TIME_OUT, True),
        (ConsumeResult.RETRY, 1.0, ConsumeReturnType.TIME_OUT, False),
    ],
)
async def test_how_a_listener_ended(
    clock: VirtualClock,
    outcome: object,
    took_s: float,
    expected: ConsumeReturnType,
    success: bool,
) -> None:
    context = await ended(clock, outcome, took_s)
    assert (context.return_type, context.success) == (expected, success)
    assert context.error is (outcome if isinstance(outcome, BaseException) else None)


async def test_hooks_that_raise_are_logged(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(context: ConsumeMessageContext) -> None:
        raise RuntimeError("broken")

    async def listener(messages: list[ReceivedMessage]) -> str:
        return "handled"

    around = hooks_around(ConsumeHooks(before=[fail], after=[fail]), "cg", "", clock, 0)
    with caplog.at_level(logging.ERROR, "pocketmq.client"):
        assert await around(listener)([received(1)]) == "handled"
    assert len(caplog.records) == 2


def test_pulled_messages_count_as_handled() -> None:
    watcher = Watcher()
    call_hooks_for_pulled(watcher.hooks, "cg", [received(1)], "")
    assert [(name, success) for name, success, _ in watcher.calls] == [
        ("before", False), ("after", True)
    ]  # fmt: skip
    call_hooks_for_pulled(watcher.hooks, "cg", [], "")
    assert len(watcher.calls) == 2


def test_filters(caplog: pytest.LogCaptureFixture) -> None:
    def broken(message: ReceivedMessage) -> bool:
        raise RuntimeError("broken")

    messages = [received(i) for i in range(4)]
    hooks = ConsumeHooks(filters=[lambda m: m.queue_offset % 2 == 0, broken])
    with caplog.at_level(logging.ERROR, "pocketmq.client"):
        assert [m.queue_offset for m in hooks.wanted(messages)] == [0, 2]
    assert len(caplog.records) == 2
