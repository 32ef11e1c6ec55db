"""The client of a schema registry: Confluent's, or another one with the same HTTP API."""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from pocketmq.runtime.clock import Clock, SystemClock
from pocketmq.schemas.errors import (
    IncompatibleSchemaError,
    RegistryError,
    RegistryUnavailableError,
    SchemaError,
    SchemaMissingError,
    anew,
)
from pocketmq.schemas.registry.calls import RegistryCalls
from pocketmq.schemas.registry.recent import Recent
from pocketmq.schemas.registry.settings import RegistrySettings
from pocketmq.schemas.schema import (
    REFERENCES_MAX,
    RegisteredSchema,
    Schema,
    SchemaReference,
    SchemaType,
)

CACHE_SIZE = 1000
"""Schemas that are remembered; what an id or a version stands for never changes."""

MISSING_S = 30.0
"""For so long an id is not asked for again that the registry did not know."""

UNAVAILABLE_S = 10.0
"""For so long a registry is not asked again that gave no answer."""

PROBLEMS_MAX = 5
"""Problems of an incompatible schema that an error names."""

T = TypeVar("T")


class _Stored(msgspec.Struct):
    """A schema, as the registry answers with it."""

    schema: str
    schemaType: str = "AVRO"  # noqa: N815 - the registry's names
    references: list[SchemaReference] | None = None
    subject: str = ""
    version: int = 0
    id: int = 0


class _Id(msgspec.Struct):
    id: int


class _Verdict(msgspec.Struct):
    is_compatible: bool
    messages: list[str] | None = None


