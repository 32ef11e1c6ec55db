"""Redrives of dead letters: planned, begun, carried out once each, changed, and told of."""

from __future__ import annotations

import asyncio
import base64
import json
import zlib
from typing import Any

import pytest
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage
from support.brokers.pop_parts import ack, pop
from support.brokers.redrive_parts import (
    DEAD,
    RETRY,
    changed,
    counts_of,
    die,
    ended,
    ordered,
    planned,
    redriven,
    redrives_of,
    refused_plan,
    results_of,
    start_of,
    started,
)
from support.store.disks import FailingFiles, refuse_changes
from support.threads import PatientClock

from pocketmq.broker.appending.stored_message import stored_in
from pocketmq.protocol import flags
from pocketmq.protocol.bodies.redrives import (
    LetterEdit,
    LetterState,
    LetterTable,
    RedrivePlan,
    RedriveState,
)
from pocketmq.protocol.requests.consuming import ConsumerSendMsgBackRequest
from pocketmq.protocol.requests.extensions.redrives import (
    ChangeRedriveRequest,
    DeadLetterStatesRequest,
    PlanRedriveRequest,
)
from pocketmq.protocol.requests.topics import DeleteTopicRequest
from pocketmq.testing.clock import VirtualClock

pytestmark = pytest.mark.usefixtures("checked")


@pytest.fixture
def clock() -> VirtualClock:
    return PatientClock()


OF_THE_MARKS = {"PQ_REDRIVE_ID": "r1", "PQ_REDRIVE_COUNT": "1"}


async def dying(stage: Stage, count: int = 3, **settings: Any) -> Client:
    client = await stage.started_with_topic(**settings)
    for number in range(count):
        await die(client, f"b{number}".encode(), TAGS=f"t{number % 2}", KEYS=f"k{number} all")
    return client


async def test_only_the_group_that_failed_gets_its_dead_letters_again(stage: Stage) -> None:
    client = await dying(stage)
    before = await client.everything(topic=DEAD)
    plan = await planned(client, ordered())
    assert (plan.count, plan.scanned, plan.targets) == (3, 3, {RETRY: 3})
    assert plan.broker_name == client.broker.config.broker_name
    assert plan.warnings == []
    redrive = await redriven(client, ordered())
    assert (redrive.state, redrive.planned, redrive.sent, redrive.refused) == ("done", 3, 3, 0)
    again = await client.everything(topic=RETRY)
    assert [m.body for m in again] == [b"b0", b"b1", b"b2"]
    for offset, (message, dead) in enumerate(zip(again, before, strict=True)):
        place = f"{plan.broker_name}:0:{offset}"
        kept = {k: v for k, v in dead.properties.items() if k not in ("DELAY", "WAIT")}
        assert message.properties == kept | OF_THE_MARKS | {"PQ_REDRIVE_FROM": place}
        assert message.properties["RETRY_TOPIC"] == TOPIC
        assert message.reconsume_times == 0
        assert message.msg_id == dead.msg_id
    after = await client.everything(topic=DEAD)
    assert [(m.body, m.properties) for m in after] == [(m.body, m.properties) for m in before]
    assert await client.max_offset(topic=TOPIC) == 3
    results = await results_of(client)
    assert [(r.offset, r.outcome, r.topic, r.to_offset) for r in results] == [
        (n, "sent", RETRY, n) for n in range(3)
    ]
    assert [r.message_id for r in results] == ["U-b0", "U-b1", "U-b2"]


async def test_a_redriven_dead_letter_is_not_selected_again(stage: Stage) -> None:
    client = await dying(stage)
    await redriven(client, ordered(selection={"from_offset": 1, "to_offset": 2}))
    counts = await counts_of(client, count=10)
    assert (counts.open, counts.redriven, counts.discarded) == (2, 1, 0)
    assert counts.states == ["open", "redriven", "open"]
    assert (await planned(client, ordered())).count == 2
    again = ordered(selection={"states": [LetterState.REDRIVEN]})
    assert (await redriven(client, again, "r2")).sent == 1
    assert [m.body for m in await client.everything(topic=RETRY)] == [b"b1", b"b1"]


