"""Every method of Apache's Java clients that asks a cluster something, on this one and on Apache's.

What is called is in `java_calls` and `java_admin_calls`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.interop.clusters import Cluster
from support.interop.java_admin_calls import ADMIN, NOT_APPLICABLE, NOT_FOR_ADMIN
from support.interop.java_calls import CLIENTS, ELSEWHERE, LOCAL, PUSH, Call
from support.interop.java_probe import JavaProbe
from support.interop.scenarios import Document, NewName

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

ALL = (*CLIENTS, *ADMIN, *PUSH)


def _id(call: Call) -> str:
    return f"{call.target} {call.signature}"


class Outcomes:
    """What became of the calls that this client version has."""

    def __init__(self, seen: Document) -> None:
        self.methods: dict[str, list[str]] = seen["methods"]
        self._left = list(seen["outcomes"])

    def of(self, calls: tuple[Call, ...]) -> list[tuple[Call, Document]]:
        """Each call beside its outcome, in their order."""
        has = [call for call in calls if call.signature in self.methods[call.target]]
        assert [_id(call) for call in has] == [f"{o['target']} {o['call']}" for o in self._left]
        return list(zip(has, self._left, strict=True))


@pytest.fixture(scope="module")
def outcomes(either: Cluster, probe: JavaProbe, new_name: NewName) -> Outcomes:
    """All calls, on one of the clusters."""
    name = new_name("calls")
    asked = json.dumps([call.asked() for call in ALL])
    seen = probe.run("calls", namesrv=either.namesrv, topic=name, group=name, calls=asked)
    return Outcomes(seen)


def test_every_call_comes_to_what_it_must(
    outcomes: Outcomes, either: Cluster, cluster: Cluster
) -> None:
    wrong = []
    for call, outcome in outcomes.of(ALL):
        if either is not cluster and not call.is_there:
            continue
        if problem := _problem(call, outcome):
            wrong.append(f"{_id(call)}: {problem}")
    assert not wrong, "\n".join(wrong)


def _problem(call: Call, outcome: Document) -> str | None:
    if call.refused is not None:
        return None if outcome["code"] == call.refused else _shown(outcome)
    if outcome["failure"] is not None:
        return _shown(outcome)
    try:
        holds = call.check is None or call.check(outcome["result"])
    except (KeyError, TypeError, IndexError):  # the result is not even of the right shape
        holds = False
    return None if holds else _shown(outcome)


def _shown(outcome: Document) -> str:
    named: dict[str, Any] = {k: v for k, v in outcome.items() if v is not None}
    return str({k: v for k, v in named.items() if k not in ("target", "call")})[:600]


def test_no_method_is_forgotten(outcomes: Outcomes) -> None:
    called = {(call.target, call.signature) for call in ALL}
    forgotten = [
        f"{target} {signature}"
        for target, signatures in outcomes.methods.items()
        for signature in signatures
        if (target, signature) not in called and not _has_a_reason(target, signature)
    ]
    assert not forgotten, "\n".join(forgotten)


def _has_a_reason(target: str, signature: str) -> bool:
    if target == "admin":
        return bool(NOT_FOR_ADMIN.match(signature) or NOT_APPLICABLE.match(signature))
    # Getters of the clients tell settings; those of the admin ask.
    is_getter = signature.startswith("get")
    return bool(is_getter or ELSEWHERE.match(signature) or LOCAL.match(signature))
