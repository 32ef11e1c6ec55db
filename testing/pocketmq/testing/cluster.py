"""A cluster inside a test, a script or a notebook.

::

    with LocalCluster(topics={"Orders": 2}) as cluster:
        with cluster.producer("shop") as producer:
            producer.send(Message("Orders", b"hello", delay_level=18))
        cluster.clock.advance(hours=2)
        assert cluster.published("Orders").bodies == [b"hello"]

In a coroutine it is ``async with LocalCluster() as cluster:``, and calls that wait are awaited.
Either way the servers have a thread and an event loop of their own.
"""

from __future__ import annotations

import asyncio
import contextlib
import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, TypeVar

from pocketmq import client
from pocketmq.broker.store.disk.errors import DirectoryInUseError
from pocketmq.client import TransactionListener, blocking
from pocketmq.client.blocking.base import Blocking
from pocketmq.client.listening.dispatch import Listener
from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.names.namespaces import Namespace
from pocketmq.testing.clients import ClientSettings
from pocketmq.testing.cluster_clock import AsyncClusterClock, ClusterClock, check_blockable
from pocketmq.testing.cluster_thread import ClusterThread
from pocketmq.testing.core import Core
from pocketmq.testing.expectation import ANY, Expectation
from pocketmq.testing.faults import Faults, FaultWarning
from pocketmq.testing.inspection.inspection import Inspection
from pocketmq.testing.messages import Messages
from pocketmq.testing.settings import ClusterSettings, cluster_settings, group_config, topic_config
from pocketmq.transport.errors import CannotListenError

BlockingT = TypeVar("BlockingT", bound=Blocking[Any])

TIMEOUT_S = 10.0
"""Real time that `published` and `drain` wait for messages."""


class _View:
    """The part that both kinds of clusters share: addresses, and calls that do not wait.

    Args:
        core: the servers.
        thread: the thread that the servers run in.
        namespace: the namespace of all names that are used through this object.

    Attributes:
        namespace: the same.
        faults: orders faults of the cluster.
        core, thread: the same, for this package.
    """

    def __init__(self, core: Core, thread: ClusterThread, namespace: str = "") -> None:
        self.core, self.thread = core, thread
        self._names = Namespace(namespace)
        self.namespace = namespace
        self._inspection = Inspection(core, self._names)
        self.faults = Faults(core, thread, self._names)
        self._clients = thread.call(ClientSettings, core, namespace)

    @property
    def namesrv(self) -> str:
        """The address of the name server, ``host:port``: the only address that a client needs."""
        return self.core.namesrv

    @property
    def brokers(self) -> dict[str, str]:
        """The addresses of the running brokers, by name."""
        return {b.config.broker_name: b.address for b in self.thread.call(self.core.brokers)}

    @property
    def grpc_endpoint(self) -> str:
        """Where RocketMQ 5's SDKs connect, ``host:port``: one broker serves the whole cluster.

        Raises:
            UsageError: no broker with a gRPC endpoint runs.
        """
        for broker in self.thread.call(self.core.brokers):
            if broker.grpc_port is not None:
                return f"{broker.address.rpartition(':')[0]}:{broker.grpc_port}"
        raise UsageError(
            "no broker with a gRPC endpoint runs: start one, or leave grpc_port out, which opens it"
        )

    @property
    def client_settings(self) -> dict[str, Any]:
        """Settings for clients of the application: ``Producer("shop", **cluster.client_settings)``.

        Such clients live in the cluster's namespace and time, as clients made by the cluster do.
        """
        return self._clients.instance({})

    def dead_letters(self, group: str, *, missing_ok: bool = False) -> Messages:
        """Returns the dead letters of a group so far, oldest first.

        Args:
            group: the group's name.
            missing_ok: return none for a group that nobody has heard of, instead of an error.

        Raises:
            UsageError: there is no such group; the text names the nearest.
        """
        __tracebackhide__ = True
        return self.thread.call(
            partial(self._inspection.dead_letters, missing_ok=missing_ok), group
        )

    def stored(self, topic: str, *, missing_ok: bool = False) -> Messages:
        """Returns the messages that a topic holds at this moment, oldest first.

        Args:
            topic: the topic's name.
            missing_ok: return none for a topic that does not exist, instead of an error.

        Raises:
            UsageError: there is no such topic; the text names the nearest.
        """
        __tracebackhide__ = True
        return self.thread.call(partial(self._inspection.stored, missing_ok=missing_ok), topic)

    def console(self, port: int = 0) -> str:
        """Serves a console of the whole cluster until the cluster ends, to look at a test.

        Args:
            port: 0 lets the system choose.

        Returns:
            The URL, for a browser: the pages set the clock forward and order faults, too.

        Raises:
            ConfigError: the port is in use.
        """
        from pocketmq.testing.console.serving import serve_console

        return self.thread.run(serve_console(self.core, port))

    def close_clients(self) -> None:
        """Closes the clients that the cluster made. Idempotent."""
        self.thread.call(self._clients.close)

    def _topic(self, name: str, queues: int | None, settings: Mapping[str, Any]) -> Any:
        wanted = dict(settings) if queues is None else {"queues": queues, **settings}
        return self.core.put([topic_config(self._names.wrap(name), wanted)], [])

    def _group(self, name: str, settings: Mapping[str, Any]) -> Any:
        return self.core.put([], [group_config(self._names.wrap(name), settings)])