@pytest.mark.parametrize(
    ("selection", "bodies"),
    [
        ({"message_ids": ["U-b1", "unknown"]}, [b"b1"]),
        ({"from_offset": 1}, [b"b1", b"b2"]),
        ({"to_offset": 1}, [b"b0"]),
        ({"queue_id": 1}, []),
        ({"key": "k2"}, [b"b2"]),
        ({"key": "k"}, []),
        ({"tags": "t1 || t9"}, [b"b1"]),
        ({"where": "TAGS = 't0' AND KEYS CONTAINS 'k2'"}, [b"b2"]),
        ({"topic": TOPIC}, [b"b0", b"b1", b"b2"]),
        ({"topic": "Other"}, []),
        ({"attempts_min": 2}, []),
        ({"attempts_min": 1, "tags": "t0"}, [b"b0", b"b2"]),
        ({"error": "no such"}, []),
        ({"states": [LetterState.DISCARDED]}, []),
        ({"since_ms": 1_700_000_005_000, "until_ms": 1_700_000_009_000}, [b"b1"]),
    ],
)
async def test_what_a_selection_takes(
    stage: Stage, clock: VirtualClock, selection: dict[str, Any], bodies: list[bytes]
) -> None:
    client = await stage.started_with_topic()
    for number in range(3):
        await die(client, f"b{number}".encode(), TAGS=f"t{number % 2}", KEYS=f"k{number} all")
        await clock.advance(5)
    assert clock.now_ms() >= 1_700_000_015_000
    order = ordered(selection=selection)
    assert (await planned(client, order)).count == len(bodies)
    assert (await redriven(client, order)).sent == len(bodies)
    assert [m.body for m in await client.everything(topic=RETRY)] == bodies


async def test_ids_of_places_select_too(stage: Stage) -> None:
    client = await dying(stage)
    dead = (await client.everything(topic=DEAD))[1]
    for name in (dead.offset_msg_id, dead.properties["ORIGIN_MESSAGE_ID"]):
        plan = await planned(client, ordered(selection={"message_ids": [name]}))
        assert [sample.offset for sample in plan.samples] == [1]


async def test_a_plan_shows_what_becomes_of_a_message(stage: Stage) -> None:
    client = await stage.started_with_topic()
    await die(client, b'{"a": 1, "b": {"c": 2, "d": 3}}', TAGS="t", x="y")
    patch = json.dumps({"a": None, "b": {"c": 5}, "e": []})
    edit = LetterEdit(
        merge_patch=patch, properties={"why": "fixed"}, removed_properties=["x"], tags="u", keys="k"
    )
    plan = await planned(client, ordered(edit=edit))
    (sample,) = plan.samples
    assert json.loads(sample.before) == {"a": 1, "b": {"c": 2, "d": 3}}
    assert json.loads(sample.after) == {"b": {"c": 5, "d": 3}, "e": []}
    assert (sample.topic, sample.refused) == (RETRY, "")
    await redriven(client, ordered(edit=edit))
    (message,) = await client.everything(topic=RETRY)
    assert json.loads(message.body) == json.loads(sample.after)
    properties = message.properties
    assert (properties["TAGS"], properties["KEYS"], properties["why"]) == ("u", "k", "fixed")
    assert properties["PQ_REDRIVE_EDITED"] == "true"
    assert "x" not in properties
    assert properties | {"PQ_REDRIVE_ID": "r1"} == properties
    shown = sample.properties_after | {"PQ_REDRIVE_ID": "r1"}
    assert shown == properties


@pytest.mark.parametrize(
    ("edit", "body"),
    [
        (LetterEdit(body="ü"), "ü".encode()),
        (LetterEdit(body_base64=base64.b64encode(b"\xff\x00").decode()), b"\xff\x00"),
    ],
)
async def test_a_body_is_replaced(stage: Stage, edit: LetterEdit, body: bytes) -> None:
    client = await dying(stage, 1)
    await redriven(client, ordered(edit=edit))
    assert [m.body for m in await client.everything(topic=RETRY)] == [body]


