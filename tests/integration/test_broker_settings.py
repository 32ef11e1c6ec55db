"""Settings shown and changed while the broker runs: 25, 26."""

from __future__ import annotations

import logging

import msgspec
import pytest
from support.brokers.broker_parts import TOPIC, Client, Refusal, Stage, advance_until, send_request

from pocketmq.broker.config.live_settings import FIXED_KEYS
from pocketmq.namesrv import NameServer, NamesrvConfig
from pocketmq.protocol.bodies.brokers import SettingDetail, SettingDetails
from pocketmq.protocol.bodies.routes import TopicRoute
from pocketmq.protocol.bodies.topics import DataVersion
from pocketmq.protocol.requests.brokers import UpdateBrokerConfigRequest
from pocketmq.protocol.requests.nameserver import RouteRequest
from pocketmq.protocol.requests.topics import (
    BrokerConfigRequest,
    BrokerConfigResponse,
    GroupConfigRequest,
)
from pocketmq.runtime.settings import properties_from_text
from pocketmq.testing.clock import VirtualClock


async def shown(client: Client) -> dict[str, str]:
    return properties_from_text((await client.ask(BrokerConfigRequest())).body.decode())


async def version(client: Client) -> DataVersion:
    answer = await client.ask(BrokerConfigRequest())
    return msgspec.json.decode(answer.read(BrokerConfigResponse).version, type=DataVersion)


async def change(client: Client, **settings: object) -> None:
    text = "".join(f"{key}={value}\n" for key, value in settings.items())
    await client.ask(UpdateBrokerConfigRequest(), text.encode())


async def refused(client: Client, text: str) -> Refusal:
    return await client.refusal(UpdateBrokerConfigRequest(), text.encode())


async def test_the_broker_tells_its_settings(client: Client) -> None:
    settings = await shown(client)
    assert settings["brokerName"] == "broker-a"
    assert settings["maxMessageSize"] == "4194304"
    assert settings["flushDiskType"] == "ASYNC_FLUSH"


async def details(client: Client, text: str = "") -> dict[str, SettingDetail]:
    answer = await client.ask(BrokerConfigRequest(detailed=True), text.encode())
    assert answer.read(BrokerConfigResponse).detailed
    return {each.key: each for each in SettingDetails.decode(answer.body).settings}


async def test_a_setting_is_told_with_its_default_and_its_origin(stage: Stage) -> None:
    client = await stage.start(file_reserved_time=24, broker_name="broker-x")
    await change(client, fileReservedTime=48)
    found = await details(client)
    assert found.keys() >= (await shown(client)).keys()
    reserved = found["fileReservedTime"]
    assert (reserved.value, reserved.configured, reserved.default) == ("48", "24", "72")
    assert (reserved.is_live, reserved.wanted) == (True, None)
    name = found["brokerName"]
    assert (name.value, name.configured, name.is_live) == ("broker-x", "broker-x", False)
    assert found["maxMessageSize"].value == found["maxMessageSize"].default == "4194304"


async def test_a_change_is_tried_without_being_made(client: Client) -> None:
    before = await version(client)
    found = await details(client, "fileReservedTime=48\nenablePropertyFilter=false")
    assert (found["fileReservedTime"].value, found["fileReservedTime"].wanted) == ("72", "48")
    assert found["enablePropertyFilter"].wanted == "false"
    assert [key for key, each in found.items() if each.wanted is not None] == [
        "enablePropertyFilter", "fileReservedTime",
    ]  # fmt: skip
    for text, code in (("nonsense=1", 1), ("fileReservedTime=0", 1), ("listenPort=1", 16)):
        refusal = await client.refusal(BrokerConfigRequest(detailed=True), text.encode())
        assert refusal.code == code
    assert await version(client) == before
    assert (await shown(client))["fileReservedTime"] == "72"


async def test_a_change_is_shown_and_makes_a_new_version(
    client: Client, clock: VirtualClock
) -> None:
    before = await version(client)
    await clock.advance(1)
    await change(client, fileReservedTime=48, enablePropertyFilter="false")
    settings = await shown(client)
    assert (settings["fileReservedTime"], settings["enablePropertyFilter"]) == ("48", "false")
    after = await version(client)
    assert after == before.next(clock.now_ms())


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("nonsense=1", 1, "there is no setting 'nonsense'"),
        ("fileReservedTme=1", 1, "fileReservedTime"),
        ("fileReservedTime=abc", 1, "fileReservedTime"),
        ("fileReservedTime=0", 1, "it must be between 1 and"),
        ("fileReservedTime=", 1, "fileReservedTime"),
        ("autoCreateTopicEnable=perhaps", 1, "autoCreateTopicEnable"),
        ("brokerPermission=9", 1, "brokerPermission is 9"),
        ("flushDiskType=SOMETIMES", 1, "ASYNC_FLUSH or SYNC_FLUSH"),
        ("messageDelayLevel=1x", 1, "1x"),
        ("maxMessageSize=-1", 1, "maxMessageSize is -1"),
        ("fileReservedTime=9\nnonsense=1", 1, "nonsense"),
        ("brokerConfigPath=/etc/passwd", 16, "Can not update config in black list."),
        ("listenPort=1", 16, "configuration file"),
        ("storePathRootDir=/", 16, "restart the broker"),
        ("\\uZZZZ=1", 1, "string2Properties error"),
    ],
)
async def test_nonsense_changes_nothing(client: Client, text: str, code: int, words: str) -> None:
    before = await shown(client)
    refusal = await refused(client, text)
    assert refusal.code == code
    assert words in refusal.remark
    assert await shown(client) == before


