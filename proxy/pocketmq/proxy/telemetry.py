"""What clients say of themselves, and what they are told: Telemetry, Heartbeat,
NotifyClientTermination (`ClientActivity`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from google.protobuf.message import DecodeError

from pocketmq.protocol.bodies.clients import (
    CONSUME_ACTIVELY,
    CONSUME_PASSIVELY,
    SQL92,
    ConsumerData,
    GroupConfig,
    Heartbeat,
    ProducerData,
    Subscription,
)
from pocketmq.protocol.codes import LANGUAGES_BY_NAME, LanguageCode
from pocketmq.protocol.messages.delay_levels import DELAY_LEVELS_S
from pocketmq.protocol.requests.clients import HeartbeatRequest
from pocketmq.protocol.wire.command import Command
from pocketmq.proxy.backend import Backend
from pocketmq.proxy.calls import Call
from pocketmq.proxy.checks import BODY_SIZE_MAX, group_of, topic_of
from pocketmq.proxy.clients import Client, Clients
from pocketmq.proxy.questions import Questions
from pocketmq.proxy.rpc import messaging_pb2 as pb
from pocketmq.proxy.sending import asked
from pocketmq.proxy.statuses import Refusal, ok
from pocketmq.transport.grpc.status import GrpcError, GrpcStatus

log = logging.getLogger("pocketmq.proxy")

PRODUCER_ATTEMPTS = 3
RECEIVE_BATCH_SIZE = 32
LONG_POLLING_S = 20
LITE_SUBSCRIPTIONS_MAX = 2000
LITE_TOPIC_SIZE_MAX = 64
"""RocketMQ's values."""

TOPICS_MAX = 1024
"""Topics that one client may publish to, or subscribe to."""

_LANGUAGES = {"GOLANG": LanguageCode.GO, "DOT_NET": LanguageCode.DOTNET, "C++": LanguageCode.CPP}


class Telemetry:
    """Keeps clients registered, answers their settings, and takes their answers to questions.

    Args:
        backend: knows groups, and where clients are registered.
        clients: who calls.
        questions: wait for answers of clients.
    """

    def __init__(self, backend: Backend, clients: Clients, questions: Questions) -> None:
        self._backend, self._clients, self._questions = backend, clients, questions

    async def telemetry(self, call: Call) -> None:
        """Serves one telemetry call, until the client ends it."""
        client: Client | None = None
        try:
            async for data in call.messages():
                try:
                    client = self._clients.of(call)
                    await self._take(call, client, pb.TelemetryCommand.FromString(data))
                except DecodeError as e:
                    await self._refuse(call, Refusal(pb.BAD_REQUEST, f"unreadable: {e}"))
                except Refusal as e:
                    await self._refuse(call, e)
        finally:
            if client is not None and client.stream is call:
                client.stream = None

    @staticmethod
    async def _refuse(call: Call, refusal: Refusal) -> None:
        await call.write(pb.TelemetryCommand(status=refusal.status).SerializeToString())

    async def _take(self, call: Call, client: Client, command: pb.TelemetryCommand) -> None:
        kind = command.WhichOneof("command")
        if kind == "settings":
            try:
                answer = await self._answer(client, command.settings)
            except Refusal as e:
                # SDKs wait for settings: a status alone would leave them waiting.
                raise GrpcError(GrpcStatus.INVALID_ARGUMENT, e.status.message) from e
            client.settings, client.stream = command.settings, call
            await self._register(client)
            out = pb.TelemetryCommand(status=ok(), settings=answer)
            await call.write(out.SerializeToString())
        elif kind == "thread_stack_trace":
            self._questions.answered(client, command.thread_stack_trace.nonce, command)
        elif kind == "verify_message_result":
            self._questions.answered(client, command.verify_message_result.nonce, command)

    # -- settings -----------------------------------------------------------------------------

    async def _answer(self, client: Client, settings: pb.Settings) -> pb.Settings:
        """The settings that a client is to work with: its own, and what the service decides.

        Raises:
            Refusal: they name what cannot be, or neither topics nor subscriptions.
        """
        out = pb.Settings()
        out.CopyFrom(settings)
        if settings.HasField("publishing"):
            _check_count(settings.publishing.topics)
            for topic in settings.publishing.topics:
                topic_of(topic)
            _fill_producer(out)
        elif settings.HasField("subscription"):
            _check_count(settings.subscription.subscriptions)
            for entry in settings.subscription.subscriptions:
                topic_of(entry.topic)
            group = group_of(settings.subscription.group)
            config = await self._backend.group(group) or GroupConfig(group_name=group)
            _fill_consumer(out, config)
        else:
            raise Refusal(pb.BAD_REQUEST, "there is no publishing or subscription data in settings")
        return out

    # -- registration -------------------------------------------------------------------------

    async def heartbeat(self, call: Call, request: pb.HeartbeatRequest) -> pb.HeartbeatResponse:
        """Keeps a client registered that has said what it is."""
        client = self._clients.of(call)
        if client.settings is None:
            raise Refusal(
                pb.UNRECOGNIZED_CLIENT_TYPE,
                f"cannot find client settings for this client: it has opened no telemetry call "
                f"since the service began, clientId:{client.client_id}",
            )
        if request.client_type in (pb.PULL_CONSUMER, pb.LITE_SIMPLE_CONSUMER):
            raise Refusal(
                pb.UNRECOGNIZED_CLIENT_TYPE,
                f"{pb.ClientType.Name(request.client_type)} is not supported",
            )
        if client.is_consumer:
            group_of(pb.Resource(name=client.group))
        await self._register(client)
        return pb.HeartbeatResponse(status=ok())

    async def terminate(
        self, call: Call, _: pb.NotifyClientTerminationRequest
    ) -> pb.NotifyClientTerminationResponse:
        """Forgets a client, and gives back what it has not handled."""
        client = self._clients.of(call)
        is_known = client.settings is not None
        self._clients.forget(client, "the client ends")
        if not is_known:
            raise Refusal(
                pb.UNRECOGNIZED_CLIENT_TYPE, "cannot find client settings for this client"
            )
        return pb.NotifyClientTerminationResponse(status=ok())

    async def _register(self, client: Client) -> None:
        """Tells brokers of a client, as a heartbeat over remoting does."""
        body = _heartbeat(client).encode()
        language = _language(client.language)
        commands = [
            (name, Command(HeartbeatRequest.code, header=HeartbeatRequest(), body=body))
            for name in await self._backend.broker_names()
        ]
        for _, command in commands:
            command.language = language
        answers = await asyncio.gather(
            *(asked(client, name, command) for name, command in commands), return_exceptions=True
        )
        for answer in answers:
            if isinstance(answer, Refusal):
                log.info("a broker does not hear of %s: %s", client.client_id, answer)
            elif isinstance(answer, BaseException):
                raise answer


