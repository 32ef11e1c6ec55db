"""Which entry of a user's policies decides."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pocketmq.auth.rights.decision import DENIED, NO_MATCH, decide
from pocketmq.auth.rights.policies import (
    Acl,
    Action,
    Decision,
    Need,
    PolicyEntry,
    PolicyType,
    Resource,
    ResourceType,
)

ALLOW, DENY = Decision.ALLOW, Decision.DENY
LOOPBACK = "127.0.0.1"


def entry(
    resource: str,
    actions: str = "Pub",
    decision: Decision = ALLOW,
    ips: tuple[str, ...] = (),
    kind: PolicyType = PolicyType.CUSTOM,
) -> PolicyEntry:
    return PolicyEntry(resource, frozenset(map(Action, actions.split("|"))), decision, ips, kind)


def need(name: str, *actions: Action, kind: ResourceType = ResourceType.TOPIC) -> Need:
    return Need(Resource(kind, name), frozenset(actions or (Action.PUB,)))


def reason(acl: list[PolicyEntry], wanted: Need, source_ip: str = LOOPBACK) -> str:
    return decide(Acl("u", tuple(acl)), wanted, source_ip).reason


class TestExactness:
    @pytest.mark.parametrize(
        ("topic", "expected"),
        [("abcX", ""), ("abcdX", DENIED), ("abcde", ""), ("zz", NO_MATCH)],
    )
    def test_the_most_exact_entry_decides(self, topic: str, expected: str) -> None:
        """The case of three entries that was tried on RocketMQ 5.5.0."""
        acl = [entry("Topic:abc*"), entry("Topic:abcd*", decision=DENY), entry("Topic:abcde")]
        assert reason(acl, need(topic)) == expected

    def test_any_of_a_kind_comes_before_any_at_all(self) -> None:
        assert reason([entry("*"), entry("Topic:*", decision=DENY)], need("t")) == DENIED
        assert reason([entry("*", decision=DENY), entry("topic:*")], need("t")) == ""

    def test_among_equals_a_denial_decides(self) -> None:
        acl = [entry("Topic:t", decision=DENY), entry("Topic:t", "Sub")]
        assert reason(acl, need("t", Action.SUB)) == ""
        assert reason([*acl, entry("Topic:t")], need("t")) == DENIED

    def test_default_entries_count_only_where_no_custom_one_fits(self) -> None:
        default = entry("*", "All", kind=PolicyType.DEFAULT)
        assert reason([default], need("t")) == ""
        assert reason([entry("*", decision=DENY), default], need("t")) == DENIED
        exact = entry("Topic:t", decision=DENY, kind=PolicyType.DEFAULT)
        assert reason([entry("*"), exact], need("t")) == ""

    def test_a_kind_is_not_another(self) -> None:
        assert reason([entry("Group:*", "All")], need("t")) == NO_MATCH

    def test_nobody_has_policies_by_himself(self) -> None:
        assert decide(None, need("t"), LOOPBACK) == (False, None, NO_MATCH)


class TestActions:
    def test_one_of_the_wanted_actions_suffices(self) -> None:
        wanted = need("t", Action.PUB, Action.SUB, Action.GET)
        assert reason([entry("Topic:t", "Get")], wanted) == ""
        assert reason([entry("Topic:*", "Sub"), entry("Topic:t", decision=DENY)], wanted) == DENIED

    def test_all_allows_each(self) -> None:
        for action in Action:
            assert reason([entry("Topic:t", "All")], need("t", action)) == ""


class TestAddresses:
    @pytest.mark.parametrize(
        ("ips", "source_ip", "is_allowed"),
        [
            (("10.1.2.3",), "10.1.2.3", True),
            (("10.1.2.3",), "10.1.2.4", False),
            (("10.0.0.0/8", "192.168.1.1"), "10.9.9.9", True),
            (("10.0.0.0/8",), "11.0.0.1", False),
            (("fd00::/8",), "fd12::1", True),
            (("fd00::/8",), "10.0.0.1", False),
            (("localhost",), "localhost", True),
            (("10.0.0.0/8",), "no address", False),
        ],
    )
    def test_entries_are_limited_to_them(
        self, ips: tuple[str, ...], source_ip: str, is_allowed: bool
    ) -> None:
        assert (reason([entry("Topic:t", ips=ips)], need("t"), source_ip) == "") is is_allowed


NAMES = st.text("ab", min_size=1, max_size=3)
RESOURCES = st.one_of(
    st.just("*"),
    st.builds(
        "{}:{}{}".format,
        st.sampled_from(["Topic", "Group"]),
        st.text("ab", max_size=3),
        st.sampled_from(["", "*"]),
    ),
)
ENTRIES = st.builds(
    PolicyEntry,
    RESOURCES,
    st.frozensets(st.sampled_from([Action.PUB, Action.SUB, Action.ALL]), min_size=1),
    st.sampled_from(Decision),
    st.sampled_from([(), (LOOPBACK,), ("10.0.0.0/8",)]),
    st.sampled_from(PolicyType),
)


def model(entries: list[PolicyEntry], name: str, source_ip: str) -> bool:
    """The rule as the documentation tells it, by sorting: custom, exact, denying entries first."""

    def fits(e: PolicyEntry) -> bool:
        pattern = e.resource.replace("*", "") if e.resource.endswith("*") else None
        full = f"Topic:{name}"
        is_named = full.startswith(pattern) if pattern is not None else e.resource == full
        if source_ip == LOOPBACK:
            is_from = e.source_ips in ((), (LOOPBACK,))
        else:
            is_from = e.source_ips in ((), ("10.0.0.0/8",))
        return is_named and is_from and bool(e.actions & {Action.PUB, Action.ALL})

    def order(e: PolicyEntry) -> tuple[bool, bool, bool, int, bool]:
        is_prefix = e.resource.endswith("*")
        is_default = e.policy_type is PolicyType.DEFAULT
        return is_default, is_prefix, e.resource == "*", -len(e.resource), e.decision is ALLOW

    fitting = sorted(filter(fits, entries), key=order)
    first = next(groupby(fitting, key=order), None)
    return first is not None and next(first[1]).decision is ALLOW


@given(st.lists(ENTRIES, max_size=6), NAMES, st.sampled_from([LOOPBACK, "10.1.1.1"]))
def test_precedence_is_as_documented(entries: list[PolicyEntry], name: str, source_ip: str) -> None:
    """Invariant: the verdict is that of the first entry in the documented order."""
    verdict = decide(Acl("u", tuple(entries)), need(name), source_ip)
    assert verdict.is_allowed == model(entries, name, source_ip)
    assert (verdict.entry is None) == (verdict.reason == NO_MATCH)
