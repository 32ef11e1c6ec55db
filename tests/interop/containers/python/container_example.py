"""Tries the fixture of docs/testing.md, which the test puts into a conftest beside this."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

from pocketmq.client import Message
from pocketmq.client.blocking import Producer


def ask(method: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data, headers, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_two_hours_pass_in_a_container(pocketmq_container: tuple[str, str]) -> None:
    namesrv, control = pocketmq_container
    ask("PUT", f"{control}/topics/Orders", {"queues": 1})
    with Producer("shop", namesrv) as producer:
        producer.send(Message("Orders", b"remind", delay_ms=7_200_000))
    messages = f"{control}/topics/Orders/messages"
    assert ask("GET", messages)["messages"] == []
    ask("POST", f"{control}/clock/advance", {"hours": 2})
    (found,) = ask("GET", f"{messages}?waitFor=1")["messages"]
    assert found["body"] == "remind"
