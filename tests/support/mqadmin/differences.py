"""In which fields of its answers to mqadmin this cluster may differ from Apache's, and why.

Each has a form that both values must have (a field that one of the two leaves out has the value
ABSENT), so that a field is never just passed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

ABSENT = "absent"

Form = Callable[[Any, Any], bool]


class Difference(NamedTuple):
    """Fields that may differ: of which request, which path they have, how they look, and why.

    `asked` limits it to requests with something in their fields.
    """

    request: int
    path: str
    form: Form
    reason: str
    asked: str = ""

    def covers(self, asked: str, path: str, ours: Any, theirs: Any) -> bool:
        """Whether it allows these two values; `asked` is the request's code and fields."""
        return (
            int(asked.split()[0]) == self.request
            and self.asked in asked
            and re.fullmatch(self.path, path) is not None
            and self.form(ours, theirs)
        )


def both(form: Callable[[Any], bool]) -> Form:
    """Both values have a form."""
    return lambda ours, theirs: form(ours) and form(theirs)


def is_time(value: Any) -> bool:
    """Milliseconds since the epoch, of this century."""
    return str(value).isdigit() and 946_684_800_000 < int(value) < 4_102_444_800_000


def is_number(value: Any) -> bool:
    """A number that is not negative."""
    return re.fullmatch(r"\d+(\.\d+)?(E-?\d+)?", str(value)) is not None


def is_address(value: Any) -> bool:
    """A client's, with the slash that Java writes before it or without."""
    return re.fullmatch(r"/?127\.0\.0\.1:\d+", str(value)) is not None


def is_text(value: object) -> bool:
    """Anything but nothing at all."""
    return value != ABSENT


def only_theirs(ours: object, theirs: object) -> bool:
    """Apache's alone has the field."""
    return ours == ABSENT != theirs


def only_ours(ours: object, theirs: object) -> bool:
    """This cluster alone has the field."""
    return ours != ABSENT == theirs


def matches(pattern: str) -> Form:
    """Both match."""
    return both(lambda value: re.fullmatch(pattern, str(value)) is not None)


def fewer(ours: Any, theirs: Any) -> bool:
    """This cluster has fewer of something."""
    return 0 < int(ours) < int(theirs)


def help_added(ours: Any, theirs: Any) -> bool:
    """This cluster's remark begins as Apache's does, without its web address, and says more."""
    known = theirs.split("\nSee ")[0].rstrip() if isinstance(theirs, str) else theirs
    return isinstance(ours, str) and isinstance(known, str) and ours.startswith(known)


def no_remark(ours: Any, theirs: Any) -> bool:
    """Apache's default for a response that nobody set a remark of."""
    return (ours, theirs) == (ABSENT, "not set any response code")


def counted_here(ours: Any, theirs: Any) -> bool:
    """This cluster's figure is of this moment, Apache's of its last sample, which was before."""
    return is_number(ours) and is_number(theirs) and float(ours) >= float(theirs)


_QUEUE = r"body(\.consumeStatsList\.\d+\.[\w%-]+\.\d+)?\.offsetTable\.\{[^}]*\}"
OTHER_TOPICS = (
    r"(RMQ_SYS_ROCKSDB_TRANS_(OP_)?HALF_TOPIC|rmq_sys_REVIVE_LOG_CLUSTER"
    r"|rmq_sys_SYNC_BROKER_MEMBER_NAME|CHECKPOINT_TOPIC)"
)
"""System topics that only RocketMQ has."""
_TOPICS_WHY = "topics of what there is not: RocksDB, POP consumption, replicated brokers"
_SIZE = r"[\d.]+ [KMGTPE]?i?B"
_RATES = r"(\d+\.\d+(E-?\d+)?)?( (\d+\.\d+(E-?\d+)?)?)*"

