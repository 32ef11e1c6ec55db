"""One message and one group, and what servers said of them."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from pocketmq.client.admin import Admin
from pocketmq.client.explanation.explanation import Facts, Finding
from pocketmq.client.explanation.states import Cause, State
from pocketmq.protocol.errors import OperatingError, PeerError
from pocketmq.protocol.messages.message import MessageQueue, ReceivedMessage
from pocketmq.runtime.clock import Clock

AnswerT = TypeVar("AnswerT")


class Verdict(NamedTuple):
    """What a question decides: the state, in one word and in one sentence."""

    state: State
    sentence: str


@dataclass
class Case:
    """One message and one group.

    Attributes:
        admin: asks servers.
        clock: the caller's time.
        topic, group, asked: of which message and which group the caller wants to know.
        facts: what was seen so far.
        findings, unknown: of the explanation.
        addresses: of the topic's masters, by the name of the broker.
    """

    admin: Admin
    clock: Clock
    topic: str
    group: str
    asked: str
    addresses: dict[str, str]
    facts: Facts = field(init=False)
    findings: list[Finding] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.facts = Facts(topic=self.topic)

    def found(self, cause: Cause, seen: str, remedy: str = "") -> None:
        """Adds a finding."""
        self.findings.append(Finding(cause, seen, remedy))

    async def ask(self, what: str, answer: Awaitable[AnswerT]) -> AnswerT | None:
        """Waits for an answer; None if there is none, which is noted as unknown.

        Args:
            what: what the answer would tell, for the note.
            answer: of a server.
        """
        try:
            return await answer
        except (OperatingError, PeerError) as e:
            self.unknown.append(f"{what}: {e}")
            return None


class Place(NamedTuple):
    """The record that counts for the group: the message, or the copy for its next attempt.

    Attributes:
        message: the record.
        address: of the broker that has it.
    """

    message: ReceivedMessage
    address: str

    @property
    def queue(self) -> MessageQueue:
        """The record's queue."""
        message = self.message
        return MessageQueue(message.topic, message.broker_name, message.queue_id)

    @property
    def offset(self) -> int:
        """The record's offset in its queue."""
        return self.message.queue_offset

    def __str__(self) -> str:
        return f"offset {self.offset} of {self.queue}"
