"""The way into the logs: what is encoded, how appends are answered, and what the index says."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.store.stores import HOST, SMALL, Outcome, messages, open_store

from pocketmq.broker.appending.appender import Appender, is_stored
from pocketmq.broker.appending.stored_message import new_message, read_stored
from pocketmq.broker.store.disk.errors import StoreError, WriteFailedError
from pocketmq.broker.store.log.queue_log import WRITTEN
from pocketmq.broker.store.log.scan import record_tags_code
from pocketmq.broker.store.log.segment import ENTRY
from pocketmq.broker.store.writing.flusher import FlushTimeoutError
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.messages.properties import tags_code
from pocketmq.protocol.names import names
from pocketmq.protocol.requests.sending import SendMessageRequest
from pocketmq.testing.clock import VirtualClock

TAGGED = b"TAGS\x01x\x02"


def request_of(**fields: int) -> SendMessageRequest:
    return SendMessageRequest(
        producer_group="g", topic="Orders", default_topic="", default_topic_queue_nums=1,
        queue_id=0, sys_flag=0, born_timestamp=5, flag=fields.get("flag", 0),
    )  # fmt: skip


async def test_what_is_sent_is_stored_as_the_request_says(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store, outcome = open_store(tmp_path / "data", clock, SMALL), Outcome()
    queue_log = store.queue_log("Orders", 0)
    Appender(store).append_sent(
        queue_log, queue_log.next_physical_offset, request_of(flag=7), b"body", HOST, 0, TAGGED,
        tags_code("x"), HOST, outcome.tell, WRITTEN,
    )  # fmt: skip
    assert not outcome.is_told
    store.commit()
    assert outcome.is_stored
    (message,) = messages(queue_log)
    assert (message.body, message.flag, message.tags) == (b"body", 7, "x")
    assert message.store_timestamp == clock.now_ms()
    await store.close()


async def test_a_number_that_does_not_fit_takes_no_place(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store, outcome = open_store(tmp_path / "data", clock, SMALL), Outcome()
    queue_log, appender = store.queue_log("Orders", 0), Appender(store)
    with pytest.raises(ResponseError, match="does not fit") as caught:
        appender.append_sent(
            queue_log, queue_log.next_physical_offset, request_of(flag=1 << 40), b"body", HOST, 0,
            b"", 0, HOST, outcome.tell, WRITTEN,
        )  # fmt: skip
    assert caught.value.code == 13
    message = new_message(1 << 70, HOST, HOST, b"body", b"")
    with pytest.raises(StoreError):
        appender.append_message(queue_log, message, outcome.tell)
    store.commit()
    assert not outcome.is_told
    assert queue_log.next_offset == 0
    await store.close()


@pytest.mark.parametrize(
    ("topic", "code"),
    [("Orders", tags_code("x")), (names.SCHEDULE_TOPIC, 77), (names.HALF_TOPIC, 77)],
)
async def test_the_index_holds_what_recovery_would_make_of_the_record(
    tmp_path: Path, clock: VirtualClock, topic: str, code: int
) -> None:
    store, outcome = open_store(tmp_path / "data", clock, SMALL), Outcome()
    queue_log = store.queue_log(topic, 0)
    Appender(store).append_message(
        queue_log,
        new_message(5, HOST, HOST, b"body", TAGGED, flag=3),
        outcome.tell,
        store_ms=clock.now_ms() + 9,
        prepared_transaction_offset=77,
    )
    store.commit()
    assert outcome.is_stored
    ((_, _, indexed),) = ENTRY.iter_unpack(queue_log.read_entries(0, 1))
    record = queue_log.read(0, 1, 1000).data
    assert indexed == record_tags_code(record, 0) == code
    message = read_stored(record)
    assert (message.topic, message.flag, message.body) == (topic, 3, b"body")
    assert message.store_timestamp == clock.now_ms() + 9
    assert message.prepared_transaction_offset == 77
    await store.close()


async def test_records_that_are_encoded_already_share_a_callback(
    tmp_path: Path, clock: VirtualClock
) -> None:
    store, outcome = open_store(tmp_path / "data", clock, SMALL), Outcome()
    first = store.queue_log("Orders", 0)
    Appender(store).append_message(
        first, new_message(5, HOST, HOST, b"body", b""), outcome.tell, WRITTEN
    )
    store.commit()
    record, entry = first.read_with_entries(0, 1, 1000)
    second, copied = store.queue_log("Copies", 0), Outcome()
    Appender(store).append_records(second, record, entry, 1, copied.tell)
    assert second.next_offset == 1
    store.commit()
    assert copied.is_stored
    assert second.read_with_entries(0, 1, 1000) == (record, entry)
    await store.close()


@pytest.mark.parametrize(
    ("error", "stored"),
    [
        (None, True),
        (FlushTimeoutError("slow"), True),
        (WriteFailedError("broken"), False),
        (StoreError("deleted"), False),
    ],
)
def test_a_record_whose_flush_takes_long_is_stored(error: StoreError | None, stored: bool) -> None:
    assert is_stored(error) is stored
