"""Request codes of RocketMQ's controllers, and what to do instead."""

from __future__ import annotations

from pocketmq.protocol.codes import RequestCode as Code

_CONTROLLER = (
    "this name server knows nothing of broker sets: ask one with an arbiterPath, or a member of "
    "the set (mqadmin -a HOST:PORT)"
)

UNSUPPORTED: dict[Code, str] = dict.fromkeys(
    (
        Code.CONTROLLER_ALTER_SYNC_STATE_SET, Code.CONTROLLER_ELECT_MASTER,
        Code.CONTROLLER_REGISTER_BROKER, Code.CONTROLLER_GET_REPLICA_INFO,
        Code.CONTROLLER_GET_METADATA_INFO, Code.CONTROLLER_GET_SYNC_STATE_DATA,
        Code.GET_CONTROLLER_CONFIG, Code.UPDATE_CONTROLLER_CONFIG, Code.CLEAN_BROKER_DATA,
        Code.CONTROLLER_GET_NEXT_BROKER_ID, Code.CONTROLLER_APPLY_BROKER_ID,
    ),
    _CONTROLLER,
)  # fmt: skip
