"""Column types of schemas, and values made to fit them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pocketmq.schemas.codecs import Codec
from pocketmq.spark.errors import OptionError

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from pyspark.sql.types import DataType

DECIMAL_PRECISION_MAX = 38

Fitting = Callable[[Any], Any]
"""Makes a decoded value one that PyArrow takes for a column type."""


def column_type(codec: Codec) -> DataType:
    """Returns the column type of the values that a codec reads.

    Enums and UUIDs become strings, times of the day too, and unsigned numbers of 64 bits decimals.

    Raises:
        OptionError: the schema has no column type: it is recursive, has a union of several types,
            or is of another language than Avro and Protobuf.
    """
    from pocketmq.schemas.protobuf.codec import ProtobufCodec

    if isinstance(codec, ProtobufCodec):
        return _message_type(codec.descriptor, ())
    parsed = getattr(codec, "parsed", None)
    if parsed is None:
        raise OptionError("bodies by JSON Schema become columns by Spark's own from_json")
    return _AvroTypes().type_of(parsed)


class _AvroTypes:
    """Column types of a schema of Avro."""

    def __init__(self) -> None:
        self._named: dict[str, DataType | None] = {}

    def type_of(self, node: Any) -> DataType:
        from pyspark.sql import types as t

        if isinstance(node, list):
            others = [each for each in node if each != "null"]
            if len(others) > 1:
                raise OptionError(
                    f"a union of several types has no column type: {others}"[:500]
                    + "; read the bodies with a schema that has one of them"
                )
            return self.type_of(others[0]) if others else t.NullType()
        if isinstance(node, str):
            return self._of_name(node)
        kind = node["type"]
        if (logical := _logical_type(node)) is not None:
            return logical
        if kind in ("record", "error"):
            return self._of_record(node)
        if kind == "array":
            return t.ArrayType(self.type_of(node["items"]))
        if kind == "map":
            return t.MapType(t.StringType(), self.type_of(node["values"]))
        if kind in ("enum", "fixed"):
            made = t.StringType() if kind == "enum" else t.BinaryType()
            self._named[node["name"]] = made
            return made
        return self.type_of(kind)

    def _of_name(self, name: str) -> DataType:
        from pyspark.sql import types as t

        primitives: dict[str, type[DataType]] = {
            "null": t.NullType, "boolean": t.BooleanType, "int": t.IntegerType,
            "long": t.LongType, "float": t.FloatType, "double": t.DoubleType,
            "bytes": t.BinaryType, "string": t.StringType,
        }  # fmt: skip
        if name in primitives:
            return primitives[name]()
        known = self._named.get(name)
        if known is None:
            raise _recursive(name)
        return known

    def _of_record(self, node: Any) -> DataType:
        from pyspark.sql import types as t

        self._named[node["name"]] = None
        fields = [t.StructField(f["name"], self.type_of(f["type"])) for f in node["fields"]]
        made = self._named[node["name"]] = t.StructType(fields)
        return made


def _logical_type(node: Any) -> DataType | None:
    from pyspark.sql import types as t

    kind, logical = node["type"], node.get("logicalType", "")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = node["precision"], node.get("scale", 0)
        if precision > DECIMAL_PRECISION_MAX:
            raise OptionError(
                f"a decimal of {precision} digits has no column type: Spark's have up to "
                f"{DECIMAL_PRECISION_MAX}"
            )
        return t.DecimalType(precision, scale)
    if logical.startswith("local-timestamp-") and kind == "long":
        return t.TimestampNTZType()
    if logical in ("timestamp-millis", "timestamp-micros") and kind == "long":
        return t.TimestampType()
    if logical == "date" and kind == "int":
        return t.DateType()
    if logical in ("time-millis", "time-micros") or (logical == "uuid" and kind == "string"):
        return t.StringType()
    return None


def _message_type(kind: Descriptor, above: tuple[str, ...]) -> DataType:
    from pyspark.sql import types as t

    from pocketmq.schemas.protobuf.values import WRAPPERS

    name = kind.full_name
    if name == "google.protobuf.Timestamp":
        return t.TimestampType()
    if name == "google.protobuf.Duration":
        return t.DayTimeIntervalType()
    if name in WRAPPERS:
        return _field_type(kind.fields_by_name["value"], above)
    if name in above:
        raise _recursive(name)
    return t.StructType(
        [t.StructField(f.name, _field_type(f, (*above, name))) for f in kind.fields]
    )


def _field_type(field: FieldDescriptor, above: tuple[str, ...]) -> DataType:
    from pyspark.sql import types as t

    entry = field.message_type
    if field.is_repeated and entry is not None and entry.GetOptions().map_entry:
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        return t.MapType(_single_type(key, above), _single_type(value, above))
    single = _single_type(field, above)
    return t.ArrayType(single) if field.is_repeated else single


def _single_type(field: FieldDescriptor, above: tuple[str, ...]) -> DataType:
    from pyspark.sql import types as t

    if field.message_type is not None:
        return _message_type(field.message_type, above)
    if field.cpp_type == field.CPPTYPE_STRING:
        return t.BinaryType() if field.type == field.TYPE_BYTES else t.StringType()
    if field.cpp_type == field.CPPTYPE_UINT64:
        return t.DecimalType(20, 0)
    kinds: dict[int, type[DataType]] = {
        field.CPPTYPE_INT32: t.IntegerType, field.CPPTYPE_INT64: t.LongType,
        field.CPPTYPE_UINT32: t.LongType, field.CPPTYPE_DOUBLE: t.DoubleType,
        field.CPPTYPE_FLOAT: t.FloatType, field.CPPTYPE_BOOL: t.BooleanType,
        field.CPPTYPE_ENUM: t.StringType,
    }  # fmt: skip
    return kinds[field.cpp_type]()


def _recursive(name: str) -> OptionError:
    return OptionError(
        f"type {name} contains itself and has no column type: read the bodies with a schema that "
        f"leaves it out"
    )


def fitting(kind: DataType) -> Fitting | None:
    """Returns what makes decoded values fit a column type; None if they do already."""
    from pyspark.sql import types as t

    if isinstance(kind, t.StringType):
        return lambda value: value if value is None else str(value)
    if isinstance(kind, t.StructType):
        parts = [(f.name, made) for f in kind if (made := fitting(f.dataType)) is not None]
        if not parts:
            return None
        return lambda value: (
            value
            and {
                **value,
                **{name: fit(value[name]) for name, fit in parts if name in value},
            }
        )
    if isinstance(kind, t.ArrayType):
        item = fitting(kind.elementType)
        return item and (lambda value: value and [item(each) for each in value])
    if isinstance(kind, t.MapType):
        held = fitting(kind.valueType)
        return held and (lambda value: value and {key: held(each) for key, each in value.items()})
    return None
