"""Dead letters of a cluster with a console, and redrives over its API."""

from __future__ import annotations

from typing import Any

from support.brokers.console_parts import API, Consoled
from support.brokers.control_parts import Control

from pocketmq.client import Message, MessageQueue

POLLS_MAX = 2_000
"""Requests after which a redrive should have ended."""


def give_up(
    running: Consoled,
    group: str,
    body: bytes,
    *,
    broker: str = "broker-a",
    error: str = "",
    origin: str = "Orders",
    properties: dict[str, str] | None = None,
    **given: Any,
) -> None:
    """Puts a message among the dead letters of a group, as its broker does."""
    topic = f"%DLQ%{group}"
    kept = {"RETRY_TOPIC": origin, **(properties or {})}
    if error:
        kept["PQ_LAST_ERROR"] = error
    known = running.cluster.brokers
    with running.cluster.producer() as producer:
        if topic not in running.api.ok("GET", f"{API}/topics?kind=all&limit=1000")["topics"]:
            running.cluster.create_topic(topic, 1)
        assert broker in known
        message = Message(topic, body, properties=kept, **given)
        producer.send(message, queue=MessageQueue(topic, broker, 0))


def names_of(found: Any) -> list[str]:
    """The first keys of messages, a dash for one without."""
    return [each["keys"][0] if each["keys"] else "-" for each in found["messages"]]


def ended(api: Control, group: str, redrive: str) -> Any:
    """A redrive when it runs no more."""
    for _ in range(POLLS_MAX):
        one = api.ok("GET", f"{API}/groups/{group}/redrives/{redrive}")["redrive"]
        if one["state"] != "running":
            return one
    raise AssertionError(f"it does not end: {one}")


def redriven(api: Control, group: str, order: dict[str, Any]) -> Any:
    """A redrive from its plan to its end, without a rate."""
    order = {"rate": 0, **order}
    path = f"{API}/groups/{group}/redrives"
    plan = api.ok("POST", f"{path}/plan", order)
    api.ok("POST", path, {"order": order, "plan": plan["plan"]})
    return ended(api, group, plan["redrive"])