class Cluster(_View):
    """A cluster for plain code; its clients are those of `pocketmq.client.blocking`.

    Attributes:
        clock: the time of the cluster.
    """

    def __init__(self, core: Core, thread: ClusterThread, namespace: str = "") -> None:
        super().__init__(core, thread, namespace)
        self.clock = ClusterClock(core, thread, self._inspection)
        self._open_clients: list[Blocking[Any]] = []

    def in_namespace(self, namespace: str) -> Cluster:
        """Returns the same cluster with all names in a namespace."""
        return Cluster(self.core, self.thread, namespace)

    def published(
        self,
        topic: str,
        count: int | None = None,
        timeout_s: float = TIMEOUT_S,
        *,
        missing_ok: bool = False,
    ) -> Messages:
        """Returns the messages of a topic, oldest first, without consuming them.

        Args:
            topic: the topic's name.
            count: the number of messages to wait for; without it, waits until nothing moves.
            timeout_s: real time to wait.
            missing_ok: without a count, return none for a topic that does not exist instead of an
                error.

        Raises:
            AssertionError: too few messages came in time; the text shows those that did.
            UsageError: there is no such topic; the text names the nearest.
        """
        __tracebackhide__ = True
        check_blockable("published")
        return self.thread.run(
            self._inspection.published(topic, count, timeout_s, missing_ok=missing_ok)
        )

    def expect(
        self,
        topic: str,
        body: bytes | str | None = None,
        *,
        json: Any = ANY,
        key: str | None = None,
        tag: str | None = None,
        properties: Mapping[str, str] | None = None,
        count: int = 1,
        timeout_s: float = TIMEOUT_S,
    ) -> Messages:
        """Waits for messages that fit a description, and returns all that do, oldest first.

        Args:
            topic: the topic's name.
            body: the body, as bytes or as text.
            json: what the body means as JSON.
            key: one of the keys.
            tag: the tag.
            properties: properties that the message has, among others.
            count: so many at least; 0: none, once nothing moves any more.
            timeout_s: real time to wait.

        Raises:
            AssertionError: too few messages fit in time; the text shows the nearest with what
                differs.
            UsageError: nothing is described, or there is no such topic.
        """
        __tracebackhide__ = True
        check_blockable("expect")
        wanted = Expectation(body, json, key, tag, properties or {})
        return self.thread.run(self._inspection.expect(topic, wanted, count, timeout_s))

    def drain(self, group: str, timeout_s: float = TIMEOUT_S) -> None:
        """Waits until a group has handled all messages, except those that wait for their time.

        Raises:
            AssertionError: the group did not do so in time; the text shows what is left.
        """
        __tracebackhide__ = True
        check_blockable("drain")
        self.thread.run(self._inspection.drain(group, timeout_s))

    def create_topic(self, name: str, queues: int | None = None, **settings: Any) -> None:
        """Makes or changes a topic, see `settings.topic_config`; clients find it on return."""
        self.thread.run(self._topic(name, queues, settings))

    def create_group(self, name: str, **settings: Any) -> None:
        """Makes or changes a consumer group, with fields of `GroupConfig`."""
        self.thread.run(self._group(name, settings))

    def close_clients(self) -> None:
        """Closes the clients that the cluster made and that are still open. Idempotent."""
        made, self._open_clients = self._open_clients, []
        for one in made:
            one.close()
        super().close_clients()

    def _made(self, made: BlockingT) -> BlockingT:
        self._open_clients.append(made)
        return made

    # -- clients ------------------------------------------------------------------------------

    def producer(self, group: str = "producers", **settings: Any) -> blocking.Producer:
        """Makes a producer; use it in a ``with`` block."""
        return self._made(blocking.Producer(group, **self._clients.instance(settings)))

    def transaction_producer(
        self, group: str, *, listener: TransactionListener, **settings: Any
    ) -> blocking.TransactionProducer:
        """Makes a producer of transactional messages."""
        given = self._clients.transactions(listener, settings)
        return self._made(blocking.TransactionProducer(group, **given))

    def push_consumer(
        self, group: str, *, listener: Listener | None = None, **settings: Any
    ) -> blocking.PushConsumer:
        """Makes a consumer with a listener, or one to iterate over."""
        return self._made(blocking.PushConsumer(group, **self._clients.push(listener, settings)))

    def lite_pull_consumer(self, group: str, **settings: Any) -> blocking.LitePullConsumer:
        """Makes a consumer that polls."""
        return self._made(blocking.LitePullConsumer(group, **self._clients.member(settings)))

    def pull_consumer(self, group: str, **settings: Any) -> blocking.PullConsumer:
        """Makes a consumer that pulls from queues of its choice."""
        return self._made(blocking.PullConsumer(group, **self._clients.instance(settings)))

    def admin(self, **settings: Any) -> blocking.Admin:
        """Makes an administrator, which uses names as they are, in no namespace."""
        return self._made(blocking.Admin(**{**self._clients.instance(settings), "namespace": ""}))


