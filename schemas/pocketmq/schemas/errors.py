"""What goes wrong with schemas: at the registry, with a schema, with a value, with a body."""

from __future__ import annotations

from typing import TypeVar

from pocketmq.protocol.errors import ContentError, OperatingError, UsageError

E = TypeVar("E", bound=Exception)


def anew(error: E) -> E:
    """Returns an equal error, to be raised again: one that is raised twice keeps all its traces."""
    return type(error)(*error.args)


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
        super().__init__(text, code)
        self.code = code

    def __str__(self) -> str:
        return str(self.args[0])


class RegistryUnavailableError(RegistryError):
    """The registry gives no answer, or none that can be read; another try may succeed."""


class SchemaMissingError(RegistryError):
    """The registry has no such subject (40401), version (40402) or schema (40403)."""


class IncompatibleSchemaError(RegistryError):
    """The registry refuses a schema with which readers of the subject could not live (409)."""
