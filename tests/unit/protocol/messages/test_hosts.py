from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.protocol.errors import ConfigError, UsageError
from pocketmq.protocol.messages.hosts import (
    check_port,
    decode_host,
    encode_host,
    join_address,
    split_address,
)

PORTS = st.integers(0, 0xFFFF)


@given(st.ip_addresses(v=4).map(str), PORTS)
def test_ipv4_round_trip(host: str, port: int) -> None:
    data = encode_host(host, port)
    assert len(data) == 8
    assert decode_host(data) == join_address(host, port)
    assert split_address(decode_host(data)) == (host, port)


@given(st.ip_addresses(v=6).map(str).filter(lambda text: not text.startswith("::ffff:")), PORTS)
def test_ipv6_round_trip(host: str, port: int) -> None:
    data = encode_host(host, port)
    assert len(data) == 20
    assert decode_host(data) == f"[{host}]:{port}"
    assert split_address(decode_host(data)) == (host, port)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("192.168.1.2", "192.168.1.2:10911"),
        ("::ffff:10.0.0.1", "10.0.0.1:10911"),
        ("fe80::1%eth0", "[fe80::1]:10911"),
        ("broker-a.example", "127.0.0.1:10911"),
        ("", "127.0.0.1:10911"),
    ],
)
def test_hosts_as_a_record_holds_them(host: str, expected: str) -> None:
    assert decode_host(encode_host(host, 10911)) == expected


def test_names_can_be_split_too() -> None:
    assert split_address(" broker-a:10911 ") == ("broker-a", 10911)


@pytest.mark.parametrize(
    "address", ["", "host", "host:", ":9876", "host:port", "host:-1", "host:65536", "host:²", "h:٣"]
)
def test_what_is_no_address_is_named(address: str) -> None:
    with pytest.raises(UsageError, match="is not of the form host:port"):
        split_address(address)


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(ConfigError, match=f"the port of the door is {port}: it must be between 0"):
        check_port(port, "the door")
    check_port(0, "the door")
    check_port(65_535, "the door")