async def test_a_compressed_body_is_unpacked_to_be_edited_and_else_left_alone(
    stage: Stage,
) -> None:
    client = await stage.started_with_topic()
    packed = zlib.compress(b'{"n": 1}')
    compressed = flags.COMPRESSED | flags.COMPRESSION_ZLIB
    sent = await client.send(packed, sys_flag=compressed, properties="")
    (message,) = (await client.pull(sent.queue_offset)).messages
    assert message.body == b'{"n": 1}'
    await client.ask(_given_up(message.physical_offset))
    await redriven(client, ordered(edit=LetterEdit(merge_patch='{"n": 2}')), "r1")
    await redriven(client, ordered(selection={"states": [LetterState.REDRIVEN]}), "r2")
    queue_log = client.broker.store.find_log(RETRY, 0)
    assert queue_log is not None
    edited, same = stored_in(queue_log.read(0, 2, 10_000), 0)
    assert (edited.body, edited.sys_flag & flags.COMPRESSED) == (b'{"n":2}', 0)
    assert (same.body, same.sys_flag & flags.COMPRESSED) == (packed, flags.COMPRESSED)
    assert [m.body for m in await client.everything(topic=RETRY)] == [b'{"n":2}', b'{"n": 1}']


def _given_up(physical_offset: int) -> ConsumerSendMsgBackRequest:
    return ConsumerSendMsgBackRequest(offset=physical_offset, group=GROUP, delay_level=-1)


async def test_what_cannot_be_edited_is_refused_with_its_reason(stage: Stage) -> None:
    client = await dying(stage, 2)
    await die(client, b'{"n": 1}')
    order = ordered(edit=LetterEdit(merge_patch='{"n": 2}'))
    plan = await planned(client, order)
    assert sum(plan.refused.values()) == 2
    assert plan.warnings == ["2 of 3 would be refused"]
    redrive = await redriven(client, order)
    assert (redrive.state, redrive.sent, redrive.refused) == ("done", 1, 2)
    first, second, third = await results_of(client)
    assert (first.outcome, first.to_offset) == ("refused", -1)
    assert "no JSON" in first.reason
    assert (second.outcome, third.outcome, third.reason) == ("refused", "sent", "")
    counts = await counts_of(client)
    assert (counts.open, counts.redriven) == (2, 1)


@pytest.mark.parametrize("to", ["*", TOPIC])
async def test_all_groups_of_a_topic_get_what_is_sent_there(stage: Stage, to: str) -> None:
    client = await dying(stage)
    plan = await planned(client, ordered(to=to))
    assert plan.targets == {TOPIC: 3}
    assert "all groups" in plan.warnings[0]
    await redriven(client, ordered(to=to))
    found = [m for q in range(4) for m in await client.everything(queue_id=q)]
    copies = [m for m in found if "PQ_REDRIVE_ID" in m.properties]
    assert sorted(m.body for m in copies) == [b"b0", b"b1", b"b2"]
    for message in copies:
        assert not {"RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "DELAY", "WAIT"} & {*message.properties}
        assert message.topic == TOPIC
        assert message.reconsume_times == 0
    assert RETRY not in client.broker.topics or not await client.everything(topic=RETRY)


async def test_messages_of_one_sharding_key_stay_together(stage: Stage) -> None:
    client = await stage.started_with_topic()
    for number in range(8):
        await die(client, str(number).encode(), __SHARDINGKEY=f"s{number % 2}")
    await redriven(client, ordered(to=TOPIC))
    queues: dict[str, set[int]] = {}
    for queue_id in range(4):
        for message in await client.everything(queue_id=queue_id):
            if "PQ_REDRIVE_ID" in message.properties:
                queues.setdefault(message.properties["__SHARDINGKEY"], set()).add(queue_id)
    assert [len(found) for found in queues.values()] == [1, 1]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"to": "Missing"}, "there is no topic Missing on this broker"),
        ({"to": DEAD}, "is where the dead letters are already"),
        ({"to": "SCHEDULE_TOPIC_XXXX"}, "only brokers themselves write"),
        ({"rate": -1.0}, "the rate is -1.0"),
        ({"redrives_max": -1}, "must not be negative"),
        ({"selection": {"where": "a = "}}, "the filter expression is wrong at character 5"),
        ({"action": "discard", "to": TOPIC}, "takes no target"),
        ({"action": "discard", "edit": LetterEdit(body="x")}, "no edit"),
        ({"edit": LetterEdit(merge_patch="[]")}, "no JSON object"),
        ({"edit": LetterEdit(body="x", body_base64="eA==")}, "not several"),
        ({"edit": LetterEdit(body_base64="?")}, "no base64"),
        ({"edit": LetterEdit(properties={"a": "b\x01"})}, "0x01"),
        ({"edit": LetterEdit(properties={"PQ_REDRIVE_ID": "x"})}, "by the redrive itself"),
    ],
)
async def test_what_cannot_be_done_is_refused_at_once(
    stage: Stage, fields: dict[str, Any], reason: str
) -> None:
    client = await dying(stage, 1)
    refusal = await refused_plan(client, ordered(**fields))
    assert refusal.code == 29
    assert reason in refusal.remark


