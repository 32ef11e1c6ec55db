"""What each request to a broker needs (`DefaultAuthorizationContextBuilder`, and where it is open).

Where RocketMQ asks for nothing, or believes what a request says of a message, this table is
stricter: see docs/departures.md.
"""

from __future__ import annotations

from pocketmq.auth.needs import bodies
from pocketmq.auth.needs.table import (
    ONLY_SUPER,
    NeedsTable,
    cluster,
    group,
    group_if_named,
    in_body,
    stored,
    topic,
    topic_if_named,
)
from pocketmq.auth.rights.policies import Action
from pocketmq.protocol.codes import RequestCode as Code

CREATE, DELETE, GET, PUB, SUB, UPDATE = (
    Action.CREATE,
    Action.DELETE,
    Action.GET,
    Action.PUB,
    Action.SUB,
    Action.UPDATE,
)

_LOCKS = (in_body("Group → Sub; each Topic of the body → Sub", bodies.locks),)
_PULL = (topic(SUB), group(SUB))
_SEND = (topic(PUB, retry=SUB),)
_SHORT_SEND = (topic(PUB, field="b", retry=SUB),)
_READ = (topic(SUB, GET),)
_SHOW = (cluster(GET),)
_CHANGE = (cluster(UPDATE),)
_GROUP_SHOW = (group(GET, field="group"),)
_BOTH_SUB = (group(SUB), topic(SUB))

