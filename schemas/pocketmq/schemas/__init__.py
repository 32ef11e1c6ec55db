"""Bodies of messages by schemas of Avro and Protobuf, with a schema registry or without one."""

from pocketmq.schemas.bodies import Deserializer, Serializer, value_subject
from pocketmq.schemas.errors import (
    BodyError,
    IncompatibleSchemaError,
    RegistryError,
    RegistryUnavailableError,
    SchemaError,
    SchemaMissingError,
    ValueMismatchError,
)
from pocketmq.schemas.registry.registry import SchemaRegistry
from pocketmq.schemas.registry.settings import RegistrySettings, registry_settings
from pocketmq.schemas.schema import RegisteredSchema, Schema, SchemaReference, SchemaType
from pocketmq.schemas.schema_files import SchemaFile, read_schema_file

__all__ = [
    "BodyError",
    "Deserializer",
    "IncompatibleSchemaError",
    "RegisteredSchema",
    "RegistryError",
    "RegistrySettings",
    "RegistryUnavailableError",
    "Schema",
    "SchemaError",
    "SchemaFile",
    "SchemaMissingError",
    "SchemaReference",
    "SchemaRegistry",
    "SchemaType",
    "Serializer",
    "ValueMismatchError",
    "read_schema_file",
    "registry_settings",
    "value_subject",
]
