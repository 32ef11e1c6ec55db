from __future__ import annotations

from pocketmq.protocol.bodies.clients import Subscription
from pocketmq.protocol.bodies.queries import ConsumeQueueEntries, ConsumeQueueEntry


def test_entries_as_apaches_broker_writes_them() -> None:
    body = (
        b'{"filterData":"g@T is not online!","maxQueueIndex":6,"minQueueIndex":1,"queueData":[{'
        b'"eval":false,"physicOffset":231,"physicSize":232,"tagsCode":65}]}'
    )
    read = ConsumeQueueEntries.decode(body)
    assert read == ConsumeQueueEntries(
        filter_data="g@T is not online!",
        max_queue_index=6,
        min_queue_index=1,
        queue_data=[ConsumeQueueEntry(physic_offset=231, physic_size=232, tags_code=65)],
    )


def test_a_body_comes_back_as_it_was() -> None:
    body = ConsumeQueueEntries(
        subscription_data=Subscription.of_tags("T", "A || B", 1),
        queue_data=[ConsumeQueueEntry(msg="gone", eval=True)],
    )
    assert ConsumeQueueEntries.decode(body.encode()) == body
