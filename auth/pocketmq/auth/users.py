"""The users of a cluster (`auth/authentication/model/User`)."""

from __future__ import annotations

from enum import Enum

import msgspec

from pocketmq.protocol.signing import MASK


class UserType(Enum):
    """What a user may do: everything, or what its policies allow."""

    SUPER = "Super"
    NORMAL = "Normal"


class UserStatus(Enum):
    """Whether the requests of a user are taken."""

    ENABLE = "enable"
    DISABLE = "disable"


class User(msgspec.Struct, frozen=True):
    """One user.

    Attributes:
        username: its name, the AccessKey of its requests.
        password: the secret with which it signs them; never shown.
        user_type: Super or Normal.
        user_status: enabled or disabled.
        changed_ms: when the user or its policies were changed last.
    """

    username: str
    password: str
    user_type: UserType = UserType.NORMAL
    user_status: UserStatus = UserStatus.ENABLE
    changed_ms: int = 0

    def __repr__(self) -> str:
        return (
            f"User(username={self.username!r}, password={MASK!r}, "
            f"user_type={self.user_type.value!r}, user_status={self.user_status.value!r}, "
            f"changed_ms={self.changed_ms})"
        )
