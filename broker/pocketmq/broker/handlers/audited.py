"""Which requests to a broker the audit notes, and what it says of what they change."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from pocketmq.auth.audit_log.audit import Audit, State
from pocketmq.auth.rights.acl_texts import info_of, subject_name
from pocketmq.auth.settings import SECRET_KEYS
from pocketmq.broker.parts import BrokerState
from pocketmq.protocol.bodies.clients import GroupConfig
from pocketmq.protocol.bodies.groups import GroupConfigList
from pocketmq.protocol.bodies.redrives import RedriveStart
from pocketmq.protocol.bodies.topics import TopicConfigList
from pocketmq.protocol.codes import RequestCode as Code
from pocketmq.protocol.signing import MASK
from pocketmq.protocol.wire.command import Command
from pocketmq.runtime.settings import properties_from_text
from pocketmq.transport.connection import Handler

_NAMES_MAX = 100
"""Topics or groups of one request that a line describes."""

_UNDESCRIBED = (
    Code.UPDATE_AND_CREATE_STATIC_TOPIC, Code.INVOKE_BROKER_TO_RESET_OFFSET,
    Code.CLONE_GROUP_OFFSET, Code.UPDATE_AND_GET_GROUP_FORBIDDEN, Code.RESUME_CHECK_HALF_MESSAGE,
    Code.TRIGGER_DELETE_FILES, Code.CLEAN_EXPIRED_CONSUMEQUEUE, Code.CLEAN_UNUSED_TOPIC,
    Code.DELETE_EXPIRED_COMMITLOG, Code.RESET_MASTER_FLUSH_OFFSET, Code.CHANGE_REDRIVE,
)  # fmt: skip
"""Their fields say it all."""


def audited(table: Mapping[int, Handler], audit: Audit, data: BrokerState) -> dict[int, Handler]:
    """Puts the audit before the handlers of requests that change more than messages.

    Args:
        table: the handlers by request code.
        audit: notes the changes.
        data: of the broker.
    """
    states = _states(data)
    return {
        code: audit.guard(handler, states.get(code))
        if code in states or code in _UNDESCRIBED
        else handler
        for code, handler in table.items()
    }


def _states(data: BrokerState) -> dict[int, State]:
    topic, group = partial(_topic, data), partial(_group, data)
    user, acl = partial(_user, data), partial(_acl, data)
    return {
        Code.UPDATE_AND_CREATE_TOPIC: lambda c: topic(c.fields.get("topic")),
        Code.DELETE_TOPIC_IN_BROKER: lambda c: topic(c.fields.get("topic")),
        Code.UPDATE_AND_CREATE_TOPIC_LIST: lambda c: [
            topic(config.topic_name)
            for config in TopicConfigList.of_request(c.body).topic_config_list[:_NAMES_MAX]
        ],
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: lambda c: group(
            GroupConfig.of_request(c.body).group_name
        ),
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: lambda c: [
            group(config.group_name)
            for config in GroupConfigList.of_request(c.body).group_config_list[:_NAMES_MAX]
        ],
        Code.DELETE_SUBSCRIPTIONGROUP: lambda c: group(c.fields.get("groupName")),
        Code.UPDATE_BROKER_CONFIG: partial(_settings, data),
        Code.START_REDRIVE: _order,
        Code.AUTH_CREATE_USER: user,
        Code.AUTH_UPDATE_USER: user,
        Code.AUTH_DELETE_USER: user,
        Code.AUTH_CREATE_ACL: acl,
        Code.AUTH_UPDATE_ACL: acl,
        Code.AUTH_DELETE_ACL: acl,
    }


def _topic(data: BrokerState, name: object) -> object:
    return data.topics.get(str(name))


def _group(data: BrokerState, name: object) -> object:
    return data.groups.get(str(name))


def _settings(data: BrokerState, command: Command) -> object:
    """The settings that a request names."""
    asked = properties_from_text(bytes(command.body).decode())
    now: dict[str, object] = msgspec.to_builtins(data.settings.now)
    return {key: MASK if key in SECRET_KEYS else now.get(key) for key in asked if key in now}


def _order(command: Command) -> object:
    """What a redrive is asked to do, without bodies of messages."""
    order = RedriveStart.of_request(bytes(command.body)).order
    edit = order.edit
    return {
        "action": order.action,
        "to": order.to,
        "selection": order.selection,
        "rate": order.rate,
        "reason": order.reason,
        "edits": [name for name in edit.__struct_fields__ if getattr(edit, name)],
    }


def _user(data: BrokerState, command: Command) -> object:
    user = data.users.user(str(command.fields.get("username")))
    if user is None:
        return None
    return {"type": user.user_type.value, "status": user.user_status.value}


def _acl(data: BrokerState, command: Command) -> object:
    acl = data.users.acl(subject_name(str(command.fields.get("subject"))))
    return None if acl is None else info_of(acl)
