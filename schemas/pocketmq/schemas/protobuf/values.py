"""Messages of Protobuf as plain values: dicts by field names, numbers and bytes as they are."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from pocketmq.schemas.errors import BodyError

VALUES_MAX = 1_000_000
"""Values of one body: two bytes of a body can become a message with all its fields."""

WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def values_of(message: Message) -> Any:
    """Makes a message a dict, by the names of its fields.

    A field that can be absent is there only if it is set (as a message, one of a oneof, or an
    ``optional`` one); every other field is there with its default value. Enums become their names,
    timestamps datetimes in UTC, durations timedeltas, and wrappers the value that they hold.

    Raises:
        BodyError: the message has more than `VALUES_MAX` values, or a time that no calendar has.
    """
    return _Reading().message(message)


class _Reading:
    """What may still become values."""

    def __init__(self) -> None:
        self._room = VALUES_MAX

    def _take(self) -> None:
        self._room -= 1
        if self._room < 0:
            raise BodyError(f"the body has more than {VALUES_MAX} values")

    def message(self, message: Any) -> Any:
        self._take()
        name = message.DESCRIPTOR.full_name
        if name == "google.protobuf.Timestamp":
            return _moment(message)
        if name == "google.protobuf.Duration":
            return _duration(message)
        if name in WRAPPERS:
            return message.value
        if name == "google.protobuf.Value":
            kind = message.WhichOneof("kind")
            if kind in (None, "null_value"):
                return None
            value = getattr(message, kind)
            return self.message(value) if isinstance(value, Message) else value
        if name == "google.protobuf.ListValue":
            return [self.message(each) for each in message.values]
        if name == "google.protobuf.Struct":
            return {key: self.message(value) for key, value in message.fields.items()}
        return {
            field.name: self._field(field, getattr(message, field.name))
            for field in message.DESCRIPTOR.fields
            if not field.has_presence or message.HasField(field.name)
        }

    def _field(self, field: FieldDescriptor, value: Any) -> Any:
        entry = field.message_type
        if field.is_repeated and entry is not None and entry.GetOptions().map_entry:
            of_value = entry.fields_by_name["value"]
            return {key: self._single(of_value, each) for key, each in value.items()}
        if field.is_repeated:
            return [self._single(field, each) for each in value]
        return self._single(field, value)

    def _single(self, field: FieldDescriptor, value: Any) -> Any:
        if field.message_type is not None:
            return self.message(value)
        self._take()
        if field.enum_type is not None:
            known = field.enum_type.values_by_number.get(value)
            return value if known is None else known.name
        return value


def _moment(stamp: Timestamp) -> datetime:
    try:
        return EPOCH + timedelta(seconds=stamp.seconds, microseconds=stamp.nanos // 1000)
    except OverflowError as e:
        raise BodyError(f"the body has a time of {stamp.seconds} s, which no calendar has") from e


def _duration(duration: Duration) -> timedelta:
    try:
        return timedelta(seconds=duration.seconds, microseconds=duration.nanos // 1000)
    except OverflowError as e:
        raise BodyError(f"the body has a duration of {duration.seconds} s") from e


def json_form(value: Any) -> Any:
    """Turns a plain value into the JSON form of Protobuf, which its library reads."""
    if isinstance(value, Mapping):
        return {str(key): json_form(each) for key, each in value.items() if each is not None}
    if isinstance(value, (list, tuple)):
        return [json_form(each) for each in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{Decimal(value // timedelta(microseconds=1)) / 1_000_000:f}s"
    if isinstance(value, (date, Decimal)):
        return str(value)
    return value
