"""Settings that must be the same in all members of a broker set.

Each of them decides what an acknowledgement or a right means, or when a leader's lease ends: with
different values a switch would change that without a word. What only shapes files or speed may
differ (segmentSize, for members copy records, not files; slaveTimeout; limits).
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pocketmq.auth.stored import secret_box
from pocketmq.broker.config.config import ASYNC_MASTER, SYNC_MASTER, BrokerConfig

WHY = {
    "brokerRole": "it says whether a send waits for the in-sync members",
    "flushDiskType": "it says whether an acknowledged message is on the disk of each member",
    "minInSyncReplicas": "it says with how many members messages are taken",
    "leaderLease": "it says how long a member does not stand for election",
    "authenticationEnabled": "it says whether clients have to sign",
    "authorizationEnabled": "it says whether clients need rights",
    "secretsKeyPath": "the passwords of users are encrypted with it",
}
"""What each of them decides, for errors."""

FIXED_IN_SETS = frozenset({"flushDiskType"})
"""Those that a broker of its own may change at run time."""


def agreed_settings(config: BrokerConfig) -> dict[str, str]:
    """The values of a member, comparable; of the secret key only a fingerprint.

    Raises:
        ConfigError: the secret key cannot be used.
    """
    box = secret_box(config.secrets_key_path) if config.authentication_enabled else None
    return {
        "brokerRole": SYNC_MASTER if config.broker_role != ASYNC_MASTER else ASYNC_MASTER,
        "flushDiskType": config.flush_disk_type,
        "minInSyncReplicas": str(config.min_in_sync_replicas),
        "leaderLease": str(config.leader_lease),
        "authenticationEnabled": json.dumps(config.authentication_enabled),
        "authorizationEnabled": json.dumps(config.authorization_enabled),
        "secretsKeyPath": f"a key with the fingerprint {box.fingerprint}" if box else "no key",
    }


def difference(leader: Mapping[str, str], member: Mapping[str, str]) -> str | None:
    """What a member has to change to agree with its leader; None if nothing.

    Args:
        leader, member: their `agreed_settings`.
    """
    for key, why in WHY.items():
        theirs, ours = member.get(key, "not told"), leader.get(key, "not told")
        if theirs != ours:
            return (
                f"{key} is {theirs} in the member and {ours} in its leader: {why}, so it must be "
                f"the same in all members of a broker set"
            )
    return None
