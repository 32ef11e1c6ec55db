from __future__ import annotations

import ipaddress
import json

import pytest

from pocketmq.protocol.errors import ContentError
from pocketmq.protocol.messages.hosts import encode_host
from pocketmq.protocol.names import advertise
from pocketmq.protocol.names.advertise import caller_address, parse_advertised

COMPOSE = json.dumps(
    [
        {"addr": "127.0.0.1:10911", "callers": ["172.30.76.1/32"]},
        {"addr": "broker-a:10911", "callers": ["172.30.76.0/24", "127.0.0.0/8"]},
        {"addr": "[fd00::1]:10911", "callers": ["fd00::/8"]},
    ]
)


@pytest.mark.parametrize(
    ("caller", "address"),
    [
        ("172.30.76.1", "127.0.0.1:10911"),
        ("172.30.76.9", "broker-a:10911"),
        ("127.0.0.7", "broker-a:10911"),
        ("fd00::5", "[fd00::1]:10911"),
        ("10.0.0.1", None),
        (None, None),
    ],
)
def test_the_first_rule_that_holds_wins(caller: str | None, address: str | None) -> None:
    ip = None if caller is None else ipaddress.ip_address(caller)
    assert parse_advertised(COMPOSE).address_for(ip) == address


def test_a_rule_without_callers_holds_for_all() -> None:
    rules = parse_advertised('[{"addr": "a:1", "callers": ["10.0.0.1"]}, {"addr": "b:1"}]')
    assert rules.address_for(ipaddress.ip_address("10.0.0.1")) == "a:1"
    assert rules.address_for(ipaddress.ip_address("10.0.0.2")) == "b:1"
    assert rules.address_for(None) == "b:1"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "expected is a list such as"),
        ('{"addr": "a:1"}', "expected is a list such as"),
        ('[{"callers": []}]', "addr"),
        ('[{"addr": "a:1", "caller": []}]', "unknown field `caller`"),
        ('[{"addr": "a"}]', "not of the form host:port"),
        ('[{"addr": "a:1", "callers": ["10.0.0.300"]}]', "10.0.0.300"),
        ('[{"addr": "a:1", "callers": ["10.0.0.1/24"]}]', "has host bits set"),
        ('[{"addr": "a:1"}, {"addr": "b:1"}]', r"rule 1 \(a:1\) has no callers"),
    ],
)
def test_malformed_rules_are_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(ContentError, match=f"`advertise` rules cannot be used: .*{reason}"):
        parse_advertised(text)


def test_the_number_of_rules_and_callers_is_bounded() -> None:
    rule = {"addr": "a:1", "callers": ["10.0.0.1"]}
    with pytest.raises(ContentError, match="65 rules, allowed are 64"):
        parse_advertised(json.dumps([rule] * (advertise.RULES_MAX + 1)))
    rule["callers"] = ["10.0.0.1"] * (advertise.CALLERS_MAX + 1)
    with pytest.raises(ContentError, match="257 callers, allowed are 256"):
        parse_advertised(json.dumps([rule]))


def test_callers_are_known_by_their_packed_address() -> None:
    assert caller_address(encode_host("127.0.0.2", 5)) == ipaddress.ip_address("127.0.0.2")
    assert caller_address(encode_host("fd00::1", 5)) == ipaddress.ip_address("fd00::1")
    assert caller_address(b"") is None
