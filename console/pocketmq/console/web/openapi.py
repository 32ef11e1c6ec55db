"""Makes the OpenAPI document of an API from its operations and their types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any, get_args

import msgspec

from pocketmq.console.web.operations import Api, Operation
from pocketmq.console.web.problems import MEDIA_TYPE, Problem
from pocketmq.runtime import VERSION

TEMPLATE = "#/components/schemas/{name}"

_NAMED = re.compile(r"\{(\w+)\}")


def document(operations: Iterable[Operation], api: Api) -> dict[str, Any]:
    """Makes the OpenAPI 3.1 document of an API's operations."""
    listed = list(operations)
    types: list[Any] = [Problem]
    for operation in listed:
        types += [kind for kind in (operation.gives, operation.body, operation.query) if kind]
    schemas, components = msgspec.json.schema_components(types, ref_template=TEMPLATE)
    schema_of = dict(zip(map(_key, types), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for operation in listed:
        described = _described(operation, schema_of, components)
        paths.setdefault(operation.path, {})[operation.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": api.title,
            "version": VERSION,
            "summary": api.summary,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {"schemas": {name: _plain(schema) for name, schema in components.items()}},
    }


def _key(kind: Any) -> str:
    return repr(kind)


def _described(
    operation: Operation, schema_of: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _NAMED.findall(operation.path)
    ]
    if operation.query is not None:
        fields = components[operation.query.__name__]["properties"]
        parameters += [
            {"name": name, "in": "query", "schema": schema} for name, schema in fields.items()
        ]
    answer = {operation.media: {"schema": schema_of[_key(operation.gives)]}}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "responses": {
            str(operation.status): {"description": "Done.", "content": answer},
            "default": {
                "description": "It was not done; the problem says why, and what helps.",
                "content": {MEDIA_TYPE: {"schema": schema_of[_key(Problem)]}},
            },
        },
    }
    if parameters:
        described["parameters"] = parameters
    if operation.body is not None:
        described["requestBody"] = {
            "required": not may_be_left_out(operation.body),
            "content": {"application/json": {"schema": schema_of[_key(operation.body)]}},
        }
    return described


def may_be_left_out(body: Any) -> bool:
    """Tells whether a request may leave out its body: no field of it is required."""
    if get_args(body):
        return False
    return not any(one.required for one in msgspec.structs.fields(body))


def _plain(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns a schema with its description laid out as text, not as a docstring."""
    if "description" in schema:
        return {**schema, "description": inspect.cleandoc(schema["description"])}
    return schema
