"""Runs a check over topics or groups, one by one, up to a limit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from pocketmq.client.diagnosis.cluster_state import ClusterState
from pocketmq.client.diagnosis.findings import DOCTOR, Finding, Severity, unfinished
from pocketmq.protocol.errors import ResponseError


async def look_at_each(
    state: ClusterState,
    check: str,
    what: str,
    names: Sequence[str],
    look: Callable[[str], Awaitable[list[Finding]]],
) -> list[Finding]:
    """Examines topics or groups one after the other, up to the cluster's `count_max`.

    A refusal of a broker for one of them, as for a damaged queue, does not hide the others.

    Args:
        state: the cluster.
        check: the name of the check.
        what: the kind of the subjects, in the plural.
        names: the names of all subjects.
        look: returns the findings of one subject.

    Raises:
        OperatingError: a server does not answer.
    """
    found: list[Finding] = []
    for name in names[: state.count_max]:
        try:
            found += await look(name)
        except ResponseError as e:
            found.append(unfinished(check, name, e))
    if len(names) > state.count_max:
        found.append(_only_some(state, check, what, names))
    return found


def _only_some(state: ClusterState, check: str, what: str, names: Sequence[str]) -> Finding:
    return Finding(
        check,
        Severity.NOTE,
        DOCTOR,
        f"there are {len(names)} {what}: only the first {state.count_max} in the order of their "
        f"names were looked at, up to {names[state.count_max - 1]}",
        "name the topic that does not work, then it and its groups are looked at: pocketmq doctor "
        "TOPIC",
    )
