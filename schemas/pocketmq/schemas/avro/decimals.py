"""Decimals of Avro, read with a bound.

fastavro makes a decimal of as many bytes as a body has, in time that grows with their square: a
million bytes hold the process up for minutes.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

import fastavro._read_py
import fastavro.read

from pocketmq.schemas.avro.types import SAFE_DECIMAL

DECIMAL_SIZE_MAX = 512
"""Bytes of a decimal: more than 1,200 digits."""


def _decimal(data: bytes, writer_schema: Any = None, reader_schema: Any = None) -> Decimal:
    if len(data) > DECIMAL_SIZE_MAX:
        raise ValueError(f"a decimal has {len(data)} bytes, and up to {DECIMAL_SIZE_MAX} are read")
    scale = int(writer_schema.get("scale", 0))
    digits = max(int(writer_schema["precision"]), 3 * len(data))
    unscaled = Decimal(int.from_bytes(data, "big", signed=True))
    return unscaled.scaleb(-scale, Context(prec=min(digits, 4 * DECIMAL_SIZE_MAX)))


_slow: Any = fastavro._read_py
for _readers in (fastavro.read.LOGICAL_READERS, _slow.LOGICAL_READERS):
    for _kind in ("bytes", "fixed"):
        _readers[f"{_kind}-{SAFE_DECIMAL}"] = _decimal