async def test_a_body_that_is_no_text_is_refused(client: Client) -> None:
    code, remark = await client.refusal(UpdateBrokerConfigRequest(), b"\xff\xfe")
    assert code == 1
    assert "string2Properties error" in remark


async def test_no_change_at_all_is_none(client: Client) -> None:
    before = await version(client)
    await client.ask(UpdateBrokerConfigRequest(), b"")
    assert await version(client) == before


def test_fixed_keys_exist() -> None:
    from pocketmq.broker import BrokerConfig

    assert set(BrokerConfig().__struct_encode_fields__) >= FIXED_KEYS


# -- they take effect ---------------------------------------------------------------------------


async def test_permissions_hold_at_once_and_in_routes(stage: Stage, clock: VirtualClock) -> None:
    async with NameServer(NamesrvConfig(listen_port=0, bind_address="127.0.0.1"), clock) as server:
        client = await stage.started_with_topic(namesrv_addr=server.address)

        async def perm() -> int:
            answer = await client.pool.ask(
                server.address, RouteRequest(topic=TOPIC, accept_standard_json_only=True), 1e6
            )
            (queues,) = TopicRoute.decode(answer.body).queue_datas
            return queues.perm

        await client.send()
        await change(client, brokerPermission=4)
        assert (await client.refusal(send_request(), b"x")).code == 16
        assert len((await client.pull()).messages) == 1
        while await perm() != 4:
            await clock.advance(1)
        await change(client, brokerPermission=2)
        assert (await client.pull()).code == 16
        await change(client, brokerPermission=6)
        await client.send()
        while await perm() != 6:
            await clock.advance(1)


async def test_topics_and_groups_are_made_or_not(client: Client) -> None:
    await client.send(topic="New1")
    await change(client, autoCreateTopicEnable="false", autoCreateSubscriptionGroup="false")
    refusal = await client.refusal(send_request(topic="New2"), b"x")
    assert refusal.code == 17
    assert "autoCreateTopicEnable is off" in refusal.remark
    assert "TBW102" not in client.broker.topics
    assert (await client.refusal(GroupConfigRequest(group="g2"))).code == 26
    await change(client, autoCreateTopicEnable="true", defaultTopicQueueNums=2)
    await client.send(topic="New2", default_topic_queue_nums=4)
    config = client.broker.topics.get("New2")
    assert config is not None
    assert config.write_queue_nums == 2


async def test_sizes_and_filters(client: Client) -> None:
    await change(client, maxMessageSize=3)
    assert (await client.refusal(send_request(), b"four")).code == 13
    await client.send(b"333")
    await client.send(b"22")
    await change(client, maxTransferCountOnMessageInMemory=1)
    assert (await client.pull(max_msg_nums=32)).bodies == [b"333"]
    assert (await client.pull(expression_type="SQL92", subscription="a = 1")).code == 20
    await change(client, enablePropertyFilter="false")
    assert (await client.pull(expression_type="SQL92", subscription="a = 1")).code == 1


async def test_delays_are_for_messages_sent_from_then_on(
    client: Client, clock: VirtualClock
) -> None:
    await change(client, messageDelayLevel="30s 1m")
    begin_ms = clock.now_ms()
    await client.send(b"later", properties="DELAY\x011\x02")
    await advance_until(clock, lambda: TOPIC in client.broker.store.counters.topics)
    assert 30_000 <= clock.now_ms() - begin_ms <= 32_000


async def test_disk_limits_hold_at_once(client: Client) -> None:
    await change(client, diskSpaceFreeMin=1 << 60, diskSpaceWarningLevelRatio=1)
    assert (await client.refusal(send_request(), b"x")).code == 14
    await change(client, diskSpaceFreeMin=0)
    await client.send()


# -- they are kept ------------------------------------------------------------------------------


async def test_changes_outlive_a_restart(
    stage: Stage, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    await change(client, fileReservedTime=48, flushDiskType="SYNC_FLUSH", brokerPermission=4)
    await change(client, brokerPermission=6)
    await client.broker.close()
    with caplog.at_level(logging.WARNING):
        client = await stage.start()
    settings = await shown(client)
    assert (settings["fileReservedTime"], settings["flushDiskType"]) == ("48", "SYNC_FLUSH")
    assert client.broker.store.committer.flush_sync
    assert "fileReservedTime is 48, as it was changed to at run time" in caplog.text
    assert "brokerPermission" not in caplog.text, "it is as configured again"


async def test_the_configuration_wins_once_it_says_something_else(
    stage: Stage, client: Client
) -> None:
    await change(client, fileReservedTime=48, maxMessageSize=1000)
    await client.broker.close()
    client = await stage.start(file_reserved_time=24)
    settings = await shown(client)
    assert (settings["fileReservedTime"], settings["maxMessageSize"]) == ("24", "1000")


async def test_a_change_that_means_nothing_any_more_is_forgotten(
    stage: Stage, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    state = '{"fileReservedTime":{"configured":"72","value":"0"}}'
    client.broker.store.metadata.set_state("changed_settings", state)
    await client.broker.close()
    with caplog.at_level(logging.WARNING):
        client = await stage.start()
    assert (await shown(client))["fileReservedTime"] == "72"
    assert "a change at run time is forgotten: fileReservedTime is 0" in caplog.text
