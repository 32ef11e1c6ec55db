"""Values as messages of Protobuf, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from pocketmq.schemas.errors import BodyError, SchemaError, ValueMismatchError
from pocketmq.schemas.framing import message_indexes_bytes, split_message_indexes
from pocketmq.schemas.protobuf.compiler import compiled
from pocketmq.schemas.protobuf.values import json_form, values_of
from pocketmq.schemas.schema import Schema

OWN_NAME = "pocketmq-schema.proto"
"""How protoc is told the file of a schema, which has no name in the registry."""


class ProtobufCodec:
    """Writes values as messages of a schema, and reads such messages.

    Args:
        schema: the text of a file.
        references: the files that it imports, by the names of their imports.
        message: the full name of the message type of the values; by default the first of the file.
        reader: has the message type of the values that `decode` returns, which must be of the same
            name: fields that it does not know are left out.

    Attributes:
        descriptors: of the file and of those that it imports, as Spark's `from_protobuf` takes
            them.
        message: the full name of the message type.
        descriptor: of the message type.

    Raises:
        SchemaError: it is no schema of Protobuf, or has no such message type.
    """

    def __init__(
        self,
        schema: Schema,
        references: Mapping[str, Schema] | None = None,
        message: str | None = None,
        reader: ProtobufCodec | None = None,
    ) -> None:
        files = {name: used.text for name, used in (references or {}).items()}
        found = compiled(OWN_NAME, {**files, OWN_NAME: schema.text})
        self.descriptors = found.SerializeToString()
        pool = DescriptorPool()
        try:
            for file in found.file:
                pool.Add(file)
            self._file = pool.FindFileByName(OWN_NAME)
        except (TypeError, KeyError) as e:
            raise SchemaError(f"the schema of Protobuf cannot be used: {e}") from e
        self._places: dict[tuple[int, ...], Descriptor] = {}
        self._note([*self._file.message_types_by_name.values()], ())
        if not self._places:
            raise SchemaError("the schema of Protobuf has no message type")
        by_name = {kind.full_name: place for place, kind in self._places.items()}
        place = (0,) if message is None else by_name.get(message)
        if place is None:
            raise SchemaError(
                f"the schema has no message type {message}: there are {', '.join(by_name)}"
            )
        self.descriptor, self._place = self._places[place], place
        self.message: str = self.descriptor.full_name
        self._class = GetMessageClass(self.descriptor)
        self._reader = reader

    def _note(self, kinds: Sequence[Descriptor], above: tuple[int, ...]) -> None:
        for index, kind in enumerate(kinds):
            place = (*above, index)
            self._places[place] = kind
            self._note(list(kind.nested_types), place)

    def encode(self, value: object) -> bytes:
        """Writes a value, a dict by field names or a message of a generated class, without indexes.

        Raises:
            ValueMismatchError: the value does not fit the message type; the error names the field.
        """
        if isinstance(value, Message):
            if value.DESCRIPTOR.full_name != self.message:
                raise ValueMismatchError(
                    f"the value is a {value.DESCRIPTOR.full_name}, and the schema's message type "
                    f"is {self.message}"
                )
            return value.SerializeToString()
        if not isinstance(value, Mapping):
            raise ValueMismatchError(
                f"the value does not fit the message type {self.message}: it is a "
                f"{type(value).__name__}, and must be a dict by the names of its fields"
            )
        try:
            return json_format.ParseDict(json_form(value), self._class()).SerializeToString()
        except (json_format.ParseError, AttributeError, TypeError, ValueError) as e:
            raise ValueMismatchError(
                f"the value does not fit the message type {self.message}: {str(e)[:500]}"
            ) from e

    def encode_indexed(self, value: object) -> bytes:
        """Writes a value behind the place of its message type, as it follows a frame."""
        return message_indexes_bytes(self._place) + self.encode(value)

    def decode(self, payload: bytes) -> Any:
        """Reads a message of the schema's message type, without indexes.

        Raises:
            BodyError: the bytes are no such message.
        """
        return self._decoded(self._class, payload)

    def decode_indexed(self, payload: bytes) -> Any:
        """Reads a message behind the place of its type, whichever type of the file it is of.

        Raises:
            BodyError: the place leads nowhere, or the bytes are no such message.
        """
        place, rest = split_message_indexes(payload)
        kind = self._places.get(place)
        if kind is None:
            raise BodyError(
                f"the body is of message type {'.'.join(map(str, place))} of its schema, which has "
                f"{len(self._places)}"
            )
        return self._decoded(GetMessageClass(kind), rest)

    def _decoded(self, message_class: type[Message], payload: bytes) -> Any:
        if self._reader is not None:
            name, wanted = message_class.DESCRIPTOR.full_name, self._reader.message
            if name != wanted:
                raise BodyError(f"the body is of message type {name}, and {wanted} is wanted")
            message_class = self._reader._class
        try:
            return values_of(message_class.FromString(payload))
        except (DecodeError, RecursionError) as e:
            name = message_class.DESCRIPTOR.full_name
            raise BodyError(f"the body is no message of type {name}: {e}") from e
