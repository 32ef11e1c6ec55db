"""What goes wrong with schemas: at the registry, with a schema, with a value, with a body."""

from __future__ import annotations

from pocketmq.protocol.errors import ContentError, OperatingError, UsageError


class SchemaError(UsageError):
    """A schema cannot be read, or a library that reads schemas of its kind is not installed."""


class ValueMismatchError(UsageError):
    """A value does not fit the schema by which it should become a body."""


class BodyError(ContentError):
    """A body does not fit its schema, or has no frame that names one."""


class RegistryError(OperatingError):
    """The schema registry did not do what it was asked for.

    Attributes:
        code: the registry's error code, as 40401, else the HTTP status; 0 if there is no answer.
    """

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


class RegistryUnavailableError(RegistryError):
    """The registry gives no answer, or none that can be read; another try may succeed."""


class SchemaMissingError(RegistryError):
    """The registry has no such subject (40401), version (40402) or schema (40403)."""


class IncompatibleSchemaError(RegistryError):
    """The registry refuses a schema with which readers of the subject could not live (409)."""
