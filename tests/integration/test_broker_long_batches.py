"""Batches of very many messages, which are handled in portions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from support.brokers.broker_parts import TOPIC, Client, Stage, send_request, tagged

from pocketmq.broker.handlers.sending import long_batches
from pocketmq.broker.handlers.sending.long_batches import AT_ONCE_COUNT_MAX
from pocketmq.broker.work_share import WorkShare
from pocketmq.protocol.messages.batch import encode_batch
from pocketmq.protocol.requests.sending import SendMessageResponse

COUNT = 3 * AT_ONCE_COUNT_MAX

Entries = list[tuple[int, bytes, bytes]]


def entries_of(count: int, name: str = "m") -> Entries:
    """Messages of several sizes, every other with tags."""
    return [
        (n, f"{name} {n}".encode(), tagged(f"T{n}").encode() if n % 2 else b"")
        for n in range(count)
    ]


async def send_batch(client: Client, entries: Entries, queue_id: int = 0) -> SendMessageResponse:
    request = send_request(queue_id=queue_id, batch=True)
    return (await client.ask(request, encode_batch(entries))).read(SendMessageResponse)


async def read_all(client: Client) -> Entries:
    """Everything in queue 0 as it was sent; checks places and times on the way."""
    messages = await client.everything()
    assert [m.queue_offset for m in messages] == list(range(len(messages)))
    stamps = [m.store_timestamp for m in messages]
    assert stamps == sorted(stamps)
    return [
        (m.flag, m.body, tagged(m.properties["TAGS"]).encode() if "TAGS" in m.properties else b"")
        for m in messages
    ]


async def test_a_long_batch_becomes_neighbours_as_any_other(client: Client) -> None:
    await client.send(b"before")
    entries = entries_of(COUNT)
    answer = await send_batch(client, entries)
    assert (answer.queue_id, answer.queue_offset) == (0, 1)
    assert (await read_all(client))[1:] == entries
    ids = answer.msg_id.split(",")
    assert len(ids) == COUNT
    for offset in (1, COUNT // 2, COUNT):
        (message, *_) = (await client.pull(offset)).messages
        assert message.offset_msg_id == ids[offset - 1]
        assert message.store_host == client.broker.address
        assert message.born_host.startswith("127.0.0.1:")
    tagged = await client.pull(COUNT - 10, subscription=f"T{COUNT - 3}")
    assert tagged.bodies == [f"m {COUNT - 3}".encode()]


async def test_what_others_send_meanwhile_stands_before_it(
    client: Client, stage: Stage, turns: list[Callable[[], object]]
) -> None:
    other = stage.client(client.broker)
    sent: list[asyncio.Future[SendMessageResponse]] = []
    turns += [lambda: sent.append(asyncio.ensure_future(other.send(b"other")))] * 3
    answer = await send_batch(client, entries_of(COUNT))
    assert len(await asyncio.gather(*sent)) == 3
    stored = await read_all(client)
    first = answer.queue_offset
    assert 0 < first <= 3
    assert stored[first : first + COUNT] == entries_of(COUNT)
    assert len(stored) == COUNT + 3


async def test_long_batches_of_several_clients_follow_each_other(
    client: Client, stage: Stage
) -> None:
    other = stage.client(client.broker)
    firsts = await asyncio.gather(
        send_batch(client, entries_of(COUNT, "a")), send_batch(other, entries_of(COUNT, "b"))
    )
    assert sorted(answer.queue_offset for answer in firsts) == [0, COUNT]
    names = sorted("ab", key=lambda name: firsts["ab".index(name)].queue_offset)
    stored = await read_all(client)
    assert stored == [entry for name in names for entry in entries_of(COUNT, name)]


async def test_requests_behind_a_long_batch_keep_their_order(client: Client) -> None:
    long = asyncio.ensure_future(send_batch(client, entries_of(COUNT)))
    behind = asyncio.ensure_future(client.send(b"behind"))
    assert (await behind).queue_offset == COUNT
    await long


@pytest.mark.parametrize(
    ("last", "code", "reason"),
    [
        ((0, b"x", b"k\x01\xff\x02"), 13, f"message {COUNT} of the batch are no UTF-8"),
        ((0, b"x", b"DELAY\x011\x02"), 13, "property DELAY"),
        (None, 1, f"ends inside the entry at byte {len(encode_batch(entries_of(COUNT)))}"),
    ],
)
async def test_nothing_is_stored_if_the_last_message_is_bad(
    client: Client, last: tuple[int, bytes, bytes] | None, code: int, reason: str
) -> None:
    body = encode_batch(entries_of(COUNT))
    body += b"\0" if last is None else encode_batch([last])
    refusal = await client.refusal(send_request(batch=True), body)
    assert refusal.code == code
    assert reason in refusal.remark
    assert (await client.send()).queue_offset == 0, "nothing of it waits in memory"


async def test_a_topic_that_goes_meanwhile_gets_nothing(
    client: Client, turns: list[Callable[[], object]]
) -> None:
    turns += [lambda: None] * 3 + [lambda: client.broker.topics.remove(TOPIC)]
    request = send_request(batch=True, default_topic="none")
    assert (await client.refusal(request, encode_batch(entries_of(COUNT)))).code == 17
    assert client.broker.store.queue_log(TOPIC, 0).next_offset == 0


async def test_a_queue_that_the_broker_draws(client: Client) -> None:
    answer = await send_batch(client, entries_of(COUNT), queue_id=-1)
    messages = await client.everything(queue_id=answer.queue_id)
    assert [m.queue_id for m in messages] == [answer.queue_id] * COUNT


async def test_numbers_that_do_not_fit_into_a_record(client: Client) -> None:
    request = send_request(batch=True, born_timestamp=1 << 63)
    assert (await client.refusal(request, encode_batch(entries_of(COUNT)))).code == 13


async def test_a_batch_waits_for_its_turn_if_enough_is_stored_in_this_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited = []
    turn = WorkShare.turn

    async def noted_turn(share: WorkShare) -> None:
        waited.append(share.left)
        await turn(share)

    monkeypatch.setattr(WorkShare, "turn", noted_turn)
    batches = [entries_of(AT_ONCE_COUNT_MAX // 2, f"{n}") for n in range(16)]
    answers = await asyncio.gather(*(send_batch(client, batch) for batch in batches))
    assert [answer.queue_offset for answer in answers] == [
        n * AT_ONCE_COUNT_MAX // 2 for n in range(16)
    ]
    assert waited
    assert await read_all(client) == [entry for batch in batches for entry in batch]


async def test_too_many_long_batches_at_a_time_are_refused(
    client: Client, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(long_batches, "LONG_SIZE_MAX", 1)
    other = stage.client(client.broker)
    body = encode_batch(entries_of(COUNT))
    answers = await asyncio.gather(
        client.call(send_request(batch=True), body), other.call(send_request(batch=True), body)
    )
    assert sorted(answer.code for answer in answers) == [0, 2], "one is stored however large it is"
    assert len(await client.everything()) == COUNT
