from __future__ import annotations

from pocketmq.protocol.bodies.locks import LockBatchBody, LockBatchResult
from pocketmq.protocol.messages.message import MessageQueue

QUEUES = [MessageQueue("T", "broker-a", 0), MessageQueue("T", "broker-a", 1)]
KEYS = (
    b'[{"brokerName":"broker-a","queueId":0,"topic":"T"},'
    b'{"brokerName":"broker-a","queueId":1,"topic":"T"}]'
)
REQUEST = (
    b'{"clientId":"c1","consumerGroup":"CG","mqSet":%b,"onlyThisBroker":false}' % KEYS
)  # fmt: skip


def test_the_bytes_of_the_real_client() -> None:
    body = LockBatchBody.of("CG", "c1", QUEUES)
    assert body.encode() == REQUEST
    assert LockBatchBody.decode(REQUEST) == body
    assert body.queues == QUEUES


def test_the_bytes_of_the_real_broker() -> None:
    answer = LockBatchResult.of(QUEUES)
    assert answer.encode() == b'{"lockOKMQSet":%b}' % KEYS
    assert LockBatchResult.decode(answer.encode()).queues == QUEUES
    assert LockBatchResult.decode(b'{"lockOKMQSet":[]}').queues == []
