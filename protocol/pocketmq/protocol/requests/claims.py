"""Fields with which a program says for whom it asks (PocketMQ's own): other servers pass over them.

They are no proof: whoever may send the request can write anything into them. The audit tells them
beside the user that was proven.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

PERSON, ADDRESS, REASON = "pqPerson", "pqAddress", "pqReason"
FIELDS = frozenset({PERSON, ADDRESS, REASON})
"""The names of the fields."""

CLAIM_LENGTH_MAX = 255
"""Characters of each; what is longer is cut."""


class Claim(msgspec.Struct, frozen=True, omit_defaults=True):
    """For whom a program asks, as it says.

    Attributes:
        person: who uses the program, such as the name at a login.
        address: from where.
        reason: why.
    """

    person: str = ""
    address: str = ""
    reason: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """The fields of a request; none for what is empty."""
        named = {PERSON: self.person, ADDRESS: self.address, REASON: self.reason}
        return {name: text[:CLAIM_LENGTH_MAX] for name, text in named.items() if text}


def claim_of(fields: Mapping[str, Any]) -> Claim | None:
    """Reads the fields of a request; None if there are none."""
    person, address, reason = (
        str(fields.get(name, ""))[:CLAIM_LENGTH_MAX] for name in (PERSON, ADDRESS, REASON)
    )
    return Claim(person, address, reason) if person or address or reason else None
