"""Transactions on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

import asyncio

from support.scenarios.parts import FROM_FIRST, Inbox, fresh

from pocketmq.client import (
    Admin,
    LocalTransactionState,
    Message,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
)
from pocketmq.protocol.messages.ids import parse_offset_msg_id


class Ledger:
    """A transaction listener that does and says what each message's tag asks for."""

    def __init__(self) -> None:
        self.executed: list[str | None] = []
        self.checked: list[ReceivedMessage] = []

    async def execute_local_transaction(
        self, message: Message, arg: object
    ) -> LocalTransactionState:
        self.executed.append(message.unique_key)
        assert arg == message.body
        if message.tags == "raise":
            raise RuntimeError("the application's database is gone")
        return LocalTransactionState[message.tags or ""]

    def check_local_transaction(self, message: ReceivedMessage) -> LocalTransactionState:
        self.checked.append(message)
        return LocalTransactionState[message.properties["later"]]


async def transactions(namesrv: str) -> None:
    """Committed, rolled back and unknown at first; what is open is asked about."""
    topic, group, inbox, ledger = fresh("topic"), fresh("pg"), Inbox(), Ledger()
    kinds = {
        b"committed": ("COMMIT", "COMMIT"),
        b"rolled back": ("ROLLBACK", "ROLLBACK"),
        b"committed later": ("UNKNOWN", "COMMIT"),
        b"rolled back later": ("UNKNOWN", "ROLLBACK"),
        b"committed after a failure": ("raise", "COMMIT"),
        b"large" * 10_000: ("COMMIT", "COMMIT"),
    }
    delivered = {body for body, (_, later) in kinds.items() if later == "COMMIT"}
    async with (
        Admin(namesrv) as admin,
        PushConsumer(
            fresh("cg"), namesrv, listener=inbox, consume_from_where=FROM_FIRST
        ) as consumer,
        TransactionProducer(group, namesrv, listener=ledger) as producer,
    ):
        await admin.create_topic(topic, 2)
        consumer.subscribe(topic)
        results = {}
        for body, (tags, later) in kinds.items():
            message = Message(topic, body, tags=tags, properties={"later": later})
            results[body] = await producer.send_in_transaction(message, body)
        assert results[b"committed"].local_state is LocalTransactionState.COMMIT
        assert results[b"committed after a failure"].local_state is LocalTransactionState.UNKNOWN
        await inbox.has(lambda messages: {m.body for m in messages} >= delivered)
        assert {m.body for m in inbox.messages} == delivered
        found = {m.body: m for m in inbox.messages}
        for body, message in found.items():
            result, kind = results[body], kinds[body]
            assert message.msg_id == result.msg_id == result.transaction_id
            assert message.properties["__transactionId__"] == message.msg_id
            assert message.properties["PGROUP"] == group
            assert message.sys_flag & 0xC == 0x8
            assert (message.queue_id, message.tags) == (result.queue.queue_id, kind[0])
            assert message.properties["TRAN_MSG"] == "true"
            assert not {"REAL_TOPIC", "REAL_QID"} & message.properties.keys()
            half = parse_offset_msg_id(result.offset_msg_id).physical_offset
            if kind[0] != "COMMIT":  # its end names the copy that the broker asked about
                assert message.prepared_transaction_offset != half
        # On a slow machine others are asked about as well, before their ends have come.
        asked = {b"committed later", b"rolled back later", b"committed after a failure"}
        while not asked <= {m.body for m in ledger.checked}:
            await asyncio.to_thread(lambda: None)
        assert {m.topic for m in ledger.checked} == {topic}
        assert {m.unique_key for m in ledger.checked} <= set(ledger.executed)
