"""Clients of a local cluster: made with its address, clock and namespace, and watched at work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pocketmq.client.application_code import ApplicationFunction, Raised
from pocketmq.client.listening.dispatch import Listener
from pocketmq.client.producers.transactions import TransactionListener
from pocketmq.testing.core import Core

THREADS_MAX = 64
"""Plain listeners of one consumer that run at once."""

INSTANCE_DEFAULTS: dict[str, Any] = {"poll_namesrv_interval_ms": 200}
"""A topic that is made by its first message is found soon by those who wait for it."""

MEMBER_DEFAULTS: dict[str, Any] = {
    "persist_interval_ms": 20,
    "rebalance_interval_ms": 200,
    "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
}
"""What was handled is known soon; a test's messages may be older than its consumer."""


PUSH_DEFAULTS: dict[str, Any] = {"close_timeout_ms": 2_000}
"""A listener that hangs fails its test soon."""


class Watched:
    """Functions of the application, and how many calls of them are under way.

    Plain functions run in threads, as the client itself has it.
    """

    def __init__(self) -> None:
        self.at_work = 0
        self._functions: list[ApplicationFunction] = []

    def watch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A coroutine function that does the same, and is counted."""
        called = ApplicationFunction(function, THREADS_MAX)
        self._functions.append(called)

        async def counted(*args: Any) -> Any:
            self.at_work += 1
            try:
                result = await called.call(*args)
            finally:
                self.at_work -= 1
            if isinstance(result, Raised):
                raise result.error
            return result

        return counted

    def close(self) -> None:
        """Lets threads go."""
        for function in self._functions:
            function.close()


class _WatchedTransactions:
    """A transaction listener whose calls are counted."""

    def __init__(self, listener: TransactionListener, watched: Watched) -> None:
        self.execute_local_transaction = watched.watch(listener.execute_local_transaction)
        self.check_local_transaction = watched.watch(listener.check_local_transaction)


class ClientSettings:
    """What the clients of a cluster are made with.

    Args:
        core: the cluster.
        namespace: of their topics and groups.
    """

    def __init__(self, core: Core, namespace: str) -> None:
        self._core, self._namespace = core, namespace
        self.watched = Watched()
        core.settling.works.add(self.watched)

    def close(self) -> None:
        """Counts no calls any more, and lets their threads go. Idempotent."""
        self._core.settling.works.discard(self.watched)
        self.watched.close()

    def instance(self, given: dict[str, Any]) -> dict[str, Any]:
        """Of any client, unless it shares an instance."""
        if "instance" in given:
            return given
        own = {"namesrv": self._core.namesrv, "clock": self._core.client_clock}
        return {**own, "namespace": self._namespace, **INSTANCE_DEFAULTS, **given}

    def member(self, given: dict[str, Any]) -> dict[str, Any]:
        """Of a consumer whose queues are shared out."""
        return self.instance({**MEMBER_DEFAULTS, **given})

    def push(self, listener: Listener | None, given: dict[str, Any]) -> dict[str, Any]:
        """Of a push consumer."""
        watched = None if listener is None else self.watched.watch(listener)
        return {**self.member({**PUSH_DEFAULTS, **given}), "listener": watched}

    def transactions(self, listener: TransactionListener, given: dict[str, Any]) -> dict[str, Any]:
        """Of a transactional producer."""
        methods = ("execute_local_transaction", "check_local_transaction")
        if all(callable(getattr(listener, name, None)) for name in methods):
            listener = _WatchedTransactions(listener, self.watched)
        return {**self.instance(given), "listener": listener}