class AsyncCluster(_View):
    """A cluster for coroutines; its clients are those of `pocketmq.client`.

    Attributes:
        clock: the time of the cluster.
    """

    def __init__(self, core: Core, thread: ClusterThread, namespace: str = "") -> None:
        super().__init__(core, thread, namespace)
        self.clock = AsyncClusterClock(core, thread, self._inspection)

    def in_namespace(self, namespace: str) -> AsyncCluster:
        """Returns the same cluster with all names in a namespace."""
        return AsyncCluster(self.core, self.thread, namespace)

    async def published(
        self,
        topic: str,
        count: int | None = None,
        timeout_s: float = TIMEOUT_S,
        *,
        missing_ok: bool = False,
    ) -> Messages:
        """As `Cluster.published`."""
        __tracebackhide__ = True
        return await self.thread.wait(
            self._inspection.published(topic, count, timeout_s, missing_ok=missing_ok)
        )

    async def expect(
        self,
        topic: str,
        body: bytes | str | None = None,
        *,
        json: Any = ANY,
        key: str | None = None,
        tag: str | None = None,
        properties: Mapping[str, str] | None = None,
        count: int = 1,
        timeout_s: float = TIMEOUT_S,
    ) -> Messages:
        """As `Cluster.expect`."""
        __tracebackhide__ = True
        wanted = Expectation(body, json, key, tag, properties or {})
        return await self.thread.wait(self._inspection.expect(topic, wanted, count, timeout_s))

    async def drain(self, group: str, timeout_s: float = TIMEOUT_S) -> None:
        """As `Cluster.drain`."""
        __tracebackhide__ = True
        await self.thread.wait(self._inspection.drain(group, timeout_s))

    async def create_topic(self, name: str, queues: int | None = None, **settings: Any) -> None:
        """As `Cluster.create_topic`."""
        await self.thread.wait(self._topic(name, queues, settings))

    async def create_group(self, name: str, **settings: Any) -> None:
        """As `Cluster.create_group`."""
        await self.thread.wait(self._group(name, settings))

    # -- clients ------------------------------------------------------------------------------

    def producer(self, group: str = "producers", **settings: Any) -> client.Producer:
        """Makes a producer; use it in an ``async with`` block."""
        return client.Producer(group, **self._clients.instance(settings))

    def transaction_producer(
        self, group: str, *, listener: TransactionListener, **settings: Any
    ) -> client.TransactionProducer:
        """Makes a producer of transactional messages."""
        given = self._clients.transactions(listener, settings)
        return client.TransactionProducer(group, **given)

    def push_consumer(
        self, group: str, *, listener: Listener | None = None, **settings: Any
    ) -> client.PushConsumer:
        """Makes a consumer with a listener, or one to iterate over."""
        return client.PushConsumer(group, **self._clients.push(listener, settings))

    def lite_pull_consumer(self, group: str, **settings: Any) -> client.LitePullConsumer:
        """Makes a consumer that polls."""
        return client.LitePullConsumer(group, **self._clients.member(settings))

    def pull_consumer(self, group: str, **settings: Any) -> client.PullConsumer:
        """Makes a consumer that pulls from queues of its choice."""
        return client.PullConsumer(group, **self._clients.instance(settings))

    def admin(self, **settings: Any) -> client.Admin:
        """Makes an administrator, which uses names as they are, in no namespace."""
        return client.Admin(**{**self._clients.instance(settings), "namespace": ""})


