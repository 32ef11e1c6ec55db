"""Writes the hexadecimal digits of many numbers at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

UPPER = np.frombuffer("".join(f"{i:02X}" for i in range(256)).encode(), np.uint16)
LOWER = np.frombuffer("".join(f"{i:02x}" for i in range(256)).encode(), np.uint16)
"""The two digits of each octet."""


def put_digits(
    numbers: npt.NDArray[np.int64], rows: npt.NDArray[np.uint8], table: npt.NDArray[np.uint16]
) -> None:
    """Fills each row with the lowest digits of its number.

    Args:
        numbers: not negative.
        rows: as many, each of an even number of characters.
        table: `UPPER` or `LOWER`.
    """
    pairs = rows.view(np.uint16)
    # Column by column: one lookup for all rows costs a fifth of one that makes rows of pairs.
    for column, shift in enumerate(range(8 * pairs.shape[1] - 8, -1, -8)):
        pairs[:, column] = table[numbers >> shift & 0xFF]
