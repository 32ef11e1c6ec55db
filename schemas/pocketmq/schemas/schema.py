"""A schema as registries hold it: a text, the language of the text, and what the text refers to."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from pocketmq.schemas.errors import SchemaError

SCHEMA_SIZE_MAX = 1024 * 1024
"""Bytes of a schema's text."""

REFERENCES_MAX = 100
"""Schemas to which one refers, with those to which these refer."""


class SchemaType(StrEnum):
    """The language of a schema."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


class SchemaReference(msgspec.Struct, frozen=True):
    """A schema that another one uses.

    Attributes:
        name: by which the other one uses it: the full name of a type of Avro, or the path of an
            import of Protobuf.
        subject: under which the registry holds it.
        version: of the subject.
    """

    name: str
    subject: str
    version: int


class Schema(msgspec.Struct, frozen=True):
    """A schema.

    Attributes:
        text: JSON of Avro, or the source of a file of Protobuf.
        type: the language of the text.
        references: the schemas that the text uses.
    """

    text: str
    type: SchemaType = SchemaType.AVRO
    references: tuple[SchemaReference, ...] = ()

    def check(self) -> None:
        """Refuses a schema that is larger than any that people write.

        Raises:
            SchemaError: the text is too long, or it refers to too many schemas.
        """
        if len(self.text) > SCHEMA_SIZE_MAX:
            raise SchemaError(
                f"the schema has {len(self.text)} characters, and up to {SCHEMA_SIZE_MAX} are read"
            )
        if len(self.references) > REFERENCES_MAX:
            raise SchemaError(
                f"the schema refers to {len(self.references)} others, and up to {REFERENCES_MAX} "
                f"are read"
            )


class RegisteredSchema(msgspec.Struct, frozen=True):
    """A schema with its place in the registry.

    Attributes:
        subject, version: where the registry holds it.
        id: by which bodies name it.
        schema: the schema.
    """

    subject: str
    version: int
    id: int
    schema: Schema