DIFFERENCES = (
    # -- routes, topics and groups
    Difference(105, "remark", help_added, "the remark says what to do instead of a web address"),
    Difference(206, rf"body\.topicList\.{OTHER_TOPICS}", only_theirs, _TOPICS_WHY),
    Difference(206, r"body\.topicList\.length", fewer, _TOPICS_WHY),
    Difference(305, rf"body\.topicList\.{OTHER_TOPICS}", only_theirs, _TOPICS_WHY),
    Difference(305, r"body\.topicList\.length", fewer, _TOPICS_WHY),
    Difference(21, rf"body\.topicConfigTable\.{OTHER_TOPICS}\.\w+", only_theirs, _TOPICS_WHY),
    Difference(21, r"header\.totalTopicNum", fewer, _TOPICS_WHY),
    Difference(21, r"body\.dataVersion\.counter", both(is_number), "RocketMQ makes its system "
               "topics before it counts, and not those that others ask for first"),
    Difference(21, r"body\.dataVersion\.timestamp", both(is_time), "time"),
    Difference(21, r"body\.mappingDataVersion\.timestamp", lambda ours, theirs: ours == 0
               and is_time(theirs), "there are no mappings of static topics that could change"),
    Difference(201, r"body\.dataVersion\.timestamp", both(is_time), "time"),
    # -- where queues and groups stand
    Difference(202, rf"{_QUEUE}\.lastUpdateTimestamp", both(is_time), "time"),
    Difference(202, r"body\.topicPutTps", both(is_number), "rate"),
    Difference(208, rf"{_QUEUE}\.lastTimestamp", both(is_time), "time"),
    Difference(208, r"body\.consumeTps", both(is_number), "rate"),
    Difference(317, rf"{_QUEUE}\.lastTimestamp", both(is_time), "time"),
    Difference(317, rf"{_QUEUE}\.pullOffset", lambda ours, theirs: ours > 0 == theirs,
               "RocketMQ leaves it out here, other than in 208"),
    Difference(317, r"body\.totalInflightDiff", lambda ours, theirs: ours >= 0 > theirs,
               "hence RocketMQ's is negative"),
    Difference(317, r"body\.consumeStatsList\..*\.consumeTps", both(is_number), "rate"),
    # -- clients
    Difference(203, r"body\.connectionSet\.MEMBER\.clientAddr", both(is_address), "address"),
    Difference(203, r"body\.connectionSet\.MEMBER\.subscription", only_ours,
               "each member's own subscriptions are told here"),
    Difference(203, r"body\.subscriptionTable\.[\w%-]+\.subVersion", both(is_time), "time"),
    Difference(204, r"body\.connectionSet\.[^.]+\.\d+\.\d+\.\d+@producer\.clientAddr",
               both(is_address), "address"),
    Difference(328, r"body\.data\.\w+\..*\.lastUpdateTimestamp", both(is_time), "time"),
    Difference(328, r"body\.data\.\w+\..*\.remoteIP", both(is_address), "address"),
    Difference(307, r"body\.properties\.\w+", both(is_text), "the member's own, with its times"),
    Difference(307, r"body\.mqTable\..*\.\w+Timestamp", both(is_time), "time"),
    Difference(307, r"body\.statusTable\..*", both(is_number), "rates and times"),
    Difference(307, r"body\.subscriptionSet\..*\.subVersion", both(is_time), "time"),
    Difference(307, r"body\.jstack", both(is_text), "the member's own: what each task waits for"),
    # -- messages
    Difference(12, r"header\.indexLastUpdatePhyoffset", both(is_number), "place in the store"),
    Difference(12, r"header\.indexLastUpdateTimestamp", both(is_time), "time"),
    *(
        Difference(code, rf"message\.[\w%-]+\.\d+\.\d+\.({names})", form, reason)
        for code in (11, 12, 33)
        for names, form, reason in (
            ("(born|store)_timestamp", both(is_time), "time"),
            ("born_host", both(is_address), "address"),
            ("physical_offset", both(is_number), "place in the store"),
            ("offset_msg_id", matches("[0-9A-F]{32}"), "address and place in the store"),
            (r"properties\.UNIQ_KEY", matches("[0-9A-F]{32}"), "time and process are in it"),
        )
    ),
    Difference(12, r"message\.TRACES\..*", lambda ours, theirs: True,
               "a trace tells of as many messages as came together in time"),
    Difference(321, r"body\.queueData\.\d+\.physicOffset", both(is_number), "place in the store"),
    Difference(321, r"body\.subscriptionData\.subVersion", both(is_time), "time"),
    Difference(321, "remark", no_remark, "RocketMQ's default remark"),
    # -- figures
    Difference(315, "remark", help_added, "the remark says which statistics there are"),
    Difference(315, r"body\.stats(Minute|Hour|Day)\.sum", counted_here,
               "figures of this moment, which RocketMQ samples every 10 s to an hour"),
    Difference(315, r"body\.stats(Minute|Hour|Day)\.sum", both(is_number),
               "traces come in as many messages as time allows", asked=" statsKey=TRACES "),
    Difference(315, r"body\.stats(Minute|Hour|Day)\.(tps|avgpt)", both(is_number), "hence"),
    Difference(907, r"body\.masterCommitLogMaxOffset", both(is_number), "place in the store"),
    *(
        Difference(28, rf"body\.table\.({name})", form, reason)
        for name, form, reason in (
            ("bootTimestamp", both(is_time), "time"),
            ("earliestMessageTimeStamp", both(is_time), "time"),
            ("runtime", matches(r"\[ \d+ days, \d+ hours, \d+ minutes, \d+ seconds \]"), "age"),
            (r"\w+", only_ours, "further figures"),
            (r"\w+QueueCapacity", lambda ours, theirs: ours == "0" and is_number(theirs),
             "no queues of requests wait for threads here"),
            (r"\w+QueueHeadWaitTimeMills", lambda ours, theirs: ours == "0" and is_number(theirs),
             "no queues of requests wait for threads here"),
            (r"\w+(Put|Get)\w*Tps|\w+Tps", matches(_RATES), "rates"),
            (r"(commitLog|consumeQueue)DiskRatio", matches(r"0\.\d+"), "disk"),
            (r"commitLogDiskRatio_/.*", lambda ours, theirs: ABSENT in (ours, theirs),
             "one for each directory, which are named otherwise"),
            ("commitLogDirCapacity", matches(rf"Total : {_SIZE}, Free : {_SIZE}\."), "disk"),
            ("commitLog(Min|Max)Offset", both(is_number), "place in the store"),
            ("remainHowManyDataToFlush", matches(_SIZE), "what is not flushed at this moment"),
            (r"(get|put)MessageEntireTimeMax|putLatency99\d?", both(is_number), "time taken"),
            ("putMessageDistributeTime", lambda ours, theirs: ours.startswith("[<=0ms]:"),
             "RocketMQ has none in its first minutes"),
            ("msg(Put|Get)TotalTodayNow|putMessage(Times|Size)Total|putMessageAverageSize",
             both(is_number), "traces come in as many messages as time allows"),
            ("timerReadBehind|timerOffsetBehind|dispatchBehindBytes|pageCacheLockTimeMills",
             both(is_number), "a moment's delay"),
        )
    ),
    # -- settings
    Difference(26, r"header\.version",
               matches(r'\{"counter":\d+,"stateVersion":0,"timestamp":\d+\}'),
               "time"),
    Difference(26, r"body\.\w+", only_theirs, "settings of what works otherwise here"),
    Difference(26, r"body\.\w+", only_ours, "settings of what RocketMQ has not"),
    Difference(26, r"body\.(listenPort|brokerIP1|storePathRootDir|transactionCheckInterval"
               r"|transactionTimeOut|brokerFastFailureEnable)", both(is_text),
               "configured otherwise"),
    Difference(26, r"body\.diskSpace(CleanForcibly|WarningLevel)Ratio", lambda ours, theirs:
               float(ours) == float(theirs), "85.0 is 85"),
    Difference(26, r"body\.flush(DelayOffsetInterval|IntervalCommitLog)", both(is_number),
               "other defaults"),
    Difference(319, r"body\.\w+", only_theirs, "settings of what works otherwise here"),
    Difference(319, r"body\.brokerExpiredTimeout", only_ours, "fixed in RocketMQ"),
    Difference(
        319,
        r"body\.(insecure|auth\w+|audit\w+|init\w+|inner\w+|tls\w+|\w+Of(Address|Client|User))",
        only_ours,
        "RocketMQ's name servers ask nobody, and have TLS by properties of the JVM",
    ),
    Difference(319, r"body\.listenPort", both(is_number), "configured otherwise"),
)  # fmt: skip
