"""Makes clients of a local cluster, with its address, clock and namespace; counts their work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pocketmq.client.application_code import ApplicationFunction, Raised
from pocketmq.client.listening.dispatch import Listener
from pocketmq.client.producers.transactions import TransactionListener
from pocketmq.testing.core import Core

THREADS_MAX = 64
"""Plain listeners of one consumer that run at the same time."""

INSTANCE_DEFAULTS: dict[str, Any] = {"poll_namesrv_interval_ms": 200}
"""Consumers soon find a topic that its first message creates."""

MEMBER_DEFAULTS: dict[str, Any] = {
    "persist_interval_ms": 20,
    "rebalance_interval_ms": 200,
    "consume_from_where": "CONSUME_FROM_FIRST_OFFSET",
}
"""Offsets are committed soon; a group begins at the first message, sent before it or not."""


PUSH_DEFAULTS: dict[str, Any] = {"close_timeout_ms": 2_000}
"""A hanging listener fails its test soon."""


class Watched:
    """Counts the calls of the application's functions that are under way.

    Plain functions run in threads, as in the client itself.
    """

    def __init__(self) -> None:
        self.at_work = 0
        self._functions: list[ApplicationFunction] = []

    def watch(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Wraps a function as a coroutine function whose calls are counted."""
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
        """Ends the threads that plain functions run in."""
        for function in self._functions:
            function.close()


class _WatchedTransactions:
    """Counts the calls of a transaction listener."""

    def __init__(self, listener: TransactionListener, watched: Watched) -> None:
        self.execute_local_transaction = watched.watch(listener.execute_local_transaction)
        self.check_local_transaction = watched.watch(listener.check_local_transaction)


class ClientSettings:
    """Makes the settings of the clients of a cluster.

    Args:
        core: the cluster.
        namespace: the namespace of the clients' topics and groups.
    """

    def __init__(self, core: Core, namespace: str) -> None:
        self._core, self._namespace = core, namespace
        self.watched = Watched()
        core.settling.works.add(self.watched)

    def close(self) -> None:
        """Stops counting calls and ends their threads. Idempotent."""
        self._core.settling.works.discard(self.watched)
        self.watched.close()

    def instance(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the settings of a client that has an instance of its own."""
        if "instance" in given:
            return given
        own = {
            "namesrv": self._core.namesrv,
            "clock": self._core.client_clock,
            "local_offsets_dir": str(self._core.local_offsets_dir),
        }
        if self._core.certificates is not None:
            own["tls"] = self._core.certificates.client
        return {**own, "namespace": self._namespace, **INSTANCE_DEFAULTS, **given}

    def member(self, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the settings of a member of a consumer group."""
        return self.instance({**MEMBER_DEFAULTS, **given})

    def push(self, listener: Listener | None, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the settings of a push consumer."""
        watched = None if listener is None else self.watched.watch(listener)
        return {**self.member({**PUSH_DEFAULTS, **given}), "listener": watched}

    def transactions(self, listener: TransactionListener, given: dict[str, Any]) -> dict[str, Any]:
        """Returns the settings of a transactional producer."""
        methods = ("execute_local_transaction", "check_local_transaction")
        if all(callable(getattr(listener, name, None)) for name in methods):
            listener = _WatchedTransactions(listener, self.watched)
        return {**self.instance(given), "listener": listener}
