"""Who is told of queues, and when."""

from __future__ import annotations

import threading

import pytest
from support.peers.client import Cluster, done

from pocketmq.client import MessageQueue
from pocketmq.client.rebalance.allocators import Allocation
from pocketmq.client.rebalance.queue_listeners import (
    MessageQueueListeners,
    TopicWatch,
    call_listener,
)

QUEUES = tuple(MessageQueue("T", "a", i) for i in range(3))


async def test_plain_functions_run_in_a_thread() -> None:
    threads: list[threading.Thread] = []
    await call_listener(lambda *heard: threads.append(threading.current_thread()), "T", [])
    assert threads[0] is not threading.current_thread()


async def test_an_object_with_a_coroutine_is_called_on_the_loop() -> None:
    class Heard:
        words: tuple[object, ...] = ()

        async def __call__(self, *words: object) -> None:
            assert threading.current_thread() is threading.main_thread()
            self.words = words

    heard = Heard()
    await call_listener(heard, "T", [])
    assert heard.words == ("T", [])


async def test_errors_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fails(topic: str) -> None:
        raise KeyError(topic)

    await call_listener(fails, "T")
    assert "KeyError: 'T'" in caplog.text


async def test_only_changes_of_the_own_share_are_told() -> None:
    heard: list[int] = []

    async def listener(topic: str, total: list[MessageQueue], own: list[MessageQueue]) -> None:
        assert (topic, total) == ("T", list(QUEUES))
        heard.append(len(own))

    listeners = MessageQueueListeners()
    listeners.set("T", listener)
    for own in ((), QUEUES[:2], QUEUES[:2], None, QUEUES[1::-1], QUEUES, ()):
        await listeners.allocated({"T": Allocation(own, own is not None, QUEUES)})
    assert heard == [2, 3, 0]
    await listeners.allocated({"T": Allocation(QUEUES, True, QUEUES)})
    await listeners.allocated({})  # unsubscribed, and subscribed again
    await listeners.allocated({"T": Allocation(QUEUES, True, QUEUES)})
    assert heard == [2, 3, 0, 3, 3]
    listeners.set("T", None)
    await listeners.allocated({"T": Allocation((), True, QUEUES)})
    assert heard == [2, 3, 0, 3, 3]


async def test_a_topic_that_comes_and_goes(cluster: Cluster) -> None:
    await cluster.add_namesrv()
    await cluster.add_broker("a")
    heard: list[int] = []

    async def listener(topic: str, queues: list[MessageQueue]) -> None:
        heard.append(len(queues))

    client = cluster.client()
    await client.start()
    watch = TopicWatch(client.routes)
    await done(watch.add("T", listener))
    await done(watch.check())
    assert heard == []
    cluster.topic("T", "a", queues=3)
    await done(watch.check())
    await done(watch.check())
    del cluster.routes["T"]
    await done(watch.check())
    assert heard == [3, 0]


async def test_without_a_name_server_nothing_has_changed(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    peer = await cluster.add_namesrv()
    await cluster.add_broker("a")
    cluster.topic("T", "a", queues=3)
    heard: list[int] = []

    async def listener(topic: str, queues: list[MessageQueue]) -> None:
        heard.append(len(queues))

    client = cluster.client()
    await client.start()
    watch = TopicWatch(client.routes)
    await done(watch.add("T", listener))
    await done(peer.server.close())
    await done(watch.check())
    assert heard == []
    assert "the queues of T are not known" in caplog.text
