"""Values as bytes of Avro, and back."""

from __future__ import annotations

import json
from collections.abc import Sequence
from io import BytesIO
from typing import Any

import fastavro
import fastavro._read_py
from fastavro.schema import SchemaParseException, UnknownType

from pocketmq.schemas.avro import decimals as _decimals  # noqa: F401  (tells fastavro of them)
from pocketmq.schemas.avro.types import Measured, whole, with_safe_decimals
from pocketmq.schemas.errors import BodyError, SchemaError, ValueMismatchError
from pocketmq.schemas.schema import Schema

_READING = (
    *(ValueError, TypeError, LookupError, EOFError, ArithmeticError, RecursionError),
    *(AttributeError, MemoryError, fastavro.read.SchemaResolutionError),
)
"""What fastavro raises of bytes that do not fit."""


class AvroCodec:
    """Writes values by a schema of Avro, and reads bytes that were written by it.

    Args:
        schema: the writer's.
        references: all schemas that this one uses, each behind those that itself uses.
        reader: the schema of the values that `decode` returns: fields that it does not have are
            left out, and new ones get their default values; by default that of the writer.
        is_careful: read so that other threads go on meanwhile, which takes longer.

    Raises:
        SchemaError: it is no schema of Avro, or short bodies could become values of any size.
    """

    def __init__(
        self,
        schema: Schema,
        references: Sequence[Schema] = (),
        reader: AvroCodec | None = None,
        *,
        is_careful: bool = False,
    ) -> None:
        parsed = self.parsed = _parsed(schema, references)
        measured = Measured(parsed)
        safe = with_safe_decimals(parsed)
        self._writing, self._reading = fastavro.parse_schema(parsed), fastavro.parse_schema(safe)
        self._reader = None if reader is None else reader._reading
        # The compiled one goes as deep as a body says, until the process dies of its stack.
        self._read: Any = fastavro.schemaless_reader
        if is_careful or measured.is_recursive:
            self._read = fastavro._read_py.schemaless_reader

    def encode(self, value: object) -> bytes:
        """Writes a value: dicts for records, lists, strings, numbers, dates and so on.

        Raises:
            ValueMismatchError: the value does not fit the schema; the error names the field.
        """
        out = BytesIO()
        try:
            fastavro.schemaless_writer(out, self._writing, value, strict_allow_default=True)
        except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as e:
            raise ValueMismatchError(f"the value does not fit the schema: {_reason(e)}") from e
        return out.getvalue()

    def encode_indexed(self, value: object) -> bytes:
        """Writes what follows a frame; see `encode`."""
        return self.encode(value)

    def decode_indexed(self, payload: bytes) -> Any:
        """Reads what follows a frame; see `decode`."""
        return self.decode(payload)

    def decode(self, payload: bytes) -> Any:
        """Reads a value.

        Raises:
            BodyError: the bytes were not written by the schema, or the reader's cannot take them.
        """
        stream = BytesIO(payload)
        try:
            value = self._read(stream, self._reading, self._reader)
        except _READING as e:
            raise BodyError(f"the body does not fit its schema of Avro: {_reason(e)}") from e
        if rest := len(payload) - stream.tell():
            raise BodyError(f"the body goes on for {rest} bytes behind the value of its schema")
        return value


def _parsed(schema: Schema, references: Sequence[Schema]) -> Any:
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(json.loads(reference.text), named_schemas=named)
        return whole(fastavro.parse_schema(json.loads(schema.text), named_schemas=named), named)
    except UnknownType as e:
        raise SchemaError(
            f"the schema uses the type {e.name}, which neither it nor a reference defines"
        ) from e
    except (SchemaParseException, ValueError, TypeError, LookupError, RecursionError) as e:
        raise SchemaError(f"the text is no schema of Avro: {_reason(e)}") from e


def _reason(error: Exception) -> str:
    return str(error)[:500] or type(error).__name__