class LocalCluster:
    """A name server and brokers in this process, for a ``with`` or an ``async with`` block.

    Args:
        options: see `ClusterSettings`: brokers, topics, groups, data, clock, ….

    Raises:
        ConfigError: an option does not exist or does not fit; on entry, an address or the data
            directory is in use.
    """

    def __init__(self, **options: Any) -> None:
        self.settings: ClusterSettings = cluster_settings(options)
        self._thread: ClusterThread | None = None

    def start(self) -> Cluster:
        """Starts the cluster for code that cannot use ``with``; `close` ends the cluster."""
        if self._thread is not None:
            raise UsageError("this cluster runs already: make another LocalCluster")
        thread, core = ClusterThread("pocketmq-cluster"), Core(self.settings)
        try:
            with _in_options():
                thread.run(core.start())
        except BaseException:
            thread.stop()
            raise
        self._thread, self._core = thread, core
        return Cluster(core, thread)

    def close(self) -> None:
        """Stops the cluster and removes its data, unless a directory was given. Idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None:
            unused = thread.call(self._core.take_unused_faults)
            thread.run(self._core.stop())
            thread.stop()
            warn_of_unused(unused)

    def __enter__(self) -> Cluster:
        return self.start()

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> AsyncCluster:
        await asyncio.to_thread(self.start)
        assert self._thread is not None
        return AsyncCluster(self._core, self._thread)

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self.close)


def warn_of_unused(faults: list[str]) -> None:
    """Warns of faults that were ordered and never fired."""
    for text in faults:
        warnings.warn(
            f"the fault {text} never fired: nothing was asked that fits its conditions; compare "
            "them with what `fired` shows of a fault without conditions",
            FaultWarning,
            stacklevel=3,
        )


@contextlib.contextmanager
def _in_options() -> Iterator[None]:
    """Turns errors of a start into errors that name the options that help.

    Raises:
        ConfigError: a port or the data directory is in use.
    """
    try:
        yield
    except CannotListenError as e:
        raise ConfigError(
            f"{e.seen}; leave namesrv_port and broker_port out, and the system chooses free ones"
        ) from e
    except DirectoryInUseError as e:
        raise ConfigError(
            f"{e.seen}: close the cluster that has it, or give this one another data=, or none, "
            "which makes a temporary directory"
        ) from e
