"""Types of Avro as fastavro has parsed them: made whole, and measured by what bodies can do.

Who may send writes the bodies, and in many registries the schemas, too. fastavro makes the values
that a body asks for, whatever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pocketmq.schemas.errors import SchemaError

FREE_VALUES_MAX = 10_000
"""Values, such as nulls, that a body may get by a schema without any byte for them."""

NAMED = ("record", "error", "enum", "fixed")
RECORDS = ("record", "error")

SAFE_DECIMAL = "pocketmq-decimal"
"""The logical type of decimals while bodies are read: one of ours, with a bound (`decimals`)."""


def whole(parsed: Any, named: Mapping[str, Any]) -> Any:
    """Returns a parsed schema with the definitions of all types that it names and does not define.

    Args:
        parsed: by fastavro, which has made all names full ones.
        named: the definitions by their names.
    """
    seen: set[str] = set()

    def visit(node: Any) -> Any:
        if isinstance(node, str):
            return visit(named[node]) if node in named and node not in seen else node
        if isinstance(node, list):
            return [visit(each) for each in node]
        if node["type"] in NAMED:
            seen.add(node["name"])
        own = {key: value for key, value in node.items() if not key.startswith("__")}
        return _with_parts(own, visit)

    return visit(parsed)


def with_safe_decimals(node: Any) -> Any:
    """Returns a schema whose decimals are of the logical type `SAFE_DECIMAL`."""
    if isinstance(node, str):
        return node
    if isinstance(node, list):
        return [with_safe_decimals(each) for each in node]
    changed = {"logicalType": SAFE_DECIMAL} if node.get("logicalType") == "decimal" else {}
    return _with_parts({**node, **changed}, with_safe_decimals)


def _with_parts(node: dict[str, Any], visit: Callable[[Any], Any]) -> dict[str, Any]:
    """A copy of a type whose parts are replaced by what a function makes of them."""
    parts: dict[str, Any] = {}
    if node["type"] in RECORDS:
        parts["fields"] = [{**field, "type": visit(field["type"])} for field in node["fields"]]
    elif node["type"] == "array":
        parts["items"] = visit(node["items"])
    elif node["type"] == "map":
        parts["values"] = visit(node["values"])
    elif not isinstance(node["type"], str):
        parts["type"] = visit(node["type"])
    return {**node, **parts}


class _Cost(NamedTuple):
    """What a value costs its sender.

    Attributes:
        takes_bytes: whether every value takes a byte of the body.
        free_values: values that come without a byte, at the most.
    """

    takes_bytes: bool
    free_values: int


class Measured:
    """What bodies can do by a schema.

    Args:
        schema: made whole.

    Attributes:
        is_recursive: whether a type contains itself, so that the body says how deep its value is.

    Raises:
        SchemaError: a small body could become a value of any size.
    """

    def __init__(self, schema: Any) -> None:
        self.is_recursive = False
        self._under_way: set[str] = set()
        self._known: dict[str, _Cost] = {}
        try:
            self._cost(schema)
        except RecursionError as e:
            raise SchemaError("the schema is nested too deep") from e

    def _cost(self, node: Any) -> _Cost:
        if isinstance(node, list):
            return _Cost(
                True, self._checked(max((self._cost(n).free_values for n in node), default=0))
            )
        if isinstance(node, str):
            return self._of_name(node)
        kind = node["type"]
        if kind in RECORDS:
            return self._of_record(node)
        if kind == "array":
            if not self._cost(node["items"]).takes_bytes:
                raise SchemaError(
                    "the schema has an array whose items take no bytes, so that a short body could "
                    "have any number of them: give the items a field"
                )
            return _Cost(True, 0)
        if kind == "map":
            self._cost(node["values"])
            return _Cost(True, 0)
        if kind == "fixed":
            cost = self._known[node["name"]] = _Cost(node["size"] > 0, 1)
            return cost
        if kind == "enum":
            cost = self._known[node["name"]] = _Cost(True, 0)
            return cost
        return self._cost(kind)

    def _of_name(self, name: str) -> _Cost:
        if name in self._under_way:
            self.is_recursive = True
            return _Cost(False, 0)
        return self._known.get(name) or _Cost(name != "null", int(name == "null"))

    def _of_record(self, node: Any) -> _Cost:
        name = node["name"]
        self._under_way.add(name)
        costs = [self._cost(field["type"]) for field in node["fields"]]
        self._under_way.discard(name)
        free = self._checked(1 + sum(cost.free_values for cost in costs))
        cost = self._known[name] = _Cost(any(c.takes_bytes for c in costs), free)
        return cost

    def _checked(self, free_values: int) -> int:
        if free_values > FREE_VALUES_MAX:
            raise SchemaError(
                f"by the schema a byte of a body becomes more than {FREE_VALUES_MAX} values: have "
                f"fewer fields of the type null"
            )
        return free_values
