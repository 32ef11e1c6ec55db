"""Samples of what brokers count: of all brokers, of a topic, or of a group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pocketmq.client import Admin
from pocketmq.console.api.masters import ask_masters
from pocketmq.console.api.paths import PREFIX
from pocketmq.console.api.rates.bodies import Sample
from pocketmq.console.api.rates.topic_figures import UNKNOWN, figures_by_broker
from pocketmq.console.web.problems import not_found
from pocketmq.protocol.codes import ResponseCode
from pocketmq.protocol.errors import GroupMissingError, NoPermissionError

Kind = Literal["cluster", "topic", "group"]

FORBIDDEN = ResponseCode.NO_PERMISSION


class Subject(NamedTuple):
    """Whose rates these are.

    Attributes:
        name: of the topic or group; empty of the cluster.
    """

    kind: Kind
    name: str = ""


async def sample(admin: Admin, subject: Subject) -> Sample:
    """Asks what the counters of a subject stand at.

    Raises:
        ProblemError: 404, there is no such topic or group.
        NoPermissionError: the caller may not see the figures.
    """
    if subject.kind == "topic":
        return await _of_topic(admin, subject.name)
    if subject.kind == "group":
        return await _of_group(admin, subject.name)
    told = await ask_masters(admin, admin.broker_runtime)
    return Sample(
        stored=_numbers(told.answers, "msgPutTotalTodayNow"),
        gone=_numbers(told.answers, "msgGetTotalTodayNow"),
    )


def _numbers(answers: Mapping[str, Mapping[str, str]], key: str) -> dict[str, int]:
    return {name: int(told[key]) for name, told in answers.items() if told.get(key, "").isdigit()}


async def _of_topic(admin: Admin, topic: str) -> Sample:
    found = Sample()
    tables = await figures_by_broker(admin, [topic])
    if not any(topic in table for table in tables.values()):
        raise not_found("topic", topic, f"GET {PREFIX}/topics")
    for broker, table in tables.items():
        if topic not in table:
            continue
        figures = table[topic]
        if figures is None:
            raise NoPermissionError(FORBIDDEN, f"the user may not see the figures of topic {topic}")
        found.stored[broker] = figures.stored
        if figures.delivered != UNKNOWN:
            found.gone[broker] = figures.delivered
    return found


async def _of_group(admin: Admin, group: str) -> Sample:
    try:
        await admin.group_configs(group)
    except GroupMissingError as e:
        raise not_found("group", group, f"GET {PREFIX}/groups") from e
    lags = await admin.consume_stats(group)
    names = [f"{q.topic} {q.broker_name} {q.queue_id}" for q in (lag.queue for lag in lags)]
    return Sample(
        stored={name: lag.broker_offset for name, lag in zip(names, lags, strict=True)},
        gone={name: lag.consumer_offset for name, lag in zip(names, lags, strict=True)},
        left=sum(lag.lag for lag in lags),
    )
