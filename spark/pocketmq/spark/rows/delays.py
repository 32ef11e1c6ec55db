"""When rows want to be delivered."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


class Delays(NamedTuple):
    """When rows want to be delivered; arrays of one length.

    Attributes:
        levels: the delay level of each row; 0 for none.
        at_ms: the deliver time of each row, milliseconds since the epoch; 0 for none.
    """

    levels: Ints
    at_ms: Ints

    @property
    def is_set(self) -> npt.NDArray[np.bool_]:
        """Which rows want to be delayed."""
        wanted: npt.NDArray[np.bool_] = (self.levels != 0) | (self.at_ms != 0)
        return wanted

    def take(self, indices: Any) -> Delays:
        """Picks the delays of some rows, given as an Arrow array."""
        return Delays(self.levels[indices], self.at_ms[indices])

    def slice(self, start: int, size: int) -> Delays:
        """Cuts out the delays of rows that stand side by side."""
        return Delays(self.levels[start : start + size], self.at_ms[start : start + size])
