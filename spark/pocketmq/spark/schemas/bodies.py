"""Columns of bodies: decoded to their values, and encoded by a schema, in tasks of Python."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from pocketmq.schemas.bodies import Deserializer, Serializer
from pocketmq.schemas.codecs import Codec, codec_of
from pocketmq.schemas.errors import BodyError, SchemaError, SchemaMissingError
from pocketmq.schemas.registry.registry import SchemaRegistry
from pocketmq.schemas.registry.settings import RegistrySettings, registry_settings
from pocketmq.schemas.schema import Schema
from pocketmq.schemas.schema_files import read_schema_file
from pocketmq.spark.errors import OptionError
from pocketmq.spark.schemas.types import column_type, fitting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType

VALUE = "value"
RAW = "rawValue"
"""The column of bodies that could not be decoded."""

TASK_OBJECTS_MAX = 20
"""Serializers and deserializers that a Python process of Spark keeps."""


class BodySchema(msgspec.Struct, frozen=True, kw_only=True):
    """A schema as tasks take it along.

    Attributes:
        schema: the schema.
        references: all schemas that it uses, by the names by which it does.
        message: the full name of the message type of Protobuf.
        schema_id: of the registry, for bodies with a frame.
        registry: has the schemas that frames name; None if bodies have no frame.
    """

    schema: Schema
    references: tuple[tuple[str, Schema], ...] = ()
    message: str | None = None
    schema_id: int | None = None
    registry: RegistrySettings | None = None

    def codec(self) -> Codec:
        """Returns the codec of the schema."""
        return codec_of(self.schema, dict(self.references), self.message)


def reading_schema(
    schema: str | None = None,
    *,
    registry: str | RegistrySettings | None = None,
    subject: str | None = None,
) -> BodySchema:
    """Finds the schema by which bodies become columns; waits for the registry.

    Args:
        schema: a file, see `read_schema_file`: the reader's if there is a registry, and else that
            of all bodies.
        registry: the address of the registry, or how it is reached; by default as the environment
            says.
        subject: whose newest schema is the reader's if no file is given.

    Raises:
        OptionError: it is not said by which schema.
        SchemaError: the file cannot be read, or its schema cannot be used.
        SchemaMissingError: the subject has no schema.
        RegistryError: the registry refuses, or does not answer.
    """
    settings = registry if isinstance(registry, RegistrySettings) else registry_settings(registry)
    if schema is not None:
        file = read_schema_file(schema)
        return BodySchema(schema=file.schema, message=file.message, registry=settings)
    if settings is None or subject is None:
        raise OptionError(
            "bodies are decoded by a schema: give its file, or a schema registry and the subject"
        )
    client = SchemaRegistry(settings)
    newest = client.latest(subject)
    return BodySchema(
        schema=newest.schema,
        references=tuple(client.references_of(newest.schema)),
        registry=settings,
    )


def writing_schema(
    schema: str | None = None,
    *,
    registry: str | RegistrySettings | None = None,
    subject: str | None = None,
    registers: bool = True,
    is_dry: bool = False,
) -> BodySchema:
    """Finds the schema by which columns become bodies; waits for the registry.

    Args:
        schema: a file, see `read_schema_file`; by default the newest schema of the subject.
        registry: see `reading_schema`; if the environment names none either, bodies have no frame.
        subject: of the registry.
        registers: whether a schema that the subject does not hold becomes its newest.
        is_dry: only find out whether the registry would take the schema; bodies have no frame then.

    Raises:
        OptionError: it is not said by which schema.
        IncompatibleSchemaError: the subject's compatibility level forbids the schema.
        SchemaError, SchemaMissingError, RegistryError: see `reading_schema`.
    """
    settings = registry if isinstance(registry, RegistrySettings) else registry_settings(registry)
    file = None if schema is None else read_schema_file(schema)
    if settings is None:
        if file is None:
            raise OptionError(
                "bodies are encoded by a schema: give its file, or a schema registry and a subject"
            )
        return BodySchema(schema=file.schema, message=file.message)
    if subject is None:
        raise OptionError("the schema registry holds schemas by subject: give one")
    client = SchemaRegistry(settings)
    if is_dry and file is not None:
        client.check_compatible(subject, file.schema)
        used = tuple(client.references_of(file.schema))
        return BodySchema(schema=file.schema, references=used, message=file.message)
    made = Serializer.registered(
        client,
        subject,
        file and file.schema,
        message=file and file.message,
        registers=registers,
    )
    return BodySchema(
        schema=made.schema,
        references=tuple(client.references_of(made.schema)),
        message=file and file.message,
        schema_id=made.schema_id,
    )


def decoded(messages: DataFrame, by: BodySchema, *, keeps_undecoded: bool = False) -> DataFrame:
    """Decodes the bodies of messages: the column ``value`` gets the type of the schema.

    It works on batches and streams, and needs no jar. Bodies that an older or newer schema wrote
    become values of this one: what it does not have is left out, what is new has its default.

    Args:
        messages: as a read gives them.
        by: see `reading_schema`.
        keeps_undecoded: do not fail at a body that cannot be decoded: its ``value`` is null, and
            the body is in a column ``rawValue``, which is null for all others.

    Raises:
        OptionError: the schema has no column type.
    """
    from pyspark.sql.types import BinaryType, StructField, StructType

    kind = column_type(by.codec())
    fields = [StructField(f.name, kind if f.name == VALUE else f.dataType) for f in messages.schema]
    if keeps_undecoded:
        fields.append(StructField(RAW, BinaryType()))
    table = StructType(fields)

    def decode(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield _decoded_batch(batch, by, kind, keeps_undecoded)

    return messages.mapInArrow(decode, table)


def encoded(rows: DataFrame, by: BodySchema) -> DataFrame:
    """Encodes the column ``value`` by a schema: it becomes bytes, as a write takes them.

    Args:
        rows: with a column ``value`` of structs with the names of the schema's fields.
        by: see `writing_schema`.
    """
    from pyspark.sql.types import BinaryType, StructField, StructType

    fields = [
        StructField(f.name, BinaryType() if f.name == VALUE else f.dataType) for f in rows.schema
    ]

    def encode(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        for batch in batches:
            serializer = _serializer(by)
            values = batch.column(VALUE).to_pylist(maps_as_pydicts="strict")
            bodies = [None if value is None else serializer.encode(value) for value in values]
            yield _with_values(batch, pa.array(bodies, pa.binary()))

    return rows.mapInArrow(encode, StructType(fields))


@lru_cache(TASK_OBJECTS_MAX)
def _serializer(by: BodySchema) -> Serializer:
    return Serializer(by.schema, by.schema_id, dict(by.references), by.message)


@lru_cache(TASK_OBJECTS_MAX)
def _deserializer(by: BodySchema) -> Deserializer:
    references = dict(by.references)
    if by.registry is None:
        return Deserializer(writer=by.schema, references=references, message=by.message)
    return Deserializer(
        SchemaRegistry(by.registry), reader=by.schema, references=references, message=by.message
    )


def _decoded_batch(batch: Any, by: BodySchema, kind: DataType, keeps_undecoded: bool) -> Any:
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    deserializer, fit = _deserializer(by), fitting(kind)
    values: list[Any] = []
    raw: list[bytes | None] = []
    for row, body in enumerate(batch.column(VALUE).to_pylist()):
        kept, value = None, None
        try:
            value = None if body is None else deserializer.decode(_bytes(body))
        except (BodyError, SchemaError, SchemaMissingError) as e:
            if not keeps_undecoded:
                raise BodyError(f"the body of {_place(batch, row)} cannot be decoded: {e}") from e
            kept = _bytes(body)
        values.append(value if fit is None else fit(value))
        raw.append(kept)
    arrow_type = to_arrow_type(kind, timezone="UTC")
    made = _with_values(batch, pa.array(values, arrow_type))
    return made.append_column(RAW, pa.array(raw, pa.binary())) if keeps_undecoded else made


def _bytes(body: bytes | str) -> bytes:
    return body.encode() if isinstance(body, str) else body


def _place(batch: Any, row: int) -> str:
    """Where a message is, as far as the columns tell."""
    names = [
        n for n in ("topic", "brokerName", "queueId", "queueOffset") if n in batch.schema.names
    ]
    found = " ".join(f"{name} {batch.column(name)[row].as_py()}" for name in names)
    return found or "a message"


def _with_values(batch: Any, values: Any) -> Any:
    import pyarrow as pa

    index = batch.schema.get_field_index(VALUE)
    columns = [values if i == index else column for i, column in enumerate(batch.columns)]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
