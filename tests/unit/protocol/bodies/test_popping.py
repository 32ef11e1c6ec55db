"""Bodies of requests about popped messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.bodies.popping import (
    POP,
    AssignedQueue,
    AssignedQueues,
    Assignment,
    BatchAck,
    BatchAckEntry,
    RequestMode,
    RequestModes,
)
from pocketmq.protocol.bodies.topics import QueueKey


def test_bodies_of_rocketmq_are_read() -> None:
    asked = (
        b'{"clientId":"c1","consumerGroup":"CG","messageModel":"CLUSTERING","strategyName":"AVG",'
        b'"topic":"T"}'
    )
    assert Assignment.decode(asked).encode() == asked
    answer = (
        b'{"messageQueueAssignments":[{"messageQueue":{"brokerName":"broker-a","queueId":0,'
        b'"topic":"T"},"mode":"PULL"}]}'
    )
    queue = QueueKey(broker_name="broker-a", queue_id=0, topic="T")
    assigned = AssignedQueues(message_queue_assignments=[AssignedQueue(message_queue=queue)])
    assert AssignedQueues.decode(answer) == assigned
    assert assigned.encode() == answer
    mode = b'{"consumerGroup":"CG","mode":"POP","popShareQueueNum":0,"topic":"T"}'
    assert RequestMode.decode(mode) == RequestMode(topic="T", consumer_group="CG", mode=POP)
    modes = RequestModes(message_request_mode_map={"T": {"CG": RequestMode.decode(mode)}})
    assert RequestModes.decode(modes.encode()) == modes


def test_a_batch_of_acknowledgements() -> None:
    body = (
        b'{"acks":[{"b":"CQI=","c":"CG","it":60000,"pt":1700000000000,"q":1,"r":"0","rq":2,'
        b'"so":100,"t":"T"}],"brokerName":"broker-a"}'
    )
    batch = BatchAck.decode(body)
    (entry,) = batch.acks
    assert entry.offsets == [100, 103, 109]
    assert BatchAckEntry.bits(100, [109, 100, 103]) == entry.b
    assert batch.encode() == body


@given(st.integers(0, 2**62), st.sets(st.integers(0, 500)))
def test_bits_are_the_offsets(start: int, distances: set[int]) -> None:
    """Invariant: the offsets of the bits of some offsets are these."""
    offsets = {start + distance for distance in distances}
    entry = BatchAckEntry(c="g", t="t", so=start, b=BatchAckEntry.bits(start, offsets))
    assert set(entry.offsets) == offsets
