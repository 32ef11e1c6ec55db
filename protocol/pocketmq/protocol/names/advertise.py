"""Advertised addresses: a broker that different callers reach at different addresses.

This is PocketMQ's own and ends the search for the one right ``brokerIP1`` of a container: a broker
registers rules, and the name server tells each caller the address of the first rule that holds for
the IP address that the caller's connection comes from.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from functools import lru_cache

import msgspec

from pocketmq.protocol.bodies.routes import AdvertiseRule
from pocketmq.protocol.errors import ContentError, UsageError
from pocketmq.protocol.messages.hosts import split_address

RULES_MAX = 64
"""Rules of one broker; they are tried one after the other."""

CALLERS_MAX = 256
"""Networks of one rule, for the same reason."""

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

_PORT_SIZE = 4


@dataclass(frozen=True)
class AdvertisedAddress:
    """One rule: an address for callers from some networks, or from anywhere if it names none."""

    address: str
    callers: tuple[IPNetwork, ...] = ()

    def holds_for(self, caller: IPAddress | None) -> bool:
        """Whether the rule is for a caller; only "anywhere" holds for an unknown address."""
        if not self.callers:
            return True
        return caller is not None and any(caller in network for network in self.callers)


@dataclass(frozen=True)
class Advertised:
    """All rules of one broker, in order."""

    rules: tuple[AdvertisedAddress, ...] = ()

    def address_for(self, caller: IPAddress | None) -> str | None:
        """Returns the address of the first rule that holds, or None for the registered address."""
        return next((rule.address for rule in self.rules if rule.holds_for(caller)), None)


@lru_cache(maxsize=1024)
def parse_advertised(text: str) -> Advertised:
    """Reads the rules of a registration.

    Args:
        text: a JSON list of objects with `addr` (``host:port``) and perhaps `callers` (CIDR).

    Raises:
        ContentError: the text is not of that form, a network is none, or a rule can never hold.
    """
    try:
        rules = msgspec.json.decode(text, type=list[AdvertiseRule])
    except msgspec.DecodeError as e:
        raise _refusal(f"{e}; expected is a list such as [{_EXAMPLE}]") from e
    if len(rules) > RULES_MAX:
        raise _refusal(f"there are {len(rules)} rules, allowed are {RULES_MAX}")
    for position, rule in enumerate(rules[:-1], 1):
        if not rule.callers:
            raise _refusal(
                f"rule {position} ({rule.addr}) has no callers, so it holds for all of them, and "
                f"the rules after it never would: make it the last"
            )
    return Advertised(tuple(_parse_rule(rule) for rule in rules))


@lru_cache(maxsize=4096)
def caller_address(packed_host: bytes) -> IPAddress | None:
    """Decodes the IP address of a peer.

    Args:
        packed_host: address and port as `hosts.encode_host` makes them; empty when unknown.
    """
    return ipaddress.ip_address(packed_host[:-_PORT_SIZE]) if packed_host else None


_EXAMPLE = '{"addr": "127.0.0.1:10911", "callers": ["127.0.0.0/8"]}'


def _parse_rule(rule: AdvertiseRule) -> AdvertisedAddress:
    if len(rule.callers) > CALLERS_MAX:
        raise _refusal(
            f"the rule for {rule.addr} names {len(rule.callers)} callers, allowed are {CALLERS_MAX}"
        )
    try:
        split_address(rule.addr)
        networks = tuple(ipaddress.ip_network(caller) for caller in rule.callers)
    except UsageError as e:
        raise _refusal(str(e)) from e
    except ValueError as e:
        raise _refusal(f"in the rule for {rule.addr}, {e}") from e
    return AdvertisedAddress(rule.addr, networks)


def _refusal(reason: str) -> ContentError:
    return ContentError(f"the broker's `advertise` rules cannot be used: {reason}")
