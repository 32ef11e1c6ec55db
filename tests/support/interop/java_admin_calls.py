"""What is called of Apache's DefaultMQAdminExt, see `java_calls`: what the dashboard is made of."""

from __future__ import annotations

import re
from typing import Any

from support.interop.java_calls import (
    NO_MESSAGE,
    NOT_SUPPORTED,
    QUEUE_ASKED,
    SYSTEM_ERROR,
    TOPIC_NOT_EXIST,
    Call,
    Check,
)

ALL = 32
GROUP = {"groupName": "{group}-made", "retryMaxTimes": 3}
TOPIC = {"topicName": "{topic}-made", "readQueueNums": 3, "writeQueueNums": 3, "perm": 6}


def _ask(signature: str, *arguments: object, check: Check | None = None) -> Call:
    return Call("admin", signature, list(arguments), check)


def _refuse(signature: str, *arguments: object, code: int = NOT_SUPPORTED) -> Call:
    """What does not apply here: Apache's broker may say what it likes."""
    return Call("admin", signature, list(arguments), refused=code, is_there=False)


def _done(result: Any) -> bool:
    """Whether an AdminToolResult says that it worked."""
    return bool(result["code"] == 200)


def _tracked(tracks: Any) -> bool:
    """Whether the listeners' group consumed the message, and the other two groups pull."""
    return sorted(one["trackType"] for one in tracks) == ["CONSUMED", "PULL", "PULL"]


def _tracked_at_once(tracks: Any) -> bool:
    """The same, but for what Java loses: it adds to a plain ArrayList from several threads."""
    left = ["CONSUMED", "PULL", "PULL"]
    for one in filter(None, tracks):
        if one["trackType"] not in left:
            return False
        left.remove(one["trackType"])
    return len(left) < 3


MADE = (
    _ask("createTopic(String, String, int, Map)", "{cluster}", "{topic}-a1", 2, {}),
    _ask("createTopic(String, String, int, int, Map)", "{cluster}", "{topic}-a2", 2, 0, {}),
    _ask("createTopic(String, String, int)", "TBW102", "{topic}-a3", 2),
    _ask("createTopic(String, String, int, int)", "TBW102", "{topic}-a4", 2, 0),
    _ask("createAndUpdateTopicConfig(String, TopicConfig)", "{broker}", TOPIC),
    _ask(
        "createAndUpdateTopicConfigList(String, List)",
        "{broker}",
        [TOPIC | {"topicName": "{topic}-made-2"}, TOPIC | {"topicName": "{topic}-made-3"}],
    ),
    _ask(
        "createAndUpdateSubscriptionGroupConfig(String, SubscriptionGroupConfig)",
        "{broker}",
        GROUP,
    ),
    _ask(
        "createAndUpdateSubscriptionGroupConfigList(String, List)",
        "{broker}",
        [GROUP | {"groupName": "{group}-made-2"}],
    ),
    _ask(
        "examineTopicConfig(String, String)",
        "{broker}",
        "{topic}-made",
        check=lambda topic: topic["readQueueNums"] == 3,
    ),
    _ask(
        "examineSubscriptionGroupConfig(String, String)",
        "{broker}",
        "{group}-made",
        check=lambda group: group["retryMaxTimes"] == 3,
    ),
)

LISTED = (
    _ask(
        "examineBrokerClusterInfo()",
        check=lambda all_: all_["clusterAddrTable"] and all_["brokerAddrTable"],
    ),
    _ask(
        "fetchAllTopicList()",
        check=lambda topics: len(topics["topicList"]) > 5,
    ),
    _ask(
        "fetchTopicsByCLuster(String)",
        "{cluster}",
        check=lambda topics: len(topics["topicList"]) > 5,
    ),
    _ask(
        "getAllTopicConfig(String, long)",
        "{broker}",
        10_000,
        check=lambda all_: "TBW102" in all_["topicConfigTable"],
    ),
    _ask(
        "getUserTopicConfig(String, boolean, long)",
        "{broker}",
        False,
        10_000,
        check=lambda all_: "TBW102" not in all_["topicConfigTable"],
    ),
    _ask(
        "getAllSubscriptionGroup(String, long)",
        "{broker}",
        10_000,
        check=lambda all_: len(all_["subscriptionGroupTable"]) > 2,
    ),
    _ask(
        "getUserSubscriptionGroup(String, long)",
        "{broker}",
        10_000,
        check=lambda all_: "SELF_TEST_C_GROUP" not in all_["subscriptionGroupTable"],
    ),
    _ask(
        "examineTopicRouteInfo(String)",
        "{topic}",
        check=lambda route: route["queueDatas"][0]["readQueueNums"] == 2,
    ),
    # Apache's client answers this itself, with nothing.
    _ask("getClusterList(String)", "{topic}", check=lambda names: names == []),
    _ask("getTopicClusterList(String)", "{topic}", check=lambda names: len(names) == 1),
    _ask("getNameServerAddressList()", check=lambda addresses: len(addresses) == 1),
)