async def test_a_group_that_is_gone_gets_nothing(stage: Stage) -> None:
    client = await dying(stage, 1)
    refusal = await refused_plan(client, ordered(group="nobody"))
    assert "there is no group nobody" in refusal.remark


async def test_a_header_that_names_another_group_is_refused(stage: Stage) -> None:
    client = await dying(stage, 1)
    plan = await planned(client, ordered())
    request, body = start_of(plan)
    request.group = "another"
    assert "must be the order's" in (await client.refusal(request, body)).remark


async def test_a_plan_that_is_out_of_date_is_refused(stage: Stage) -> None:
    client = await dying(stage)
    plan = await planned(client, ordered())
    await redriven(client, ordered(selection={"to_offset": 1}), "other")
    refusal = await client.refusal(*start_of(plan, "late"))
    assert "have changed since the plan, 2 are selected now" in refusal.remark
    assert [r.redrive_id for r in await redrives_of(client)] == ["other"]


async def test_dead_letters_that_come_after_the_plan_are_left_out(stage: Stage) -> None:
    client = await dying(stage)
    plan = await planned(client, ordered())
    await die(client, b"later")
    await client.ask(*start_of(plan))
    assert (await ended(client)).sent == 3
    assert (await counts_of(client)).open == 1


async def test_the_same_start_twice_is_one_redrive(stage: Stage) -> None:
    client = await dying(stage)
    plan = await planned(client, ordered())
    await client.ask(*start_of(plan))
    await ended(client)
    await client.ask(*start_of(plan))
    assert len(await redrives_of(client)) == 1
    assert len(await client.everything(topic=RETRY)) == 3


@pytest.mark.parametrize("redrive_id", ["", "a b", "x" * 65, "../x"])
async def test_a_name_of_another_form_is_refused(stage: Stage, redrive_id: str) -> None:
    client = await dying(stage, 1)
    plan = await planned(client, ordered())
    assert "id is" in (await client.refusal(*start_of(plan, redrive_id))).remark


async def test_discarded_and_opened_again(stage: Stage) -> None:
    client = await dying(stage)
    discard = ordered(action="discard", selection={"to_offset": 2}, reason="known bug")
    redrive = await redriven(client, discard)
    assert (redrive.discarded, redrive.sent, redrive.order.reason) == (2, 0, "known bug")
    counts = await counts_of(client)
    assert (counts.open, counts.discarded) == (1, 2)
    assert [r.outcome for r in await results_of(client)] == ["discarded", "discarded"]
    reopen = ordered(action="reopen", selection={"states": ["discarded"], "to_offset": 1})
    assert (await redriven(client, reopen, "r2")).reopened == 1
    assert (await counts_of(client, count=3)).states == ["open", "discarded", "open"]
    assert not (await client.pull(topic=RETRY)).messages


async def test_a_message_that_dies_again_and_again_is_not_sent_for_ever(stage: Stage) -> None:
    client = await stage.started_with_topic()
    await die(client, b"loop")
    for times in range(1, 4):
        redrive = await redriven(client, ordered(), f"r{times}")
        assert redrive.sent == 1
        message = (await client.everything(topic=RETRY))[-1]
        assert message.properties["PQ_REDRIVE_COUNT"] == str(times)
        await client.ask(_given_up(message.physical_offset))
    assert (await redriven(client, ordered(), "r4")).refused == 1
    (result,) = await results_of(client, "r4")
    assert "was sent again 3 times already, redrivesMax is 3" in result.reason
    assert (await redriven(client, ordered(redrives_max=4), "r5")).sent == 1


