"""What is called of Apache's Java clients, overload by overload, and what comes of it.

A call names its target (see ``Cast.java``), a signature of simple names and its arguments (see
``Arguments.java``). Together with ELSEWHERE and LOCAL the tables name every public method of the
clients: one that a new version brings fails a test until it is called or has a reason here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

Check = Callable[[Any], bool]

SYSTEM_ERROR = 1
NOT_SUPPORTED = 3
TOPIC_NOT_EXIST = 17
NO_MESSAGE = 208

TIMEOUT_MS = 30_000
MESSAGES = 6
"""How many messages the topic holds before the first call, all of them consumed."""


class Call(NamedTuple):
    """One call: what its result must fulfil, or the code it is refused with here.

    ``is_there`` says whether Apache's broker must answer in the same way.
    """

    target: str
    signature: str
    arguments: list[Any]
    check: Check | None = None
    refused: int | None = None
    is_there: bool = True

    def asked(self) -> dict[str, object]:
        """The call as the probe takes it."""
        return {"target": self.target, "call": self.signature, "arguments": self.arguments}


def _found(result: Any) -> bool:
    return bool(result["pullStatus"] == "FOUND")


def _sent(result: Any) -> bool:
    return bool(result["sendStatus"] == "SEND_OK")


def _answered(result: Any) -> bool:
    return bool(result["body"].startswith("answer to "))


def _is(expected: object) -> Check:
    return lambda result: bool(result == expected)


def _messages(*keys: str) -> Check:
    return lambda result: sorted(one["keys"] for one in result["messageList"]) == sorted(keys)


QUEUE_ASKED = (
    ("searchOffset(MessageQueue, long)", [0, 0], _is(0)),
    ("minOffset(MessageQueue)", [0], _is(0)),
    ("maxOffset(MessageQueue)", [0], lambda end: end >= MESSAGES // 2),
    ("earliestMsgStoreTime(MessageQueue)", [0], lambda time: time > 0),
    (
        "queryMessage(String, String, int, long, long)",
        ["{topic}", "3", 32, "0", "{inAnHour}"],
        _messages("3"),
    ),
    ("viewMessage(String, String)", ["{topic}", "{offsetMsgId}"], lambda one: one["keys"] == "0"),
    ("viewMessage(String)", ["{offsetMsgId}"], lambda one: one["keys"] == "0"),
)
"""What MQAdmin has, and so every client."""

TOPIC_MADE: tuple[tuple[str, list[Any]], ...] = (
    ("createTopic(String, String, int, Map)", ["TBW102", "{{topic}}-{}-1", 2, {}]),
    ("createTopic(String, String, int, int, Map)", ["TBW102", "{{topic}}-{}-2", 2, 0, {}]),
    ("createTopic(String, String, int)", ["TBW102", "{{topic}}-{}-3", 2]),
    ("createTopic(String, String, int, int)", ["TBW102", "{{topic}}-{}-4", 2, 0]),
)


def _of_every_client(target: str) -> list[Call]:
    asked = [Call(target, *asked) for asked in QUEUE_ASKED]
    made = [
        Call(target, signature, [key, topic.format(target), *rest])
        for signature, (key, topic, *rest) in TOPIC_MADE
    ]
    return [*asked, *made]


_TO: dict[str, list[Any]] = {
    "": [],
    ", MessageQueue": [1],
    ", MessageQueueSelector, Object": ["by place", 1],
}
"""The ways to say where a message goes."""

_LATE: tuple[tuple[str, list[Any]], ...] = (("", []), (", long", [TIMEOUT_MS]))
"""Without and with a timeout."""


def _back(kind: str) -> tuple[tuple[str, list[Any]], ...]:
    """Without and with a callback."""
    return (("", []), (f", {kind}", ["back"]))


def _sends() -> list[Call]:
    calls = []
    for where, place in _TO.items():
        calls.append(Call("producer", f"sendOneway(Message{where})", ["one way", *place]))
        for late, timeout in _LATE:
            for back, callback in _back("SendCallback"):
                calls.append(
                    Call(
                        "producer",
                        f"send(Message{where}{back}{late})",
                        ["sent", *place, *callback, *timeout],
                        _sent,
                    )
                )
                if "Selector" not in where:
                    calls.append(
                        Call(
                            "producer",
                            f"send(Collection{where}{back}{late})",
                            [["batch 1", "batch 2"], *place, *callback, *timeout],
                            _sent,
                        )
                    )
        for back, callback in _back("RequestCallback"):
            calls.append(
                Call(
                    "producer",
                    f"request(Message{where}{back}, long)",
                    ["asked", *place, *callback, 60_000],
                    _answered,
                )
            )
    return calls


PRODUCER = (
    *_sends(),
    Call("producer", "initProduceAccumulator()", []),
    Call(
        "producer",
        "sendDirect(Message, MessageQueue, SendCallback)",
        ["direct", 0, None],
        _sent,
    ),
    Call(
        "producer",
        "sendByAccumulator(Message, MessageQueue, SendCallback)",
        ["gathered", 0, None],
        _sent,
    ),
    Call(
        "producer",
        "fetchPublishMessageQueues(String)",
        ["{topic}"],
        lambda queues: len(queues) == 2,
    ),
    Call(
        "transactions",
        "sendMessageInTransaction(Message, Object)",
        ["committed", 1],
        lambda result: result["localTransactionState"] == "COMMIT_MESSAGE",
    ),
)

PUSH = (
    Call(
        "push",
        "fetchSubscribeMessageQueues(String)",
        ["{topic}"],
        lambda queues: len(queues) == 2,
    ),
    Call("push", "sendMessageBack(MessageExt, int)", [0, 1]),
    Call("push", "sendMessageBack(MessageExt, int, String)", [1, 1, "{brokerName}"]),
    Call("push", "suspend()", []),
    Call("push", "resume()", []),
    Call("push", "subscribe(String, String)", ["{topic}", "*"]),
    Call("push", "subscribe(String, MessageSelector)", ["{topic}", "TRUE"]),
    Call("push", "unsubscribe(String)", ["{topic}"]),
)


def _pulls() -> list[Call]:
    calls = []
    for kind, expression in (("String", "*"), ("MessageSelector", "TRUE")):
        for back, callback in _back("PullCallback"):
            calls += [
                Call(
                    "pull",
                    f"pull(MessageQueue, {kind}, long, int{back}{end})",
                    [0, expression, 0, 2, *callback, *timeout],
                    _found,
                )
                for end, timeout in _LATE
            ]
            waits = "pullBlockIfNotFound" + ("WithMessageSelector" if kind != "String" else "")
            calls.append(
                Call(
                    "pull",
                    f"{waits}(MessageQueue, {kind}, long, int{back})",
                    [0, expression, 0, 2, *callback],
                    _found,
                )
            )
    return calls


PULL = (
    *_pulls(),
    Call(
        "pull",
        "pull(MessageQueue, String, long, int, int, PullCallback, long)",
        [0, "*", 0, 2, 1 << 20, "back", TIMEOUT_MS],
        _found,
    ),
    Call(
        "pull",
        "fetchSubscribeMessageQueues(String)",
        ["{topic}"],
        lambda queues: len(queues) == 2,
    ),
    Call("pull", "registerMessageQueueListener(String, MessageQueueListener)", ["{topic}", ""]),
    Call("pull", "addRegisterSubscriptions(String, MessageSelector)", ["{topic}", "TRUE"]),
    Call("pull", "fetchMessageQueuesInBalance(String)", ["{topic}"], lambda mine: len(mine) <= 2),
    Call("pull", "clearRegisterSubscriptions()", []),
    Call("pull", "updateConsumeOffset(MessageQueue, long)", [0, 2]),
    Call("pull", "persist(MessageQueue)", [0]),
    Call("pull", "fetchConsumeOffset(MessageQueue, boolean)", [0, False], _is(2)),
    Call("pull", "sendMessageBack(MessageExt, int)", [0, 1]),
    Call("pull", "sendMessageBack(MessageExt, int, String)", [1, 1, "{brokerName}"]),
    Call(
        "pull",
        "sendMessageBack(MessageExt, int, String, String)",
        [2, 1, "{brokerName}", "{group}-pull"],
    ),
)

LITE = (
    Call("lite", "fetchMessageQueues(String)", ["{topic}"], lambda queues: len(queues) == 2),
    Call("lite", "assignment()", [], lambda queues: len(queues) == 2),
    Call("lite", "offsetForTimestamp(MessageQueue, Long)", [0, "0"], _is(0)),
    Call("lite", "seekToEnd(MessageQueue)", [0]),
    Call("lite", "seekToBegin(MessageQueue)", [0]),
    Call("lite", "seek(MessageQueue, long)", [0, 1]),
    Call("lite", "pause(Collection)", [[0]]),
    Call("lite", "resume(Collection)", [[0]]),
    Call("lite", "poll()", []),
    Call("lite", "poll(long)", [TIMEOUT_MS]),
    Call("lite", "commit()", []),
    Call("lite", "commitSync()", []),
    Call("lite", "commit(Set, boolean)", [[0, 1], True]),
    Call("lite", "commit(Map, boolean)", [{"0": 2}, True]),
    Call("lite", "commitSync(Map, boolean)", [{"0": 2}, True]),
    Call("lite", "committed(MessageQueue)", [0], lambda offset: offset >= 0),
    Call(
        "lite",
        "registerTopicMessageQueueChangeListener(String, TopicMessageQueueChangeListener)",
        ["{topic}", ""],
    ),
    Call("lite", "updateNameServerAddress(String)", ["{namesrv}"]),
)

CLIENTS = (
    *(call for target in ("producer", "push", "pull") for call in _of_every_client(target)),
    *PRODUCER,
    *PULL,
    *LITE,
)

ELSEWHERE = re.compile(
    r"start\(|shutdown\(|registerMessageListener\(|subscribe\(|unsubscribe\(|assign\(|recallMessage\("
)
"""What every scenario or one of its own calls: see Stage, Orderly, Filters, LitePull, Timers."""

LOCAL = re.compile(
    r"(?:set|is)[A-Z]\w*\(|(?:acquire|release)BackPressure\w+\(|registerConsumeMessageHook\("
    r"|addRetryResponseCode\(|batchMax\w+\(|totalBatchMaxBytes\(|updateCorePoolSize\("
    # By 5.5.0's own words for tests of the heartbeat.
    r"|buildSubscriptionsForHeartbeat\("
    # Of DefaultMQProducer, and deprecated: they throw, whatever the cluster.
    r"|sendMessageInTransaction\("
)
"""What asks the cluster nothing."""
