"""RocketMQ 5's gRPC service of a broker: every rpc, its refusals, and what survives a client."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import grpc
import grpc.aio
import pytest
import pytest_asyncio
from support.brokers.broker_parts import GROUP, TOPIC, Client, Stage
from support.brokers.grpc_parts import GrpcClient, make_group, make_topic, message, signed
from support.peers.transport import until

from pocketmq.auth.rights.policies import Acl, Action, Decision, PolicyEntry
from pocketmq.auth.users import User
from pocketmq.broker import Broker
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.bodies.groups import ConsumeDirectlyResult, RunningInfo
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.messages.ids import offset_msg_id
from pocketmq.protocol.names.names import dlq_topic, pop_retry_topic
from pocketmq.protocol.requests.groups import ConsumeDirectlyRequest, RunningInfoRequest
from pocketmq.proxy.acknowledging import ACKS_OF_CALL_MAX
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.standalone.config import ProxyConfig
from pocketmq.proxy.standalone.server import Proxy
from pocketmq.testing.clock import START_MS, VirtualClock, settle

DELAYED, ORDERED, HALF, MIXED = "Delayed", "Ordered", "Half", "Mixed"
INVISIBLE_S = 10


class Scene:
    """A broker with a gRPC endpoint, and its clients.

    Attributes:
        broker: the broker.
        client: of it, over gRPC.
        remote: of it, over remoting.
    """

    def __init__(
        self, stage: Stage, stack: AsyncExitStack, *, is_behind_proxy: bool = False
    ) -> None:
        self._stage, self._stack = stage, stack
        self.is_behind_proxy, self._endpoint = is_behind_proxy, ""
        self.broker: Broker
        self.client: GrpcClient
        self.remote: Client

    async def start(self, **settings: Any) -> None:
        """Starts the broker, with a topic of each type, and perhaps a proxy before it."""
        clock = self._stage.clock
        if self.is_behind_proxy:
            config = NamesrvConfig(listen_port=0, bind_address="127.0.0.1")
            server = await self._stack.enter_async_context(NameServer(config, clock))
            proxy = Proxy(ProxyConfig(namesrv_addr=server.address, grpc_server_port=0), clock)
            await self._stack.enter_async_context(proxy)
            self._endpoint = proxy.address
            settings["namesrv_addr"] = server.address
        self.remote = await self._stage.start(grpc_server_port=0, **settings)
        self.broker = self.remote.broker
        for name, kind in (
            (TOPIC, "NORMAL"), (DELAYED, "DELAY"), (ORDERED, "FIFO"), (HALF, "TRANSACTION"),
            (MIXED, "MIXED"),
        ):  # fmt: skip
            make_topic(self.broker, name, kind)
        self.client = self.grpc_client()

    def grpc_client(self, client_id: str = "client-1", **metadata: str) -> GrpcClient:
        """A further client over gRPC."""
        client = GrpcClient(self.broker, client_id, metadata, self._endpoint)
        self._stack.push_async_callback(client.close)
        return client

    @property
    def in_flight(self) -> int:
        """Messages that consumers have and have not acknowledged."""
        return self.broker.parts.popping.queues.count

    def has_revived(self, count: int) -> bool:
        """Whether so many messages came again."""
        return self.revived == count

    @property
    def revived(self) -> int:
        """Messages that came again."""
        return self.broker.parts.popping.revival.count


@pytest_asyncio.fixture(params=["endpoint", "proxy"])
async def scene(stage: Stage, request: pytest.FixtureRequest) -> AsyncIterator[Scene]:
    async with AsyncExitStack() as stack:
        scene = Scene(stage, stack, is_behind_proxy=request.param == "proxy")
        await scene.start()
        yield scene


# -- routes ---------------------------------------------------------------------------------------


async def test_a_route_names_the_address_that_the_client_uses(scene: Scene) -> None:
    endpoints = pb.Endpoints(
        scheme=pb.DOMAIN_NAME, addresses=[pb.Address(host="broker.example", port=4444)]
    )
    request = pb.QueryRouteRequest(topic=pb.Resource(name=ORDERED), endpoints=endpoints)
    answer = await scene.client.ask(request, pb.QueryRouteResponse)
    assert answer.status.code == pb.OK
    assert [queue.id for queue in answer.message_queues] == [0, 1]
    for queue in answer.message_queues:
        assert queue.permission == pb.READ_WRITE
        assert (queue.broker.name, queue.broker.endpoints) == ("broker-a", endpoints)
        assert list(queue.accept_message_types) == [pb.FIFO]


@pytest.mark.parametrize(
    ("topic", "code"),
    [("nowhere", pb.TOPIC_NOT_FOUND), ("a b", pb.ILLEGAL_TOPIC), ("", pb.ILLEGAL_TOPIC),
     ("rmq_sys_pop_journal", pb.ILLEGAL_TOPIC)],
)  # fmt: skip
async def test_a_route_of_no_topic(scene: Scene, topic: str, code: pb.Code) -> None:
    request = pb.QueryRouteRequest(topic=pb.Resource(name=topic))
    answer = await scene.client.ask(request, pb.QueryRouteResponse)
    assert answer.status.code == code
    assert answer.status.message


async def test_an_assignment_is_all_queues(scene: Scene) -> None:
    make_group(scene.broker, "in-order", consume_message_orderly=True)
    ids = {}
    for group in (GROUP, "in-order"):
        request = pb.QueryAssignmentRequest(
            topic=pb.Resource(name=TOPIC), group=pb.Resource(name=group)
        )
        answer = await scene.client.ask(request, pb.QueryAssignmentResponse)
        ids[group] = [one.message_queue.id for one in answer.assignments]
    assert ids == {GROUP: [-1], "in-order": [0, 1]}


async def test_who_calls_must_say_who_it_is(scene: Scene) -> None:
    nobody = scene.grpc_client("")
    answer = await nobody.send(message())
    assert answer.status.code == pb.CLIENT_ID_REQUIRED


# -- sends ----------------------------------------------------------------------------------------


async def test_a_message_comes_as_it_was_sent(scene: Scene) -> None:
    sent = message(
        b"hello", tag="A", keys=["k1", "k2"], properties={"color": "blue"}, born_host="me",
        message_id="ID-1",
    )  # fmt: skip
    answer = await scene.client.send(sent)
    assert (answer.status.code, len(answer.entries)) == (pb.OK, 1)
    assert answer.entries[0].message_id == "ID-1"
    status, (got,) = await scene.client.receive(expression="A")
    assert status.code == pb.OK
    system = got.system_properties
    assert (got.body, system.tag, list(system.keys)) == (b"hello", "A", ["k1", "k2"])
    assert got.user_properties["color"] == "blue"
    assert (system.message_id, system.message_type) == ("ID-1", pb.NORMAL)
    assert system.body_digest.checksum == "5D41402ABC4B2A76B9719D911017C592"
    assert (system.delivery_attempt, system.body_encoding) == (1, pb.IDENTITY)
    assert system.born_timestamp.ToMilliseconds() == START_MS, "unset means now"


async def test_each_message_of_a_list_has_an_entry(scene: Scene) -> None:
    answer = await scene.client.send(*(message(b"%d" % i) for i in range(32)))
    assert answer.status.code == pb.OK
    assert [entry.message_id for entry in answer.entries] == [
        f"ID-{(b'%d' % i).hex()}" for i in range(32)
    ]
    _, got = await scene.client.receive(batch_size=32)
    assert len(got) == 32


async def test_compressed_bodies_are_read_by_everybody(scene: Scene) -> None:
    plain = b"abc" * 1000
    packed = message(gzip.compress(plain), body_encoding=pb.GZIP, message_id="packed")
    assert (await scene.client.send(packed)).status.code == pb.OK
    broken = message(b"\x1f\x8bnonsense", body_encoding=pb.GZIP)
    assert (await scene.client.send(broken)).entries[0].status.code == pb.MESSAGE_CORRUPTED
    _, (got,) = await scene.client.receive()
    assert (got.body, got.system_properties.body_encoding) == (plain, pb.IDENTITY)
    queue_id = got.system_properties.queue_id
    assert (await scene.remote.pull(queue_id=queue_id)).bodies == [plain]


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"body": b""}, pb.MESSAGE_BODY_EMPTY),
        ({"body": bytes(4 * 1024 * 1024 + 1)}, pb.MESSAGE_BODY_TOO_LARGE),
        ({"properties": {"TAGS": "x"}}, pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {"a": "\x01"}}, pb.ILLEGAL_MESSAGE_PROPERTY_KEY),
        ({"properties": {f"p{i}": "" for i in range(129)}}, pb.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"properties": {"a": "x" * 20_000}}, pb.MESSAGE_PROPERTIES_TOO_LARGE),
        ({"tag": "a|b"}, pb.ILLEGAL_MESSAGE_TAG),
        ({"keys": [" "]}, pb.ILLEGAL_MESSAGE_KEY),
        ({"message_id": " "}, pb.ILLEGAL_MESSAGE_ID),
        ({"delivery_ms": START_MS + 2 * 86_400_000}, pb.ILLEGAL_DELIVERY_TIME),
        ({"message_group": "g" * 64}, pb.ILLEGAL_MESSAGE_GROUP),
        ({"topic": "a b"}, pb.ILLEGAL_TOPIC),
    ],
)  # fmt: skip
async def test_messages_that_cannot_be_sent(
    scene: Scene, fields: dict[str, Any], code: pb.Code
) -> None:
    answer = await scene.client.send(message(**fields))
    assert answer.status.code == code, answer
    assert answer.status.message


async def test_the_type_of_a_message_must_be_the_topics(scene: Scene) -> None:
    async def code_of(one: pb.Message) -> pb.Code:
        return (await scene.client.send(one)).entries[0].status.code

    assert await code_of(message(topic=TOPIC, message_group="g")) == (
        pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    )
    assert await code_of(message(topic=ORDERED)) == pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert await code_of(message(topic=ORDERED, message_group="g")) == pb.OK
    assert await code_of(message(topic=MIXED, message_group="g")) == pb.OK
    assert (await scene.client.send(message(topic="nowhere"))).status.code == pb.TOPIC_NOT_FOUND


# -- consumption ----------------------------------------------------------------------------------


async def test_what_is_not_acknowledged_comes_again(scene: Scene, clock: VirtualClock) -> None:
    await scene.client.send(message(b"1"), message(b"2"))
    _, got = await scene.client.receive()
    assert len(got) == 2
    answer = await scene.client.ack(got[0])
    assert (answer.status.code, answer.entries[0].status.code) == (pb.OK, pb.OK)
    assert (await scene.client.ack(got[0])).status.code == pb.OK, "as often as one likes"
    await clock.advance(INVISIBLE_S)
    await until(lambda: scene.revived == 1)
    _, (again,) = await scene.client.receive()
    assert again.body == got[1].body
    assert again.topic.name == TOPIC
    assert again.system_properties.delivery_attempt == 2
    late = await scene.client.ack(got[1], again)
    assert late.status.code == pb.MULTIPLE_RESULTS
    assert [entry.status.code for entry in late.entries] == [pb.INVALID_RECEIPT_HANDLE, pb.OK]


async def test_an_invisible_time_set_anew(scene: Scene, clock: VirtualClock) -> None:
    await scene.client.send(message(b"1"))
    _, (got,) = await scene.client.receive()
    answer = await scene.client.renew(got, 60_000)
    assert answer.status.code == pb.OK
    await clock.advance(INVISIBLE_S)
    got.system_properties.receipt_handle = answer.receipt_handle
    assert (await scene.client.renew(got, 0)).status.code == pb.OK
    await clock.advance(0)
    await until(lambda: scene.revived == 1)
    _, (again,) = await scene.client.receive()
    assert again.system_properties.delivery_attempt == 2
    too_long = await scene.client.renew(again, 13 * 3_600_000)
    assert too_long.status.code == pb.ILLEGAL_INVISIBLE_TIME


async def test_handles_that_are_none(scene: Scene) -> None:
    for handle in ("", "x", "0 1 2", f"0 {START_MS} 60000 0 0 nowhere 0 0 5"):
        forged = message()
        forged.system_properties.receipt_handle = handle
        answer = await scene.client.ack(forged)
        assert answer.entries[0].status.code == pb.INVALID_RECEIPT_HANDLE, handle
        assert answer.entries[0].status.message


async def test_nothing_to_receive(scene: Scene, clock: VirtualClock) -> None:
    waiting = asyncio.ensure_future(scene.client.receive(poll_s=5))
    await until(lambda: len(scene.broker.parts.waiting) == 1)
    await clock.advance(5.2)
    status, got = await waiting
    assert (status.code, got) == (pb.MESSAGE_NOT_FOUND, [])


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"invisible_ms": 9_999}, pb.ILLEGAL_INVISIBLE_TIME),
        ({"invisible_ms": 13 * 3_600_000}, pb.ILLEGAL_INVISIBLE_TIME),
        ({"group": "a b"}, pb.ILLEGAL_CONSUMER_GROUP),
        ({"group": ""}, pb.ILLEGAL_CONSUMER_GROUP),
        ({"topic": "nowhere"}, pb.TOPIC_NOT_FOUND),
    ],
)
async def test_receives_that_make_no_sense(
    scene: Scene, fields: dict[str, Any], code: pb.Code
) -> None:
    status, got = await scene.client.receive(**fields)
    assert (status.code, got) == (code, [])


async def test_messages_for_a_client_that_gave_up_come_to_others(scene: Scene) -> None:
    gone = scene.grpc_client("gone")
    waiting = asyncio.ensure_future(gone.receive(poll_s=20))
    await until(lambda: len(scene.broker.parts.waiting) == 1)
    waiting.cancel()
    await gone.close()
    await settle()
    await scene.client.send(message(b"1"))
    _, got = await scene.client.receive()
    assert [one.body for one in got] == [b"1"]


async def test_what_was_tried_too_often_is_a_dead_letter(scene: Scene, clock: VirtualClock) -> None:
    make_group(scene.broker, retry_max_times=1)
    await scene.client.send(message(b"1"))
    for attempt in (1, 2):
        _, (got,) = await scene.client.receive()
        assert got.system_properties.delivery_attempt == attempt
        await clock.advance(INVISIBLE_S)
        await until(partial(scene.has_revived, attempt))
    status, got_again = await scene.client.receive()
    assert (status.code, got_again) == (pb.MESSAGE_NOT_FOUND, [])
    assert (await scene.remote.pull(topic=dlq_topic(GROUP))).bodies == [b"1"]
    assert scene.in_flight == 0


async def test_a_client_puts_a_message_among_the_dead_letters(scene: Scene) -> None:
    await scene.client.send(message(b"1"))
    _, (got,) = await scene.client.receive()
    request = pb.ForwardMessageToDeadLetterQueueRequest(
        group=pb.Resource(name=GROUP),
        topic=pb.Resource(name=TOPIC),
        receipt_handle=got.system_properties.receipt_handle,
        message_id=got.system_properties.message_id,
        delivery_attempt=1,
        max_delivery_attempts=1,
    )
    answer = await scene.client.ask(request, pb.ForwardMessageToDeadLetterQueueResponse)
    assert answer.status.code == pb.OK
    assert (await scene.remote.pull(topic=dlq_topic(GROUP))).bodies == [b"1"]
    assert scene.in_flight == 0


async def test_a_group_in_order_waits_for_the_first_message(
    scene: Scene, clock: VirtualClock
) -> None:
    make_group(scene.broker, consume_message_orderly=True)
    for body in (b"1", b"2"):
        await scene.client.send(message(body, topic=ORDERED, message_group="g"))
    _, (first,) = await scene.client.receive(ORDERED, batch_size=1)
    assert first.body == b"1"
    waiting = asyncio.ensure_future(scene.client.receive(ORDERED, poll_s=5, batch_size=1))
    await until(lambda: len(scene.broker.parts.waiting) == 1)
    await clock.advance(5.2)
    assert (await waiting)[0].code == pb.MESSAGE_NOT_FOUND
    await clock.advance(INVISIBLE_S)
    _, (again,) = await scene.client.receive(ORDERED, batch_size=1)
    assert (again.body, again.system_properties.delivery_attempt) == (b"1", 2)
    await scene.client.ack(again, topic=ORDERED)
    _, (second,) = await scene.client.receive(ORDERED, batch_size=1)
    assert second.body == b"2"


# -- renewal --------------------------------------------------------------------------------------


async def test_a_push_consumers_message_is_renewed_until_it_is_handled(
    scene: Scene, clock: VirtualClock
) -> None:
    await scene.client.consumer()
    await scene.client.send(message(b"1"))
    _, (got,) = await scene.client.receive(auto_renew=True)
    for _ in range(30):
        await clock.advance(5)
        await settle()
        await scene.client.ask(pb.HeartbeatRequest(), pb.HeartbeatResponse)
    assert (scene.revived, scene.in_flight) == (0, 1)
    assert (await scene.client.ack(got)).status.code == pb.OK, "its first handle is good"
    assert scene.in_flight == 0


async def test_what_a_push_consumer_had_comes_again_when_it_ends(
    scene: Scene, clock: VirtualClock
) -> None:
    await scene.client.consumer()
    await scene.client.send(message(b"1"))
    await scene.client.receive(auto_renew=True)
    request = pb.NotifyClientTerminationRequest(group=pb.Resource(name=GROUP))
    answer = await scene.client.ask(request, pb.NotifyClientTerminationResponse)
    assert answer.status.code == pb.OK
    await settle()
    await clock.advance(1)
    await until(lambda: scene.revived == 1)
    again = await scene.client.ask(request, pb.NotifyClientTerminationResponse)
    assert again.status.code == pb.UNRECOGNIZED_CLIENT_TYPE


# -- delays and transactions ----------------------------------------------------------------------


async def test_a_delayed_message_comes_then_or_is_recalled(
    scene: Scene, clock: VirtualClock
) -> None:
    at_ms = START_MS + 60_000
    sent = await scene.client.send(message(b"1", topic=DELAYED, delivery_ms=at_ms))
    recalled = await scene.client.send(message(b"2", topic=DELAYED, delivery_ms=at_ms))
    request = pb.RecallMessageRequest(
        topic=pb.Resource(name=DELAYED), recall_handle=recalled.entries[0].recall_handle
    )
    answer = await scene.client.ask(request, pb.RecallMessageResponse)
    assert (answer.status.code, answer.message_id) == (pb.OK, recalled.entries[0].message_id)
    assert sent.entries[0].recall_handle
    await clock.advance(62)
    _, got = await scene.client.receive(DELAYED)
    assert [one.body for one in got] == [b"1"]
    assert got[0].system_properties.message_type == pb.DELAY
    for topic, handle, code in (
        (TOPIC, "x", pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE),
        (DELAYED, "x", pb.INTERNAL_SERVER_ERROR),
    ):
        request = pb.RecallMessageRequest(topic=pb.Resource(name=topic), recall_handle=handle)
        assert (await scene.client.ask(request, pb.RecallMessageResponse)).status.code == code


async def end(scene: Scene, transaction_id: str, resolution: pb.TransactionResolution) -> pb.Code:
    request = pb.EndTransactionRequest(
        topic=pb.Resource(name=HALF),
        message_id=transaction_id,
        transaction_id=transaction_id,
        resolution=resolution,
        source=pb.SOURCE_CLIENT,
    )
    return (await scene.client.ask(request, pb.EndTransactionResponse)).status.code


async def test_a_half_message_is_committed_or_rolled_back(scene: Scene) -> None:
    for name in ("yes", "no"):
        sent = message(name.encode(), topic=HALF, message_type=pb.TRANSACTION, message_id=name)
        answer = await scene.client.send(sent)
        assert answer.entries[0].transaction_id == name
    assert await end(scene, "yes", pb.COMMIT) == pb.OK
    assert await end(scene, "no", pb.ROLLBACK) == pb.OK
    assert await end(scene, "yes", pb.COMMIT) == pb.INTERNAL_SERVER_ERROR, "it has ended"
    assert await end(scene, " ", pb.COMMIT) == pb.INVALID_TRANSACTION_ID
    _, got = await scene.client.receive(HALF)
    assert [one.body for one in got] == [b"yes"]


async def test_a_producer_is_asked_about_an_orphan(scene: Scene, clock: VirtualClock) -> None:
    call, answer = await scene.client.producer(HALF)
    assert answer.settings.backoff_policy.max_attempts == 3
    assert answer.settings.publishing.validate_message_type
    sent = message(b"orphan", topic=HALF, message_type=pb.TRANSACTION, message_id="T-1")
    await scene.client.send(sent)
    await clock.advance(40)
    command = await call.read()
    asked = command.recover_orphaned_transaction_command
    assert (asked.transaction_id, asked.message.body) == ("T-1", b"orphan")
    assert await end(scene, "T-1", pb.COMMIT) == pb.OK
    _, got = await scene.client.receive(HALF)
    assert [one.body for one in got] == [b"orphan"]


# -- clients --------------------------------------------------------------------------------------


async def test_a_consumer_gets_the_settings_of_its_group(scene: Scene) -> None:
    make_group(scene.broker, retry_max_times=3, consume_message_orderly=True)
    _, answer = await scene.client.consumer()
    settings = answer.settings
    assert answer.status.code == pb.OK
    assert settings.backoff_policy.max_attempts == 4
    assert settings.backoff_policy.customized_backoff.next[2].seconds == 10
    assert (settings.subscription.fifo, settings.subscription.receive_batch_size) == (True, 32)
    group = scene.broker.parts.members.consumers.get(GROUP)
    assert group is not None
    (member,) = group.members.values()
    assert (member.client_id, member.language_name) == ("client-1", "JAVA")


async def test_a_heartbeat_before_the_settings(scene: Scene) -> None:
    answer = await scene.client.ask(pb.HeartbeatRequest(), pb.HeartbeatResponse)
    assert answer.status.code == pb.UNRECOGNIZED_CLIENT_TYPE


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (pb.Settings(), "no publishing or subscription data"),
        (pb.Settings(publishing=pb.Publishing(topics=[pb.Resource(name="a b")])), "a b"),
        (pb.Settings(subscription=pb.Subscription(group=pb.Resource(name="a b"))), "a b"),
    ],
)
async def test_settings_that_make_no_sense_end_the_call(
    scene: Scene, settings: pb.Settings, text: str
) -> None:
    with pytest.raises(grpc.aio.AioRpcError, match=text) as caught:
        await scene.client.telemetry(settings)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_client_that_is_silent_is_forgotten(scene: Scene, clock: VirtualClock) -> None:
    call, _ = await scene.client.consumer()
    await call.done_writing()
    await clock.advance(140)
    await until(lambda: scene.broker.parts.members.consumers.get(GROUP) is None)


async def test_a_consumer_is_asked_for_its_threads_and_given_a_message(scene: Scene) -> None:
    call, _ = await scene.client.consumer()
    asked = asyncio.ensure_future(
        scene.remote.ask(
            RunningInfoRequest(consumer_group=GROUP, client_id="client-1", jstack_enable=True)
        )
    )
    command = await call.read()
    trace = pb.ThreadStackTrace(
        nonce=command.print_thread_stack_trace_command.nonce, thread_stack_trace="main at x"
    )
    await call.write(pb.TelemetryCommand(status=pb.Status(code=pb.OK), thread_stack_trace=trace))
    assert RunningInfo.decode((await asked).body).jstack == "main at x"
    await scene.client.send(message(b"1"))
    _, (got,) = await scene.client.receive(group="others")
    physical = int(got.system_properties.receipt_handle.split(" ")[8])

    host, port = scene.broker.address.split(":")
    verified = asyncio.ensure_future(
        scene.remote.ask(
            ConsumeDirectlyRequest(
                consumer_group=GROUP,
                client_id="client-1",
                msg_id=offset_msg_id(encode_host(host, int(port)), physical),
                broker_name="broker-a",
                topic=TOPIC,
            )
        )
    )
    command = await call.read()
    assert command.verify_message_command.message.body == b"1"
    result = pb.VerifyMessageResult(nonce=command.verify_message_command.nonce)
    status = pb.Status(code=pb.OK)
    await call.write(pb.TelemetryCommand(status=status, verify_message_result=result))
    assert ConsumeDirectlyResult.decode((await verified).body).consume_result == "CR_SUCCESS"


async def test_lite_topics_are_refused_with_a_reason(scene: Scene) -> None:
    request = pb.SyncLiteSubscriptionRequest(topic=pb.Resource(name=TOPIC))
    answer = await scene.client.ask(request, pb.SyncLiteSubscriptionResponse)
    assert answer.status.code == pb.NOT_IMPLEMENTED


async def test_one_call_may_acknowledge_so_many_messages(scene: Scene) -> None:
    request = pb.AckMessageRequest(topic=pb.Resource(name=TOPIC), group=pb.Resource(name=GROUP))
    for _ in range(ACKS_OF_CALL_MAX):
        request.entries.add(receipt_handle="none", message_id="1")
    answer = await scene.client.ask(request, pb.AckMessageResponse)
    assert [one.status.code for one in answer.entries] == [
        pb.INVALID_RECEIPT_HANDLE
    ] * ACKS_OF_CALL_MAX
    request.entries.add(receipt_handle="none", message_id="1")
    refused = (await scene.client.ask(request, pb.AckMessageResponse)).status
    assert (refused.code, "send several" in refused.message) == (pb.BAD_REQUEST, True)


# -- users ----------------------------------------------------------------------------------------


async def test_a_broker_that_authenticates_asks_grpc_clients_too(
    stage: Stage, scene: Scene
) -> None:
    await scene.broker.close()
    remote = await stage.start(
        grpc_server_port=0,
        authentication_enabled=True,
        authorization_enabled=True,
        init_authentication_user='{"username":"admin","password":"12345678"}',
        store_path_root_dir=str(stage.directory / "guarded"),
    )
    broker = remote.broker
    make_topic(broker)
    stranger = GrpcClient(broker)
    liar = GrpcClient(broker, "liar", signed("wrong", "admin"))
    admin = GrpcClient(broker, "admin", signed("12345678", "admin"))
    try:
        assert (await stranger.send(message())).status.code == pb.UNAUTHORIZED
        assert (await liar.send(message())).status.code == pb.UNAUTHORIZED
        assert (await admin.send(message())).status.code == pb.OK
        _, (got,) = await admin.receive()
        assert (await admin.ack(got)).status.code == pb.OK
    finally:
        for client in (stranger, liar, admin):
            await client.close()


async def test_policies_hold_for_grpc(stage: Stage, scene: Scene) -> None:
    remote = await stage.start(
        grpc_server_port=0,
        authentication_enabled=True,
        authorization_enabled=True,
        init_authentication_user='{"username":"admin","password":"12345678"}',
        store_path_root_dir=str(stage.directory / "policies"),
    )
    broker = remote.broker
    make_topic(broker)
    users = broker.parts.data.users
    users.put_user(User("alice", "alices-secret"))
    alice = GrpcClient(broker, "alice", signed("alices-secret"))
    route = pb.QueryRouteRequest(topic=pb.Resource(name=TOPIC))
    try:
        assert (await alice.ask(route, pb.QueryRouteResponse)).status.code == pb.UNAUTHORIZED
        refused = (await alice.send(message())).entries[0].status
        assert (refused.code, "alice" in refused.message) == (pb.UNAUTHORIZED, True)
        entry = PolicyEntry(f"Topic:{TOPIC}", frozenset({Action.PUB}), Decision.ALLOW)
        users.put_policies(Acl("alice", (entry,)), 1)
        assert (await alice.ask(route, pb.QueryRouteResponse)).status.code == pb.OK
        assert (await alice.send(message())).entries[0].status.code == pb.OK
        status, got = await alice.receive()
        assert (status.code, got) == (pb.UNAUTHORIZED, [])
    finally:
        await alice.close()


async def test_retry_topics_of_grpc_consumers_are_pops(scene: Scene, clock: VirtualClock) -> None:
    await scene.client.send(message(b"1"))
    await scene.client.receive()
    await clock.advance(INVISIBLE_S)
    await until(lambda: pop_retry_topic(GROUP, TOPIC) in scene.broker.topics)
