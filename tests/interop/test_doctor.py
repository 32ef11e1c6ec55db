"""The doctor on Apache's own name server and broker: what is sick there, and what is not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from support.interop.clusters import Cluster

from pocketmq.client import Admin, ConsumeResult, Message, Producer, PushConsumer
from pocketmq.client.diagnosis.examination import Report, examine
from pocketmq.client.diagnosis.findings import Finding
from pocketmq.runtime.clock import SystemClock

pytestmark = pytest.mark.interop

NewName = Callable[[str], str]


async def examined(cluster: Cluster, topic: str | None = None) -> Report:
    return await examine([cluster.namesrv], SystemClock(), topic=topic)


def about(report: Report, subject: str) -> list[Finding]:
    return [finding for finding in report.findings if finding.subject == subject]


async def test_a_topic_that_works_is_healthy(apache: Cluster, new_name: NewName) -> None:
    topic, group = new_name("fine"), new_name("reader")
    seen = asyncio.Event()

    async def handled(messages: object) -> ConsumeResult:
        seen.set()
        return ConsumeResult.SUCCESS

    async with Admin(apache.namesrv) as admin:
        await admin.create_topic(topic, 2)
        await admin.create_group(group)
    consumer = PushConsumer(
        group, apache.namesrv, listener=handled, consume_from_where="CONSUME_FROM_FIRST_OFFSET"
    )
    consumer.subscribe(topic)
    async with consumer, Producer("doctors", apache.namesrv) as producer:
        await producer.send(Message(topic, b"x"))
        await seen.wait()
        report = await examined(apache, topic)
    assert about(report, topic) == about(report, group) == []
    # The disk is the machine's; all else about the broker is as it should be.
    assert {f.check for f in about(report, "broker-a")} <= {"disks"}
    assert (report.can_check, report.brokers) == (True, 1)


async def test_what_is_wrong_is_found(apache: Cluster, new_name: NewName) -> None:
    topic, group, missing = new_name("sick"), new_name("mixed"), new_name("missing")
    async with Admin(apache.namesrv) as admin:
        await admin.create_topic(topic, 2)
        await admin.create_group(group)

        async def ignore(messages: object) -> ConsumeResult:
            return ConsumeResult.SUCCESS

        members = [
            PushConsumer(group, apache.namesrv, listener=ignore, instance_name=name)
            for name in ("one", "two")
        ]
        for member, tag in zip(members, ("new", "old"), strict=True):
            member.subscribe(topic, tag)
        async with members[0], members[1]:
            mixed = about(await examined(apache), group)
        await admin.update_topic(topic, write_queues=4, perm=4)
    shrunk = about(await examined(apache, topic), topic)
    assert [(f.check, "@one" in f.seen, "@two" in f.seen) for f in mixed] == [
        ("subscriptions", True, True)
    ]
    assert {f.check for f in shrunk} == {"topic permissions", "queue counts"}
    assert [f.check for f in about(await examined(apache, missing), missing)] == ["topic routes"]
