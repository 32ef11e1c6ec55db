"""All decoders that there are, and the choice between them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pocketmq.client.application_code import outcome_of
from pocketmq.console.decoding.built_in import BUILT_IN, BuiltIn, detected
from pocketmq.console.decoding.decoder import ENTRY_POINTS, Decoder
from pocketmq.protocol.errors import ContentError, PocketMQError, UsageError
from pocketmq.protocol.messages.message import Message
from pocketmq.runtime.clock import Clock, within

if TYPE_CHECKING:
    from pocketmq.console.decoding.schema_decoder import SchemaOptions

TIMEOUT_S = 2.0
"""For so long a decoder of another package may work on one body."""

STUCK_MAX = 4
"""Calls of one decoder that may hang before it is not called any more: threads cannot be ended."""


class Decoded(NamedTuple):
    """The value of a body.

    Attributes:
        decoder: that has made it.
        value: None if there is a problem.
        problem: why there is no value.
    """

    decoder: str
    value: object
    problem: str | None = None


class _Foreign:
    """A decoder of another package: each call has a thread of its own, and little time."""

    def __init__(self, name: str, decoder: Decoder, clock: Clock) -> None:
        self.name, self._decoder, self._clock = name, decoder, clock
        self._stuck = 0

    async def decode(self, message: Message) -> Decoded:
        """Decodes a body; whatever goes wrong becomes the problem."""
        given = (bytes(message.body), message.topic, dict(message.properties))
        try:
            value = await self._call(lambda: _plain(self._decoder.decode(*given)))
        except ContentError as e:
            return Decoded(self.name, None, str(e))
        return Decoded(self.name, value)

    async def suits(self, message: Message) -> bool:
        """Whether the decoder wants a message; not, if it has no opinion or fails."""
        suits = getattr(self._decoder, "suits", None)
        if suits is None:
            return False
        given = (bytes(message.body), message.topic, dict(message.properties))
        try:
            return bool(await self._call(lambda: bool(suits(*given))))
        except ContentError:
            return False

    async def _call(self, function: Any) -> Any:
        if self._stuck >= STUCK_MAX:
            raise ContentError(
                f"decoder {self.name} hangs in {self._stuck} messages, and is not asked again "
                f"before one of them is done"
            )
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()
        self._stuck += 1

        def give(outcome: tuple[Any, BaseException | None]) -> None:
            self._stuck -= 1
            if not answer.done():
                answer.set_result(outcome)

        def work() -> None:
            outcome = outcome_of(function)
            try:
                loop.call_soon_threadsafe(give, outcome)
            except RuntimeError:  # the loop has ended meanwhile
                return

        # No pool: its threads would keep the process from ending while a decoder hangs.
        threading.Thread(target=work, name=f"decoder {self.name}", daemon=True).start()
        try:
            value, error = await within(self._clock, TIMEOUT_S, answer)
        except TimeoutError as e:
            raise ContentError(
                f"decoder {self.name} has not decoded the body within {TIMEOUT_S} s"
            ) from e
        if isinstance(error, PocketMQError):
            raise ContentError(str(error))
        if error is not None:
            reason = str(error) or "no reason is given"
            raise ContentError(f"decoder {self.name} failed: {type(error).__name__}: {reason}")
        return value


def _plain(value: object) -> object:
    """Turns the values of dataclasses, structs, dates and so on into plain ones."""
    return msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=str)


class _OfSchemas(_Foreign):
    """The decoder of this project that may wait for a registry; it says at once what suits it."""

    async def suits(self, message: Message) -> bool:
        return bool(self._decoder.suits(message.body, message.topic, {}))  # type: ignore[attr-defined]


class Decoders:
    """All decoders, by name.

    Args:
        clock: bounds the time of those of other packages.
        further: decoders of other packages.
        of_schemas: bodies by their schemas; None for none.
    """

    def __init__(
        self, clock: Clock, further: Iterable[Decoder] = (), of_schemas: Decoder | None = None
    ) -> None:
        self._built_in: dict[str, BuiltIn] = {one.name: one for one in BUILT_IN}
        self._foreign = {one.name: _Foreign(one.name, one, clock) for one in further}
        if of_schemas is not None:
            self._foreign[of_schemas.name] = _OfSchemas(of_schemas.name, of_schemas, clock)

    @property
    def names(self) -> list[str]:
        """The names of all decoders."""
        return [*self._built_in, *self._foreign]

    def check(self, name: str | None) -> None:
        """Refuses a decoder that does not exist; None, for the choice by content, does.

        Raises:
            UsageError: there is no such decoder.
        """
        if name is not None and name not in self.names:
            raise UsageError(f"there is no decoder {name!r}: there are {', '.join(self.names)}")

    async def decode(self, name: str | None, message: Message) -> Decoded:
        """Decodes the body of a message; a failure is a problem in the answer.

        Args:
            name: of the decoder; None chooses one by the content.
            message: the message.

        Raises:
            UsageError: there is no such decoder.
        """
        self.check(name)
        if name is None:
            for foreign in self._foreign.values():
                if await foreign.suits(message):
                    return await foreign.decode(message)
            chosen, value = detected(message.body)
            return Decoded(chosen.name, value)
        if name in self._foreign:
            return await self._foreign[name].decode(message)
        try:
            value = self._built_in[name].decode(message.body, message.topic, message.properties)
        except ContentError as e:
            return Decoded(name, None, str(e))
        return Decoded(name, value)


def installed_decoders(clock: Clock, schemas: SchemaOptions | None = None) -> Decoders:
    """Returns the decoders of this project and of all packages that offer some.

    Args:
        clock: bounds their time.
        schemas: where the schemas of bodies are; None for nowhere.

    Raises:
        ConfigError: the settings of the registry cannot work.
        SchemaError: a schema of a file cannot be used.
        UsageError: one of them cannot be loaded, or has the name of another.
    """
    further: list[Decoder] = []
    taken = {one.name for one in BUILT_IN}
    of_schemas: Decoder | None = None
    if schemas is not None:
        from pocketmq.console.decoding.schema_decoder import SchemaDecoder  # an extra

        of_schemas = SchemaDecoder(schemas, clock)
        taken.add(of_schemas.name)
    for entry in entry_points(group=ENTRY_POINTS):
        made, error = outcome_of(lambda entry=entry: entry.load()())
        name = getattr(made, "name", None)
        if error is not None or not isinstance(name, str):
            raise UsageError(
                f"the decoder {entry.name} ({entry.value}) cannot be used: "
                f"{error or 'it has no name'}; mend its package, or remove it"
            )
        if name in taken:
            raise UsageError(
                f"two decoders are named {name}; one is {entry.value}: remove a package"
            )
        taken.add(name)
        further.append(made)
    return Decoders(clock, further, of_schemas)
