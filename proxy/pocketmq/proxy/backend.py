"""What the service needs of the cluster behind it: brokers, routes, topics, groups and users."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.bodies.topics import TopicConfig
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.clock import Clock

AskClient = Callable[[Command], Awaitable[Command | None] | None]
"""Gives a request of a broker to the client; one-way requests are not answered."""


class Session(Protocol):
    """One client at the brokers: requests go there in its name.

    Attributes:
        user: whom the brokers take the client for; empty where they do not ask.
    """

    @property
    def user(self) -> str: ...  # noqa: D102

    def ask(self, broker_name: str, command: Command) -> Awaitable[Command]:
        """Gives a request to a broker, and returns the answer, whatever its code.

        Raises:
            OperatingError: the broker cannot be asked.
        """

    @property
    def is_open(self) -> bool:
        """Whether requests may be given to brokers: a broker may have ended it."""

    def missing_right(self, topic: str) -> str | None:
        """Says why the client may neither send to a topic nor consume it; None if it may."""

    def close(self, reason: str) -> None:
        """Ends the session: brokers forget the client."""


class Backend(Protocol):
    """The cluster behind the service.

    Attributes:
        clock: says when messages were popped.
    """

    @property
    def clock(self) -> Clock: ...  # noqa: D102

    async def broker_names(self) -> tuple[str, ...]:
        """Returns the brokers where clients are registered."""

    def authenticate(self, metadata: Mapping[str, str]) -> str:
        """Returns the user who has signed a call; empty where nobody is asked.

        Raises:
            Refusal: UNAUTHORIZED, the signature is missing or wrong.
        """

    def open(self, user: str, remote_address: str, ask_client: AskClient) -> Session:
        """Begins a session.

        Args:
            user: as `authenticate` returned it.
            remote_address: of the client.
            ask_client: takes what brokers ask the client.
        """

    async def route(self, topic: str) -> TopicRoute | None:
        """Returns where a topic's queues are; None if no broker has it."""

    async def topic(self, name: str) -> TopicConfig | None:
        """Returns a topic's settings; None if it does not exist."""

    async def group(self, name: str) -> GroupConfig | None:
        """Returns a group's settings; None if it does not exist and is not made on its use."""