FIGURES = (
    _ask(
        "examineTopicStats(String)",
        "{topic}",
        check=lambda stats: sum(q["maxOffset"] for q in stats["offsetTable"].values()) >= 6,
    ),
    _ask(
        "examineTopicStats(String, String)",
        "{broker}",
        "{topic}",
        check=lambda stats: len(stats["offsetTable"]) == 2,
    ),
    _ask("examineTopicStatsConcurrent(String)", "{topic}", check=_done),
    _ask(
        "examineConsumeStats(String)",
        "{group}",
        check=lambda stats: len(stats["offsetTable"]) >= 2,
    ),
    _ask(
        "examineConsumeStats(String, String)",
        "{group}",
        "{topic}",
        check=lambda stats: len(stats["offsetTable"]) == 2,
    ),
    _ask("examineConsumeStats(String, String, String)", "{cluster}", "{group}", "{topic}"),
    _ask(
        "examineConsumeStats(String, String, String, long)",
        "{broker}",
        "{group}",
        "{topic}",
        10_000,
        check=lambda stats: len(stats["offsetTable"]) == 2,
    ),
    _ask("examineConsumeStatsConcurrent(String, String)", "{group}", "{topic}", check=_done),
    _ask("fetchConsumeStatsInBroker(String, boolean, long)", "{broker}", False, 10_000),
    _ask(
        "fetchBrokerRuntimeStats(String)",
        "{broker}",
        check=lambda stats: "brokerVersionDesc" in stats["table"],
    ),
    _ask(
        "viewBrokerStatsData(String, String, String)",
        "{broker}",
        "TOPIC_PUT_NUMS",
        "{topic}",
        check=lambda stats: "statsMinute" in stats,
    ),
    _ask("getBrokerHAStatus(String)", "{broker}", check=lambda ha: ha["master"] is True),
)

MEMBERS = (
    _ask(
        "examineConsumerConnectionInfo(String)",
        "{group}",
        check=lambda seen: len(seen["connectionSet"]) == 1,
    ),
    _ask(
        "examineConsumerConnectionInfo(String, String)",
        "{group}",
        "{broker}",
        check=lambda seen: len(seen["connectionSet"]) == 1,
    ),
    _ask(
        "examineProducerConnectionInfo(String, String)",
        "{producerGroup}",
        "{topic}",
        check=lambda seen: len(seen["connectionSet"]) == 1,
    ),
    _ask("getAllProducerInfo(String)", "{broker}", check=lambda seen: len(seen["data"]) >= 1),
    _ask(
        "getConsumerRunningInfo(String, String, boolean)",
        "{group}",
        "{clientId}",
        False,
        check=lambda info: info["jstack"] is None if "jstack" in info else True,
    ),
    _ask(
        "getConsumerRunningInfo(String, String, boolean, boolean)",
        "{group}",
        "{clientId}",
        True,
        False,
        check=lambda info: info["jstack"],
    ),
    _ask(
        "getConsumeStatus(String, String, String)",
        "{topic}",
        "{group}",
        "",
        check=lambda seen: len(seen) == 1,
    ),
    _ask(
        "consumeMessageDirectly(String, String, String, String)",
        "{group}",
        "{clientId}",
        "{topic}",
        "{offsetMsgId}",
        check=lambda result: result["consumeResult"] == "CR_SUCCESS",
    ),
    _ask(
        "consumeMessageDirectly(String, String, String)",
        "{group}",
        "{clientId}",
        "{offsetMsgId}",
        check=lambda result: result["consumeResult"] == "CR_SUCCESS",
    ),
    _ask(
        "consumeMessageDirectly(String, String, String, String, String)",
        "{cluster}",
        "{group}",
        "{clientId}",
        "{topic}",
        "{msgId}",
        check=lambda result: result["consumeResult"] == "CR_SUCCESS",
    ),
    _ask(
        "queryTopicConsumeByWho(String)",
        "{topic}",
        check=lambda groups: groups["groupList"],
    ),
    _ask("queryTopicsByConsumer(String)", "{group}", check=lambda all_: all_["topicList"]),
    _ask("queryTopicsByConsumerConcurrent(String)", "{group}", check=_done),
    _ask(
        "querySubscription(String, String)",
        "{group}",
        "{topic}",
        check=lambda sub: sub["subString"] == "*",
    ),
    _ask(
        "queryConsumeTimeSpan(String, String)",
        "{topic}",
        "{group}",
        check=lambda spans: len(spans) == 2,
    ),
    _ask("queryConsumeTimeSpanConcurrent(String, String)", "{topic}", "{group}", check=_done),
)