# -- while it runs ----------------------------------------------------------------------------


async def test_a_rate_is_kept_and_the_redrive_pauses_and_goes_on(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await dying(stage, 30)
    await started(client, ordered(rate=10.0))
    await clock.advance(0.95)
    assert len(await client.everything(topic=RETRY)) == 10
    assert (await changed(client, "pause")).state == "paused"
    (redrive,) = await redrives_of(client)
    assert (redrive.state, redrive.sent) == ("paused", 10)
    await clock.advance(60)
    assert len(await client.everything(topic=RETRY)) == 10
    assert (await changed(client, "resume")).state == "running"
    await clock.advance(0.55)
    assert len(await client.everything(topic=RETRY)) == 16
    assert (await changed(client, "cancel")).state == "cancelled"
    await clock.advance(60)
    assert len(await client.everything(topic=RETRY)) == 16
    counts = await counts_of(client)
    assert (counts.open, counts.redriven) == (14, 16)
    refusal = await client.refusal(_change("resume"))
    assert "is cancelled already" in refusal.remark
    assert (await redriven(client, ordered(), "r2")).sent == 14


def _change(change: str, redrive_id: str = "r1") -> ChangeRedriveRequest:
    return ChangeRedriveRequest(group=GROUP, redrive_id=redrive_id, change=change)


async def test_one_redrive_of_a_group_at_a_time(stage: Stage) -> None:
    client = await dying(stage)
    await started(client, ordered(rate=0.01))
    plan = await planned(client, ordered())
    refusal = await client.refusal(*start_of(plan, "r2"))
    assert "the redrive r1 of group-a is running" in refusal.remark
    await changed(client, "cancel")
    assert (await redriven(client, ordered(), "r2")).state == "done"


async def test_too_many_refused_messages_pause_a_redrive(stage: Stage) -> None:
    client = await dying(stage, 5)
    order = ordered(edit=LetterEdit(merge_patch="{}"), failures_max=2, rate=10.0)
    await started(client, order)
    for _ in range(20):
        await stage.clock.advance(0.1)
    redrive = await ended(client)
    assert redrive.state is RedriveState.PAUSED
    assert "2 messages were refused, failuresMax is 2" in redrive.why
    await changed(client, "resume")
    for _ in range(20):
        await stage.clock.advance(0.1)
    redrive = await ended(client)
    assert (redrive.state, redrive.refused) == ("done", 5)


async def test_a_disk_that_takes_no_writes_holds_a_redrive_up(
    stage: Stage, clock: VirtualClock
) -> None:
    files = FailingFiles()
    client = await dying(stage, 3, files=files)
    plan = await planned(client, ordered())
    files.fail_after(0, failures=2)
    await client.ask(*start_of(plan))
    for _ in range(10):
        await clock.advance(1)
    redrive = await ended(client)
    assert (redrive.state, redrive.sent, redrive.why) == ("done", 3, "")
    assert [m.body for m in await client.everything(topic=RETRY)] == [b"b0", b"b1", b"b2"]


async def test_a_topic_that_is_deleted_takes_its_marks_along(stage: Stage) -> None:
    client = await dying(stage)
    await redriven(client, ordered())
    await client.ask(DeleteTopicRequest(topic=DEAD))
    assert (await counts_of(client)).redriven == 0
    await die(client, b"new")
    assert (await counts_of(client, count=1)).states == ["open"]
    assert (await redriven(client, ordered(), "r2")).sent == 1


async def test_a_redrive_ends_when_its_dead_letters_are_deleted(
    stage: Stage, clock: VirtualClock
) -> None:
    client = await dying(stage, 30)
    await started(client, ordered(rate=1.0))
    await changed(client, "pause")
    await client.ask(DeleteTopicRequest(topic=DEAD))
    await changed(client, "resume")
    redrive = await ended(client)
    assert (redrive.state, redrive.why) == (
        "failed", "its dead letters were deleted with their topic",
    )  # fmt: skip


async def test_many_pages_of_results(stage: Stage) -> None:
    client = await dying(stage, 200)
    assert (await redriven(client, ordered())).sent == 200
    results = await results_of(client)
    assert [r.offset for r in results] == list(range(200))
    assert {r.to_offset for r in results} == set(range(200))


async def test_a_popped_message_goes_back_to_where_its_group_pops(stage: Stage) -> None:
    client = await stage.started_with_topic()
    client.make_group()
    await client.send(b"popped", properties="UNIQ_KEY\x01U\x02")
    (handed,) = (await pop(client)).messages
    await client.ask(_given_up(handed.message.physical_offset))
    await ack(client, handed)
    plan = await planned(client, ordered())
    assert plan.targets == {f"%RETRY%{GROUP}_{TOPIC}": 1}
    await redriven(client, ordered())
    (again,) = (await pop(client)).messages
    assert (again.body, again.message.properties["PQ_REDRIVE_COUNT"]) == (b"popped", "1")


async def test_old_redrives_of_a_group_are_forgotten(stage: Stage) -> None:
    client = await dying(stage, 1)
    order = ordered(selection={"states": list(LetterState)})
    for number in range(12):
        await redriven(client, order, f"r{number}")
        await stage.clock.advance(1)
    known = [redrive.redrive_id for redrive in await redrives_of(client)]
    assert known == [f"r{number}" for number in range(11, 1, -1)]


async def test_a_plan_groups_by_the_error_of_the_last_attempt(stage: Stage) -> None:
    client = await stage.started_with_topic()
    for number, error in enumerate(("ValueError: a", "ValueError: a", "KeyError: b\x01\x02", "")):
        sent = await client.send(b"%d" % number)
        (message,) = (await client.pull(sent.queue_offset)).messages
        request = _given_up(message.physical_offset)
        request.last_error = error or None
        await client.ask(request)
    plan = await planned(client, ordered())
    assert plan.errors == {"ValueError: a": 2, "KeyError: b  ": 1}
    assert [sample.error for sample in plan.samples] == [*["ValueError: a"] * 2, "KeyError: b  "]
    assert {(s.attempts, s.origin, s.state) for s in plan.samples} == {(1, TOPIC, "open")}
    assert (await planned(client, ordered(selection={"error": "ValueError"}))).count == 2
    answer = await client.ask(
        PlanRedriveRequest(group=GROUP, samples=1), ordered().encode(quote_keys=True)
    )
    assert len(RedrivePlan.decode(answer.body).samples) == 1


@pytest.mark.parametrize("change", ["pause", "cancel"])
async def test_a_redrive_that_is_held_up_can_be_stopped_when_the_disk_is_well_again(
    stage: Stage, clock: VirtualClock, change: str
) -> None:
    files = FailingFiles()
    client = await dying(stage, 3, files=files)
    plan = await planned(client, ordered())
    metadata = client.broker.store.metadata
    await client.ask(*start_of(plan))
    refuse_changes(metadata, "state")
    stopping = asyncio.ensure_future(changed(client, change))
    for _ in range(5):
        await clock.advance(1)
    assert not stopping.done()
    metadata._db.execute("DROP TRIGGER refuse_state")
    for _ in range(5):
        await clock.advance(1)
    redrive = await stopping
    assert redrive.state in ("done", {"pause": "paused", "cancel": "cancelled"}[change])
    if redrive.state == "paused":
        await changed(client, "resume")
    bodies = [message.body for message in await client.everything(topic=RETRY)]
    assert bodies == [b"b0", b"b1", b"b2"][: len(bodies)]
    assert (await counts_of(client)).redriven == len(bodies)


async def test_all_groups_are_counted(stage: Stage) -> None:
    client = await dying(stage, 2)
    for number in range(45):
        client.broker.topics.create_for_group(f"%DLQ%g{number:02}", 1)
    answer = await client.ask(DeadLetterStatesRequest())
    groups = LetterTable.decode(answer.body).groups
    assert [counts.group for counts in groups] == sorted([GROUP, *(f"g{n:02}" for n in range(45))])
    assert {counts.group: counts.open for counts in groups if counts.open} == {GROUP: 2}