class SchemaRegistry:
    """Asks a schema registry, and remembers what it said.

    Every method may be called from any thread, and waits for the registry; within asyncio, call it
    by `asyncio.to_thread`. Each raises `RegistryUnavailableError` if there is no answer, at once
    for `UNAVAILABLE_S` after that, and `RegistryError` if the registry refuses.

    Args:
        settings: where the registry is.
        clock: tells how long failures are remembered.

    Raises:
        ConfigError: the settings cannot work.
    """

    def __init__(self, settings: RegistrySettings, clock: Clock | None = None) -> None:
        self._calls = RegistryCalls(settings)
        self._clock = clock or SystemClock()
        self._by_id: Recent[int, Schema] = Recent(CACHE_SIZE)
        self._by_version: Recent[tuple[str, int], RegisteredSchema] = Recent(CACHE_SIZE)
        self._missing: Recent[int, tuple[float, SchemaMissingError]] = Recent(CACHE_SIZE)
        self._unavailable: tuple[float, RegistryUnavailableError] | None = None

    def schema(self, schema_id: int) -> Schema:
        """Returns the schema that an id stands for.

        Raises:
            SchemaMissingError: there is none; the registry is asked again after `MISSING_S`.
        """
        if (known := self._by_id.get(schema_id)) is not None:
            return known
        if (missing := self._missing.get(schema_id)) and self._clock.monotonic() < missing[0]:
            raise anew(missing[1])
        try:
            stored = self._get(f"/schemas/ids/{schema_id}", _Stored)
        except SchemaMissingError as e:
            told = SchemaMissingError(
                f"{e}; the body names schema {schema_id}: is it of another registry?", e.code
            )
            self._missing.put(schema_id, (self._clock.monotonic() + MISSING_S, told))
            raise told from e
        return self._by_id.put(schema_id, _schema(stored))

    def latest(self, subject: str) -> RegisteredSchema:
        """Returns the newest schema of a subject; it is asked for each time.

        Raises:
            SchemaMissingError: the subject has none.
        """
        return self._version(subject, "latest")

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """Returns a version of a subject.

        Raises:
            SchemaMissingError: there is none.
        """
        known = self._by_version.get((subject, version))
        return known or self._by_version.put(
            (subject, version), self._version(subject, str(version))
        )

    def register(self, subject: str, schema: Schema) -> int:
        """Makes a schema the newest of a subject, unless it is there already; returns its id.

        Raises:
            IncompatibleSchemaError: the subject's compatibility level forbids it; the error names
                the problems.
            SchemaError: the registry takes it for no schema.
        """
        try:
            found = self._post(f"/subjects/{_quoted(subject)}/versions", schema, _Id)
        except IncompatibleSchemaError as e:
            raise _incompatible(subject, self._problems_or_none(subject, schema) or [str(e)]) from e
        self._by_id.put(found.id, schema)
        return found.id

    def lookup(self, subject: str, schema: Schema) -> RegisteredSchema:
        """Returns where a subject holds a schema.

        Raises:
            SchemaMissingError: the subject does not hold this schema.
        """
        stored = self._post(f"/subjects/{_quoted(subject)}", schema, _Stored)
        return _registered(stored)

    def problems(self, subject: str, schema: Schema) -> list[str]:
        """Returns why the subject's compatibility level forbids a schema; nothing if it does not.

        Raises:
            SchemaMissingError: the subject has no schema to compare with.
        """
        path = f"/compatibility/subjects/{_quoted(subject)}/versions/latest?verbose=true"
        verdict = self._post(path, schema, _Verdict)
        return [] if verdict.is_compatible else (verdict.messages or ["the registry says no more"])

    def check_compatible(self, subject: str, schema: Schema) -> None:
        """Refuses a schema that `register` would refuse; nothing is registered.

        Raises:
            IncompatibleSchemaError: see `register`.
        """
        try:
            problems = self.problems(subject, schema)
        except SchemaMissingError:  # a new subject takes any schema
            return
        if problems:
            raise _incompatible(subject, problems)

    def references_of(self, schema: Schema) -> list[tuple[str, Schema]]:
        """Returns all schemas that one uses, each behind those that itself uses, with their names.

        Raises:
            SchemaMissingError: one of them does not exist.
            SchemaError: there are too many of them, or they go in circles.
        """
        found: dict[str, Schema] = {}
        under_way: set[str] = set()

        def visit(parent: Schema) -> None:
            parent.check()
            for reference in parent.references:
                if reference.name in found:
                    continue
                if reference.name in under_way or len(under_way) + len(found) >= REFERENCES_MAX:
                    raise SchemaError(
                        f"the references of the schema go in circles, or are more than "
                        f"{REFERENCES_MAX}, at {reference.name}"
                    )
                under_way.add(reference.name)
                used = self.version(reference.subject, reference.version).schema
                visit(used)
                under_way.discard(reference.name)
                found[reference.name] = used

        visit(schema)
        return list(found.items())

    def _version(self, subject: str, version: str) -> RegisteredSchema:
        return _registered(self._get(f"/subjects/{_quoted(subject)}/versions/{version}", _Stored))

    def _problems_or_none(self, subject: str, schema: Schema) -> list[str]:
        try:
            return self.problems(subject, schema)
        except RegistryError:  # the refusal itself is what counts
            return []

    def _get(self, path: str, kind: type[T]) -> T:
        return self._asked(lambda: self._calls.get(path), kind)

    def _post(self, path: str, schema: Schema, kind: type[T]) -> T:
        schema.check()
        document: dict[str, Any] = {"schema": schema.text}
        if schema.type is not SchemaType.AVRO:
            document["schemaType"] = schema.type
        if schema.references:
            document["references"] = schema.references
        return self._asked(lambda: self._calls.post(path, document), kind)

    def _asked(self, call: Any, kind: type[T]) -> T:
        if self._unavailable is not None and self._clock.monotonic() < self._unavailable[0]:
            raise anew(self._unavailable[1])
        try:
            answer = call()
        except RegistryUnavailableError as e:
            self._unavailable = (self._clock.monotonic() + UNAVAILABLE_S, e)
            raise
        try:
            return msgspec.convert(answer, kind)
        except msgspec.ValidationError as e:
            raise RegistryError(f"the schema registry gives an answer of another kind: {e}") from e


def _incompatible(subject: str, problems: list[str]) -> IncompatibleSchemaError:
    return IncompatibleSchemaError(
        f"the schema is not compatible with what subject {subject} holds: "
        f"{'; '.join(problems[:PROBLEMS_MAX])}. Change the schema (a new field with a default "
        f"value is compatible), or register it under another subject",
        409,
    )


def _quoted(subject: str) -> str:
    return quote(subject, safe="")


def _schema(stored: _Stored) -> Schema:
    try:
        kind = SchemaType(stored.schemaType)
    except ValueError as e:
        raise SchemaError(
            f"a schema of type {stored.schemaType} is none of Avro, Protobuf or JSON Schema"
        ) from e
    schema = Schema(stored.schema, kind, tuple(stored.references or ()))
    schema.check()
    return schema


def _registered(stored: _Stored) -> RegisteredSchema:
    return RegisteredSchema(stored.subject, stored.version, stored.id, _schema(stored))