MESSAGES = (
    *(Call("admin", *asked) for asked in QUEUE_ASKED),
    _ask("searchLowerBoundaryOffset(MessageQueue, long)", 0, 0, check=lambda at: at == 0),
    _ask(
        "searchUpperBoundaryOffset(MessageQueue, long)",
        0,
        "{inAnHour}",
        check=lambda at: at >= 2,
    ),
    _ask(
        "searchOffset(String, String, int, long, long)",
        "{broker}",
        "{topic}",
        0,
        0,
        10_000,
        check=lambda at: at == 0,
    ),
    _ask(
        "queryMessage(String, String, String, int, long, long)",
        "{cluster}",
        "{topic}",
        "3",
        ALL,
        "0",
        "{inAnHour}",
        check=lambda found: [one["keys"] for one in found["messageList"]] == ["3"],
    ),
    _ask(
        "queryMessage(String, String, String, int, long, long, String, String)",
        "{cluster}",
        "{topic}",
        "3",
        ALL,
        "0",
        "{inAnHour}",
        "K",
        None,
        check=lambda found: [one["keys"] for one in found["messageList"]] == ["3"],
    ),
    _ask(
        "queryMessage(String, String, String)",
        "{cluster}",
        "{topic}",
        "{msgId}",
        check=lambda one: one["keys"] == "0",
    ),
    _ask(
        "queryMessageByUniqKey(String, String, int, long, long)",
        "{topic}",
        "{msgId}",
        ALL,
        "0",
        "{inAnHour}",
        check=lambda found: [one["keys"] for one in found["messageList"]] == ["0"],
    ),
    _ask(
        "queryMessageByUniqKey(String, String, String, int, long, long)",
        "{cluster}",
        "{topic}",
        "{msgId}",
        ALL,
        "0",
        "{inAnHour}",
        check=lambda found: [one["keys"] for one in found["messageList"]] == ["0"],
    ),
    _ask(
        "messageTrackDetail(MessageExt)",
        0,
        check=_tracked,
    ),
    _ask(
        "messageTrackDetailConcurrent(MessageExt)",
        0,
        check=_tracked_at_once,
    ),
    _ask(
        "queryConsumeQueue(String, String, int, long, int, String)",
        "{broker}",
        "{topic}",
        0,
        0,
        2,
        None,
        check=lambda seen: len(seen["queueData"]) == 2,
    ),
)

SETTINGS = (
    _ask("getBrokerConfig(String)", "{broker}", check=lambda keys: "brokerName" in keys),
    _ask("updateBrokerConfig(String, Properties)", "{broker}", {"fileReservedTime": "72"}),
    _ask("getNameServerConfig(List)", ["{namesrv}"], check=lambda all_: len(all_) == 1),
    _ask(
        "updateNameServerConfig(Properties, List)",
        {"enableTopicList": "true"},
        ["{namesrv}"],
    ),
    _ask("putKVConfig(String, String, String)", "interop", "key", "value"),
    _ask("createAndUpdateKvConfig(String, String, String)", "interop", "key", "value"),
    _ask("getKVConfig(String, String)", "interop", "key", check=lambda value: value == "value"),
    _ask(
        "getKVListByNamespace(String)",
        "interop",
        check=lambda all_: all_["table"] == {"key": "value"},
    ),
    _ask("deleteKvConfig(String, String)", "interop", "key"),
    _ask("createOrUpdateOrderConf(String, String, boolean)", "{topic}", "{brokerName}:2", True),
    _ask(
        "wipeWritePermOfBroker(String, String)",
        "{namesrv}",
        "{brokerName}",
        check=lambda topics: topics > 0,
    ),
    _ask(
        "addWritePermOfBroker(String, String)",
        "{namesrv}",
        "{brokerName}",
        check=lambda topics: topics > 0,
    ),
)