def _check_count(entries: Iterable[object]) -> None:
    count = sum(1 for _ in entries)
    if count > TOPICS_MAX:
        raise Refusal(pb.BAD_REQUEST, f"the settings name {count} topics, the max is {TOPICS_MAX}")


def _fill_producer(out: pb.Settings) -> None:
    backoff = out.backoff_policy
    backoff.max_attempts = PRODUCER_ATTEMPTS
    exponential = backoff.exponential_backoff
    exponential.initial.FromMilliseconds(10)
    exponential.max.FromMilliseconds(1000)
    exponential.multiplier = 2
    out.publishing.max_body_size = BODY_SIZE_MAX
    out.publishing.validate_message_type = True


def _fill_consumer(out: pb.Settings, config: GroupConfig) -> None:
    backoff = out.backoff_policy
    backoff.max_attempts = config.retry_max_times + 1
    policy = config.group_retry_policy
    if policy.get("type") == "EXPONENTIAL":
        exponential = backoff.exponential_backoff
        exponential.initial.FromMilliseconds(
            _number(policy, "exponentialRetryPolicy", "initial", 5000)
        )
        exponential.max.FromMilliseconds(
            _number(policy, "exponentialRetryPolicy", "max", 7_200_000)
        )
        exponential.multiplier = _number(policy, "exponentialRetryPolicy", "multiplier", 2)
    else:
        given = policy.get("customizedRetryPolicy")
        steps = given.get("next") if isinstance(given, dict) else None
        ladder_ms = [level_s * 1000 for level_s in DELAY_LEVELS_S]
        times_ms = steps if isinstance(steps, list) and steps else ladder_ms
        for time_ms in times_ms:
            backoff.customized_backoff.next.add().FromMilliseconds(int(time_ms))
    subscription = out.subscription
    subscription.fifo = config.consume_message_orderly
    subscription.receive_batch_size = RECEIVE_BATCH_SIZE
    subscription.long_polling_timeout.FromSeconds(LONG_POLLING_S)
    subscription.lite_subscription_quota = LITE_SUBSCRIPTIONS_MAX
    subscription.max_lite_topic_size = LITE_TOPIC_SIZE_MAX
    out.metric.on = False


def _number(policy: dict[str, object], kind: str, name: str, default: int) -> int:
    part = policy.get(kind)
    value = part.get(name) if isinstance(part, dict) else None
    return int(value) if isinstance(value, int | float) and value > 0 else default


def _heartbeat(client: Client) -> Heartbeat:
    settings = client.settings
    assert settings is not None
    out = Heartbeat(client_id=client.client_id)
    if settings.HasField("publishing"):
        out.producer_data_set = [
            ProducerData(group_name=topic.name) for topic in settings.publishing.topics
        ]
        return out
    subscriptions = [
        _subscription(entry.topic.name, entry.expression)
        for entry in settings.subscription.subscriptions
    ]
    is_simple = settings.client_type == pb.SIMPLE_CONSUMER
    out.consumer_data_set = [
        ConsumerData(
            group_name=client.group,
            consume_type=CONSUME_ACTIVELY if is_simple else CONSUME_PASSIVELY,
            subscription_data_set=subscriptions,
        )
    ]
    return out


def _subscription(topic: str, expression: pb.FilterExpression) -> Subscription:
    if expression.type == pb.SQL:
        return Subscription(topic=topic, sub_string=expression.expression, expression_type=SQL92)
    return Subscription.of_tags(topic, expression.expression, 0)


def _language(name: str) -> int:
    known = _LANGUAGES.get(name.upper())
    if known is not None:
        return int(known)
    return LANGUAGES_BY_NAME.get(name.upper(), int(LanguageCode.OTHER))