BROKER_NEEDS: NeedsTable = {
    # messages
    Code.SEND_MESSAGE: _SEND,
    Code.SEND_MESSAGE_V2: _SHORT_SEND,
    Code.SEND_BATCH_MESSAGE: _SHORT_SEND,
    Code.BULK_APPEND: _SEND,
    Code.SEND_REPLY_MESSAGE: _SEND,
    Code.SEND_REPLY_MESSAGE_V2: _SHORT_SEND,
    Code.RECALL_MESSAGE: (topic(PUB),),
    Code.END_TRANSACTION: (
        stored(PUB, field="commitLogOffset", otherwise=topic_if_named(PUB)),
    ),
    Code.RESUME_CHECK_HALF_MESSAGE: (
        topic_if_named(UPDATE, otherwise=cluster(UPDATE)),
        stored(UPDATE, field="msgId", is_id=True),
    ),
    Code.PULL_MESSAGE: _PULL,
    Code.LITE_PULL_MESSAGE: _PULL,
    Code.BULK_PULL: _PULL,
    Code.QUERY_MESSAGE: _READ,
    Code.VIEW_MESSAGE_BY_ID: (
        topic_if_named(GET),
        stored(GET, field="offset", otherwise=topic_if_named(GET, otherwise=cluster(GET))),
    ),
    Code.QUERY_CONSUME_QUEUE: (topic(GET), group_if_named(GET)),
    Code.CONSUMER_SEND_MSG_BACK: (group(SUB, field="group"), stored(SUB, field="offset")),
    Code.CONSUME_MESSAGE_DIRECTLY: (
        group(SUB), topic_if_named(SUB), stored(SUB, field="msgId", is_id=True),
    ),
    # clients and offsets
    Code.HEART_BEAT: (
        in_body("each consumer Group → Sub; each subscribed Topic → Sub", bodies.heartbeat),
    ),
    Code.UNREGISTER_CLIENT: (group_if_named(SUB),),
    Code.GET_CONSUMER_LIST_BY_GROUP: (group(SUB, GET),),
    Code.CHECK_CLIENT_CONFIG: (in_body("Group → Sub; Topic → Sub", bodies.client_config),),
    Code.LOCK_BATCH_MQ: _LOCKS,
    Code.UNLOCK_BATCH_MQ: _LOCKS,
    Code.QUERY_CONSUMER_OFFSET: (topic(SUB, GET), group(SUB, GET)),
    Code.UPDATE_CONSUMER_OFFSET: (topic(SUB, UPDATE), group(SUB, UPDATE)),
    Code.SEARCH_OFFSET_BY_TIMESTAMP: _READ,
    Code.GET_MAX_OFFSET: _READ,
    Code.GET_MIN_OFFSET: _READ,
    Code.GET_EARLIEST_MSG_STORETIME: _READ,
    Code.GET_CONSUMER_CONNECTION_LIST: (group(GET),),
    Code.GET_PRODUCER_CONNECTION_LIST: _SHOW,
    Code.GET_ALL_PRODUCER_INFO: _SHOW,
    Code.GET_CONSUMER_RUNNING_INFO: (group(GET),),
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: (topic(GET), group(GET, field="group")),
    # topics
    Code.UPDATE_AND_CREATE_TOPIC: (topic(CREATE),),
    Code.UPDATE_AND_CREATE_TOPIC_LIST: (in_body("each Topic → Create", bodies.topics),),
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: (topic(CREATE),),
    Code.DELETE_TOPIC_IN_BROKER: (topic(DELETE),),
    Code.GET_ALL_TOPIC_CONFIG: _SHOW,
    Code.GET_TOPIC_CONFIG_LIST: _SHOW,
    Code.GET_TOPIC_NAME_LIST: _SHOW,
    Code.GET_TOPIC_CONFIG: (topic(GET),),
    Code.GET_TOPIC_STATS_INFO: (topic(GET),),
    Code.TOPIC_FIGURES: (in_body("each Topic → Get", bodies.topic_names),),
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: _SHOW,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: (topic(GET),),
    # groups
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: (
        in_body("Group → Create | Update", bodies.one_group),
    ),
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: (
        in_body("each Group → Create | Update", bodies.groups),
    ),
    Code.DELETE_SUBSCRIPTIONGROUP: (group(DELETE, field="groupName"),),
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: _SHOW,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: _GROUP_SHOW,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN: (group(UPDATE, field="group"), topic(UPDATE)),
    Code.GET_CONSUME_STATS: (
        group(GET), topic_if_named(GET),
        topic_if_named(GET, field="topicList", separator=";"),
    ),
    Code.GET_BROKER_CONSUME_STATS: _SHOW,
    Code.GET_ALL_CONSUMER_OFFSET: _SHOW,
    Code.GET_ALL_DELAY_OFFSET: _SHOW,
    Code.QUERY_CONSUME_TIME_SPAN: (topic(GET), group(GET, field="group")),
    Code.QUERY_CORRECTION_OFFSET: (
        group_if_named(GET, field="filterGroups", separator=","),
        group(GET, field="compareGroup"), topic(GET),
    ),
    Code.QUERY_TOPICS_BY_CONSUMER: _GROUP_SHOW,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: (group(GET, field="group"), topic_if_named(GET)),
    Code.INVOKE_BROKER_TO_RESET_OFFSET: (group(UPDATE, field="group"), topic(UPDATE)),
    Code.CLONE_GROUP_OFFSET: (
        group(UPDATE, field="destGroup"), topic_if_named(UPDATE, otherwise=cluster(UPDATE)),
    ),
    # the broker
    Code.UPDATE_BROKER_CONFIG: _CHANGE,
    Code.GET_BROKER_CONFIG: _SHOW,
    Code.GET_BROKER_RUNTIME_INFO: _SHOW,
    Code.VIEW_BROKER_STATS_DATA: _SHOW,
    Code.TRIGGER_DELETE_FILES: _CHANGE,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: _CHANGE,
    Code.CLEAN_UNUSED_TOPIC: _CHANGE,
    Code.DELETE_EXPIRED_COMMITLOG: _CHANGE,
    Code.GET_BROKER_HA_STATUS: _SHOW,
    Code.RESET_MASTER_FLUSH_OFFSET: _CHANGE,
    # users and policies
    Code.AUTH_CREATE_USER: _CHANGE,
    Code.AUTH_UPDATE_USER: _CHANGE,
    Code.AUTH_DELETE_USER: _CHANGE,
    Code.AUTH_GET_USER: _SHOW,
    Code.AUTH_LIST_USER: _SHOW,
    Code.AUTH_CREATE_ACL: _CHANGE,
    Code.AUTH_UPDATE_ACL: _CHANGE,
    Code.AUTH_DELETE_ACL: _CHANGE,
    Code.AUTH_GET_ACL: _SHOW,
    Code.AUTH_LIST_ACL: _SHOW,
    Code.AUTH_GET_TABLE: ONLY_SUPER,
    Code.JOIN_BROKER_SET: ONLY_SUPER,
    Code.FOLLOW_BROKER: ONLY_SUPER,
    Code.SWITCH_LEADER: _CHANGE,
    Code.BACKUP_TABLES: ONLY_SUPER,
    Code.BACKUP_LOGS: ONLY_SUPER,
    # dead letters
    Code.PLAN_REDRIVE: (group(UPDATE, field="group"), topic_if_named(PUB)),
    Code.START_REDRIVE: (group(UPDATE, field="group"), topic_if_named(PUB)),
    Code.CHANGE_REDRIVE: (group(UPDATE, field="group"),),
    Code.LIST_REDRIVES: _GROUP_SHOW,
    Code.REDRIVE_RESULTS: _GROUP_SHOW,
    Code.DEAD_LETTER_STATES: (group_if_named(GET, field="group", otherwise=cluster(GET)),),
    Code.DESCRIBE_MEMBER: _SHOW,
    Code.ELECT_MEMBER: _CHANGE,
    # what this broker refuses with a reason
    Code.GET_TIMER_CHECK_POINT: _SHOW,
    Code.GET_TIMER_METRICS: _SHOW,
    Code.REGISTER_FILTER_SERVER: _CHANGE,
    Code.REGISTER_MESSAGE_FILTER_CLASS: _CHANGE,
    Code.CHECK_ROCKSDB_CQ_WRITE_PROGRESS: (topic(GET),),
    Code.EXPORT_ROCKSDB_CONFIG_TO_JSON: _SHOW,
    Code.QUERY_ASSIGNMENT: (in_body("Topic → Sub; Group → Sub", bodies.assignment),),
    Code.SET_MESSAGE_REQUEST_MODE: (in_body("Group → Update", bodies.request_mode),),
    Code.GET_ALL_MESSAGE_REQUEST_MODE: _SHOW,
    Code.ADD_BROKER: _CHANGE,
    Code.REMOVE_BROKER: _CHANGE,
    Code.NOTIFY_MIN_BROKER_ID_CHANGE: _CHANGE,
    Code.EXCHANGE_BROKER_HA_INFO: _CHANGE,
    Code.CONTROLLER_ELECT_MASTER: _CHANGE,
    Code.CONTROLLER_GET_METADATA_INFO: _SHOW,
    Code.CONTROLLER_GET_SYNC_STATE_DATA: _SHOW,
    Code.GET_BROKER_EPOCH_CACHE: _SHOW,
    Code.NOTIFY_BROKER_ROLE_CHANGED: _CHANGE,
    Code.UPDATE_CONTROLLER_CONFIG: _CHANGE,
    Code.GET_CONTROLLER_CONFIG: _SHOW,
    Code.CLEAN_BROKER_DATA: _CHANGE,
    Code.CHECK_NOT_ACTIVE_BROKER_REQUEST: _CHANGE,
    Code.UPDATE_COLD_DATA_FLOW_CTR_CONFIG: _CHANGE,
    Code.REMOVE_COLD_DATA_FLOW_CTR_CONFIG: _CHANGE,
    Code.GET_COLD_DATA_FLOW_CTR_INFO: _CHANGE,
    Code.SET_COMMITLOG_READ_MODE: _CHANGE,
    Code.SWITCH_TIMER_ENGINE: _CHANGE,
    Code.POP_MESSAGE: _BOTH_SUB,
    Code.ACK_MESSAGE: _BOTH_SUB,
    Code.PEEK_MESSAGE: _BOTH_SUB,
    Code.CHANGE_MESSAGE_INVISIBLETIME: _BOTH_SUB,
    Code.NOTIFICATION: _BOTH_SUB,
    Code.POLLING_INFO: (group(GET), topic(GET)),
    Code.IN_FLIGHT: (group(GET), topic(GET)),
    Code.POP_ROLLBACK: _BOTH_SUB,
    Code.POP_LITE_MESSAGE: _BOTH_SUB,
    Code.LITE_SUBSCRIPTION_CTL: _SHOW,
    Code.ACK_LITE_MESSAGE: _BOTH_SUB,
    Code.GET_BROKER_LITE_INFO: _SHOW,
    Code.GET_PARENT_TOPIC_INFO: (topic(GET),),
    Code.GET_LITE_TOPIC_INFO: _SHOW,
    Code.GET_LITE_CLIENT_INFO: _SHOW,
    Code.GET_LITE_GROUP_INFO: _SHOW,
    Code.TRIGGER_LITE_DISPATCH: _CHANGE,
    Code.BATCH_ACK_MESSAGE: (
        in_body("each Group → Sub; each Topic → Sub", bodies.batch_ack),
    ),
}  # fmt: skip
"""The needs of requests to a broker, by code."""