ODD = (
    *(
        # Apache's broker makes a half message of any message whose id it is given.
        Call("admin", signature, arguments, lambda done: done is False, is_there=False)
        for signature, arguments in (
            ("resumeCheckHalfMessage(String, String)", ["{topic}", "{offsetMsgId}"]),
            ("resumeCheckHalfMessage(String)", ["{offsetMsgId}"]),
        )
    ),
    _ask(
        "updateAndGetGroupReadForbidden(String, String, String, Boolean)",
        "{broker}",
        "{group}-made",
        "{topic}",
        False,
        check=lambda group: group["readable"] is False,
    ),
    _ask(
        "updateAndGetGroupReadForbidden(String, String, String, Boolean)",
        "{broker}",
        "{group}-made",
        "{topic}",
        True,
        check=lambda group: group["readable"] is True,
    ),
)

OFFSETS = (
    _ask(
        "updateConsumeOffset(String, String, MessageQueue, long)",
        "{broker}",
        "{group}-made",
        0,
        1,
    ),
    _ask(
        "resetOffsetByTimestampOld(String, String, long, boolean)",
        "{group}-made",
        "{topic}",
        "0",
        True,
        check=lambda all_: all(one["rollbackOffset"] == 0 for one in all_),
    ),
    _ask(
        "resetOffsetByTimestampOld(String, String, String, long, boolean)",
        "{cluster}",
        "{group}-made",
        "{topic}",
        "0",
        True,
        check=lambda all_: all(one["rollbackOffset"] == 0 for one in all_),
    ),
    _ask(
        "resetOffsetByTimestamp(String, String, long, boolean)",
        "{topic}",
        "{group}",
        "{hourAgo}",
        True,
        check=lambda all_: sorted(all_.values()) == [0, 0],
    ),
    _ask(
        "resetOffsetByTimestamp(String, String, long, boolean, boolean)",
        "{topic}",
        "{group}",
        "{hourAgo}",
        True,
        False,
        check=lambda all_: sorted(all_.values()) == [0, 0],
    ),
    _ask(
        "resetOffsetByTimestamp(String, String, String, long, boolean)",
        "{cluster}",
        "{topic}",
        "{group}",
        "{hourAgo}",
        True,
        check=lambda all_: sorted(all_.values()) == [0, 0],
    ),
    _ask(
        "resetOffsetByTimestamp(String, String, String, long, boolean, boolean)",
        "{cluster}",
        "{topic}",
        "{group}",
        "{hourAgo}",
        True,
        False,
        check=lambda all_: sorted(all_.values()) == [0, 0],
    ),
    _ask("resetOffsetNew(String, String, long)", "{group}", "{topic}", "{hourAgo}"),
    _ask(
        "resetOffsetNewConcurrent(String, String, long)",
        "{group}",
        "{topic}",
        "{hourAgo}",
        check=_done,
    ),
    _ask(
        "resetOffsetByQueueId(String, String, String, int, long)",
        "{broker}",
        "{group}",
        "{topic}",
        0,
        1,
    ),
    _ask(
        "cloneGroupOffset(String, String, String, boolean)",
        "{group}",
        "{group}-made-2",
        "{topic}",
        True,
    ),
)

CLEANED = (
    _ask("cleanExpiredConsumerQueue(String)", "{cluster}", check=bool),
    _ask("cleanExpiredConsumerQueueByAddr(String)", "{broker}", check=bool),
    _ask("deleteExpiredCommitLog(String)", "{cluster}", check=bool),
    _ask("deleteExpiredCommitLogByAddr(String)", "{broker}", check=bool),
    _ask("cleanUnusedTopic(String)", "{cluster}", check=bool),
    _ask("cleanUnusedTopicByAddr(String)", "{broker}", check=bool),
    _ask("resetMasterFlushOffset(String, long)", "{broker}", 0),
    _ask("deleteSubscriptionGroup(String, String)", "{broker}", "{group}-made"),
    _ask("deleteSubscriptionGroup(String, String, boolean)", "{broker}", "{group}-made-2", True),
    _ask("deleteTopic(String, String)", "{topic}-a1", "{cluster}"),
    _ask("deleteTopicInBroker(Set, String)", ["{broker}"], "{topic}-made"),
    _ask(
        "deleteTopicInBrokerConcurrent(Set, String)",
        ["{broker}"],
        "{topic}-made-2",
        check=_done,
    ),
    _ask("deleteTopicInNameServer(Set, String)", ["{namesrv}"], "{topic}-made-2"),
    _ask(
        "deleteTopicInNameServer(Set, String, String)",
        ["{namesrv}"],
        "{cluster}",
        "{topic}-made-3",
    ),
)

