from __future__ import annotations

from pathlib import Path

import msgspec

import pocketmq.namesrv
from pocketmq.namesrv.config import FIXED_KEYS, NamesrvConfig
from pocketmq.runtime.settings import load_settings

DEPLOYED = Path(__file__).parents[3] / "deploy" / "namesrv.yaml"


def test_the_public_names() -> None:
    assert sorted(pocketmq.namesrv.__all__) == ["NameServer", "NamesrvConfig"]


def test_the_defaults_are_rocketmqs_but_for_the_address() -> None:
    assert msgspec.to_builtins(NamesrvConfig()) == {
        "listenPort": 9876,
        "bindAddress": "127.0.0.1",
        "insecure": False,
        "healthPort": 0,
        "healthHost": "127.0.0.1",
        "kvConfigPath": None,
        "arbiterPath": None,
        "scanNotActiveBrokerInterval": 5000,
        "brokerExpiredTimeout": 120_000,
        "orderMessageEnable": False,
        "returnOrderTopicConfigToBroker": True,
        "needWaitForService": False,
        "waitSecondsForService": 45,
        "deleteTopicWithBrokerRegistration": False,
        "supportActingMaster": False,
        "enableAllTopicList": True,
        "enableTopicList": True,
        "configBlackList": "configBlackList;configStorePath;kvConfigPath",
        "authenticationEnabled": False,
        "authorizationEnabled": False,
        "initAuthenticationUser": "",
        "innerClientAuthenticationCredentials": "",
        "authenticationWhitelist": "",
        "authorizationWhitelist": "",
        "requestsPerSecondOfAddress": 0,
        "bytesPerSecondOfAddress": 0,
        "requestsPerSecondOfClient": 0,
        "bytesPerSecondOfClient": 0,
        "requestsPerSecondOfUser": 0,
        "bytesPerSecondOfUser": 0,
        "connectionsMaxOfAddress": 15_000,
        "auditLogPath": "",
        "auditLogSizeMax": 64 * 1024 * 1024,
        "tlsServerMode": "disabled",
        "tlsServerCertPath": "",
        "tlsServerKeyPath": "",
        "tlsServerKeyPassword": "",
        "tlsServerNeedClientAuth": "none",
        "tlsServerTrustCertPath": "",
        "tlsCiphers": "",
        "tlsClientTrustCertPath": "",
        "metricsExporterType": "DISABLE",
        "metricsPromExporterPort": 5557,
        "metricsPromExporterHost": "127.0.0.1",
        "consolePort": 0,
        "consoleHost": "127.0.0.1",
        "consoleReadOnly": False,
        "consoleNoBodies": False,
        "consolePath": "",
        "consoleForwardedPrefix": False,
        "consoleOrigin": "",
    }


def test_what_is_read_at_the_start_cannot_be_changed_later() -> None:
    at_start = {"listenPort", "bindAddress", "insecure", "kvConfigPath", "arbiterPath"}
    assert at_start <= FIXED_KEYS


def test_the_deployed_file_can_be_read() -> None:
    assert load_settings(DEPLOYED, NamesrvConfig) == NamesrvConfig(
        bind_address="0.0.0.0", insecure=True, kv_config_path="/var/lib/pocketmq/kvConfig.json"
    )