MISSED = (
    Call("admin", "examineTopicRouteInfo(String)", ["{topic}-no"], refused=TOPIC_NOT_EXIST),
    Call("admin", "examineTopicStats(String)", ["{topic}-no"], refused=TOPIC_NOT_EXIST),
    Call(
        "admin",
        "queryMessage(String, String, int, long, long)",
        ["{topic}", "no such key", ALL, "0", "{inAnHour}"],
        refused=NO_MESSAGE,
    ),
    Call(
        "admin",
        "getConsumerRunningInfo(String, String, boolean)",
        ["{group}", "nobody", False],
        refused=SYSTEM_ERROR,
    ),
)

USER = {"username": "u", "password": "p", "userType": "Normal", "userStatus": "enable"}
REFUSED = (
    _refuse("createUser(String, UserInfo)", "{broker}", USER),
    _refuse("createUser(String, String, String, String)", "{broker}", "u", "p", "Normal"),
    _refuse("updateUser(String, UserInfo)", "{broker}", USER),
    _refuse(
        "updateUser(String, String, String, String, String)",
        "{broker}",
        "u",
        "p",
        "Normal",
        "enable",
    ),
    _refuse("deleteUser(String, String)", "{broker}", "u"),
    _refuse("getUser(String, String)", "{broker}", "u"),
    _refuse("listUser(String, String)", "{broker}", ""),
    _refuse("createAcl(String, AclInfo)", "{broker}", {"subject": "User:u"}),
    _refuse(
        "createAcl(String, String, List, List, List, String)",
        "{broker}",
        "User:u",
        ["Topic:t"],
        ["Pub"],
        [],
        "Allow",
    ),
    _refuse("updateAcl(String, AclInfo)", "{broker}", {"subject": "User:u"}),
    _refuse(
        "updateAcl(String, String, List, List, List, String)",
        "{broker}",
        "User:u",
        ["Topic:t"],
        ["Pub"],
        [],
        "Allow",
    ),
    _refuse("deleteAcl(String, String, String)", "{broker}", "User:u", ""),
    _refuse("getAcl(String, String)", "{broker}", "User:u"),
    _refuse("listAcl(String, String, String)", "{broker}", "", ""),
    _refuse("getColdDataFlowCtrInfo(String)", "{broker}"),
    _refuse("updateColdDataFlowCtrGroupConfig(String, Properties)", "{broker}", {"g": "1"}),
    _refuse("removeColdDataFlowCtrGroupConfig(String, String)", "{broker}", "g"),
    _refuse("getBrokerEpochCache(String)", "{broker}"),
    _refuse(
        "checkRocksdbCqWriteProgress(String, String, long)",
        "{broker}",
        "{topic}",
        0,
    ),
    _refuse("exportPopRecords(String, long)", "{broker}", 10_000),
)

ADMIN = (
    *MADE,
    *LISTED,
    *FIGURES,
    *MEMBERS,
    *MESSAGES,
    *SETTINGS,
    *ODD,
    *MISSED,
    *OFFSETS,
    *CLEANED,
    *REFUSED,
)

NOT_FOR_ADMIN = re.compile(
    r"start\(|shutdown\(|set[A-Z]\w*\(|getAdminExtGroup\(|getCreateTopicKey\("
    r"|getDefaultMQAdminExtImpl\("
)
"""What asks the cluster nothing, and the beginning and end of all."""

NOT_APPLICABLE = re.compile(
    # Containers, controllers, static topics, RocksDB, POP and its lite topics.
    r"(?:add|remove)Broker(?:To|From)Container\(|getInSyncStateData\(|\w*Controller\w*\("
    r"|electMaster\(|createStaticTopic\(|exportRocksDBConfigToJson\(|\w*Lite[A-Z]\w*\("
    r"|getParentTopicInfo\(|switchTimerEngine\("
    # The access lists of 4.x, which 5.x servers have no longer.
    r"|\w*PlainAccessConfig\(|examineBrokerClusterAclVersionInfo\(|updateGlobalWhiteAddrConfig\("
)
"""What neither this cluster has nor, most of it, Apache's without further servers."""
