"""Finding and reading messages over the API: bodies, conditions, downloads, differences."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

import msgpack
import pytest
from support.brokers.console_parts import API, Consoled, console, consoled
from support.brokers.control_parts import Control
from support.commands.here import Command, here

from pocketmq.client import Message

__all__ = ["here"]

COUNT = 40


def order(number: int) -> dict[str, Any]:
    customer = {"id": f"c{number % 4}", "vip": number % 2 == 0}
    return {"order": number, "amount": number + 0.5, "customer": customer, "items": [{"n": number}]}


@pytest.fixture(scope="module")
def shared() -> Iterator[Consoled]:
    topics = {"Orders": 2, "Packed": 1, "Mixed": 1, "Copies": 1}
    with consoled(brokers=2, topics=topics) as running:
        with running.cluster.producer() as producer:
            for number in range(COUNT):
                body = json.dumps(order(number)).encode()
                producer.send(Message("Orders", body, keys=[f"k{number}"], properties={"n-o": "7"}))
            for number in range(4):
                producer.send(Message("Packed", msgpack.packb(order(number)), keys=[f"p{number}"]))
            for body in (b'{"order": 1}', b"plain text", b"\xff\xfe\x00", b'{"order": '):
                producer.send(Message("Mixed", body, tags="mixed", keys=["m"]))
            wide = {"wide": list(range(1000)), "long": "x" * 100_000}
            producer.send(Message("Mixed", json.dumps(wide).encode(), keys=["large"]))
        yield running


@pytest.fixture
def api(shared: Consoled) -> Control:
    return shared.api


def get(api: Control, path: str, **query: Any) -> Any:
    return api.ok("GET", f"{API}/topics/{path}?{urlencode(query)}")


def browse(api: Control, topic: str = "Orders", **query: Any) -> Any:
    return get(api, f"{topic}/messages", start="earliest", **query)


def keys(found: Any) -> list[str]:
    return sorted(key for message in found["messages"] for key in message["keys"])


def message(api: Control, topic: str, key: str) -> Any:
    (found,) = browse(api, topic, key=key)["messages"]
    return found


def body(api: Control, topic: str, key: str, **query: Any) -> Any:
    return get(api, f"{topic}/messages/{message(api, topic, key)['msgId']}/body", **query)


def raw(address: str, path: str) -> tuple[http.client.HTTPResponse, bytes]:
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer, answer.read()
    finally:
        connection.close()


# -- bodies ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("topic", "key", "decoder"), [("Orders", "k3", "json"),
                                                       ("Packed", "p3", "msgpack")])  # fmt: skip
def test_a_body_is_shown_as_a_tree(api: Control, topic: str, key: str, decoder: str) -> None:
    seen = body(api, topic, key)
    assert (seen["decoder"], seen["problem"]) == (decoder, None)
    assert seen["decoders"][:4] == ["json", "msgpack", "text", "hex"]
    names = [member["name"] for member in seen["value"]["members"]]
    assert names == ["order", "amount", "customer", "items"]
    part = body(api, topic, key, at="/customer/id")["value"]
    assert (part["kind"], part["text"]) == ("text", "c3")
    assert "nothing at /customer/name" in body(api, topic, key, at="/customer/name")["problem"]


def test_a_decoder_that_does_not_fit_says_so_in_place(api: Control) -> None:
    seen = body(api, "Orders", "k3", decoder="msgpack")
    assert seen["value"] is None
    assert seen["problem"].startswith("the body is no MessagePack: ")
    text = body(api, "Orders", "k3", decoder="text")["value"]["text"]
    assert json.loads(text) == order(3)
    assert body(api, "Orders", "k3", decoder="hex")["value"]["text"].startswith("00000000  7b 22")
    path = f"{API}/topics/Orders/messages/{message(api, 'Orders', 'k3')['msgId']}/body"
    assert "there is no decoder 'avro'" in api.problem("GET", f"{path}?decoder=avro")["detail"]


def test_a_large_body_comes_in_parts(api: Control) -> None:
    wide, long = body(api, "Mixed", "large")["value"]["members"]
    assert (wide["size"], wide["next"], long["size"], long["next"]) == (1000, 100, 100_000, 2000)
    part = body(api, "Mixed", "large", at=wide["pointer"], begin=wide["next"])["value"]
    assert (len(part["members"]), part["next"]) == (500, 600)
    part = body(api, "Mixed", "large", at=wide["pointer"], begin=part["next"])["value"]
    assert ([each["text"] for each in part["members"]], part.get("next")) == (
        [str(number) for number in range(600, 1000)], None,
    )  # fmt: skip
    rest = body(api, "Mixed", "large", at="/long", begin=99_990)["value"]
    assert (rest["text"], rest.get("next")) == ("x" * 10, None)


def test_a_message_is_found_by_its_place_too(api: Control) -> None:
    found = message(api, "Orders", "k3")
    place = f"{found['broker']}:{found['queue']}:{found['offset']}"
    assert api.ok("GET", f"{API}/topics/Orders/messages/{place}")["msgId"] == found["msgId"]
    for nothing in ("broker-a:0:999", "broker-x:0:0", "broker-a:9:0", "0" * 32):
        assert api.problem("GET", f"{API}/topics/Orders/messages/{nothing}")["status"] == 404


# -- conditions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("topic", ["Orders", "Packed"])
@pytest.mark.parametrize(
    ("where", "fits"),
    [
        ("body.customer.id = 'c3'", lambda n: n % 4 == 3),
        ("body.amount > 2 AND body.amount < 4", lambda n: n in (2, 3)),
        ("body.items.0.n BETWEEN 1 AND 2", lambda n: n in (1, 2)),
        ("body.customer.vip = TRUE AND body.order <= 2", lambda n: n in (0, 2)),
        ("body.nothing.at.all IS NOT NULL", lambda n: False),
        ("body.\"order\" IN ('1')", lambda n: n == 1),
    ],
)
def test_conditions_look_into_bodies(api: Control, topic: str, where: str, fits: Any) -> None:
    found = browse(api, topic, where=where)
    count = COUNT if topic == "Orders" else 4
    wanted = sorted(f"{topic[0].lower() if topic == 'Packed' else 'k'}{n}"
                    for n in range(count) if fits(n))  # fmt: skip
    assert keys(found) == wanted
    assert (found["scanned"], found["stopped"], found["undecoded"]) == (count, "end", 0)


def test_conditions_look_at_properties_of_any_name(api: Control) -> None:
    where = "properties.\"n-o\" = '7' AND KEYS = 'k1' AND body CONTAINS '\"order\": 1'"
    assert keys(browse(api, where=where)) == ["k1"]


def test_what_cannot_be_decoded_is_counted(api: Control) -> None:
    found = browse(api, "Mixed", where="body.order = 1")
    assert (len(found["messages"]), found["undecoded"]) == (1, 0)
    found = browse(api, "Mixed", where="body.order = 1", decoder="json")
    assert (len(found["messages"]), found["undecoded"]) == (1, 3)


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("body.a like 'x'", "the end of the expression expected"),
        ("body. = 1", "character 5"),
        ('body."a = 1', "character 5"),
    ],
)
def test_a_wrong_condition_is_told(api: Control, where: str, told: str) -> None:
    problem = api.problem("GET", f"{API}/topics/Orders/messages?where={quote(where)}")
    assert problem["status"] == 400
    assert told in problem["detail"]


# -- newest first, times, look-up -----------------------------------------------------------------


def test_older_messages_follow_the_newest(api: Control) -> None:
    seen: list[str] = []
    times: list[int] = []
    query: dict[str, Any] = {"limit": 7}
    while True:
        found = get(api, "Orders/messages", **query)
        seen += [each["msgId"] for each in found["messages"]]
        times += [each["storeTimestamp"] for each in found["messages"]]
        if found["older"] is None:
            break
        query["before"] = found["older"]
    assert len(seen) == len(set(seen)) == COUNT
    assert times == sorted(times, reverse=True)
    problem = api.problem("GET", f"{API}/topics/Orders/messages?start=earliest&before=[]")
    assert "leave one of the two out" in problem["detail"]


def test_a_look_starts_at_a_time_of_the_calendar(api: Control) -> None:
    assert get(api, "Orders/messages", start="2020-01-01T00:00")["scanned"] == COUNT
    assert get(api, "Orders/messages", start="2099-01-01T00:00+02:00")["scanned"] == 0


def test_messages_are_looked_up_in_the_index(api: Control) -> None:
    found = get(api, "Orders/lookup", key="k7")
    assert (keys(found), found["stopped"], found["scanned"]) == (["k7"], "end", 1)
    by_id = get(api, "Orders/lookup", key=found["messages"][0]["msgId"])
    assert keys(by_id) == ["k7"]
    assert get(api, "Orders/lookup", key="nobody")["messages"] == []
    assert api.problem("GET", f"{API}/topics/Nobody/lookup?key=x")["status"] == 404


# -- downloads ------------------------------------------------------------------------------------


def test_a_download_is_read_back_by_produce(
    shared: Consoled,
    here: Command,
) -> None:
    answer, lines = raw(shared.server.address, f"{API}/topics/Mixed/download?start=earliest")
    assert (answer.status, answer.headers.get_content_type()) == (200, "application/jsonl")
    assert len(lines.splitlines()) == 5
    code, _, told = here(
        "produce", "Copies", "-f", "json", "--keep-ids", "-n", shared.cluster.namesrv,
        stdin=lines.decode(),
    )  # fmt: skip
    assert code == 0, told
    copies = browse(shared.api, "Copies")["messages"]
    originals = browse(shared.api, "Mixed")["messages"]
    for field in ("msgId", "body", "bodyBase64", "keys", "tags"):
        assert sorted(str(each[field]) for each in copies) == sorted(
            str(each[field]) for each in originals
        )


def test_a_download_takes_what_fits(shared: Consoled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pocketmq.console.api.finding.downloads.LOOK_LIMIT", 3)
    monkeypatch.setattr("pocketmq.console.api.finding.downloads.LOOK_SCAN", 5)
    where = quote("body.customer.id = 'c3'")
    _, lines = raw(shared.server.address, f"{API}/topics/Orders/download?where={where}")
    orders = [json.loads(json.loads(line)["body"])["order"] for line in lines.splitlines()]
    assert sorted(orders) == list(range(3, COUNT, 4))
    _, lines = raw(shared.server.address, f"{API}/topics/Orders/download?limit=8")
    assert len(lines.splitlines()) == 8
    problem = shared.api.problem("GET", f"{API}/topics/Orders/download?start=latest&limit=3")
    assert "the newest messages of Orders" in problem["detail"]


def test_a_download_has_the_newest_messages(shared: Consoled) -> None:
    _, lines = raw(shared.server.address, f"{API}/topics/Orders/download?start=latest&limit=2")
    newest = get(shared.api, "Orders/messages", limit=2)["messages"]
    assert [json.loads(line)["msgId"] for line in lines.splitlines()] == [
        each["msgId"] for each in newest
    ]


@pytest.mark.parametrize(("name", "bound"), [("SIZE_MAX", 1000), ("TIMEOUT_S", 0)])
def test_a_download_that_is_cut_breaks_off(
    shared: Consoled, monkeypatch: pytest.MonkeyPatch, name: str, bound: float
) -> None:
    monkeypatch.setattr("pocketmq.console.api.finding.downloads.LOOK_LIMIT", 3)
    monkeypatch.setattr(f"pocketmq.console.api.finding.downloads.{name}", bound)
    with pytest.raises(http.client.IncompleteRead):
        raw(shared.server.address, f"{API}/topics/Orders/download")


def test_downloads_are_refused_before_they_begin(api: Control) -> None:
    for query, status in (
        ("Nobody/download", 404),
        ("Orders/download?start=never", 400),
        ("Orders/download?where=%C2%A7", 400),
        ("Orders/download?start=latest&limit=501", 400),
        ("Orders/download?limit=100001", 400),
    ):
        assert api.problem("GET", f"{API}/topics/{query}")["status"] == status, query


# -- differences ----------------------------------------------------------------------------------


def test_messages_are_compared_field_by_field(api: Control) -> None:
    one, other = (message(api, "Orders", key)["msgId"] for key in ("k1", "k5"))
    found = get(api, f"Orders/messages/{one}/difference", other=other)
    changed = {each["field"]: (each["here"], each["there"]) for each in found["fields"]}
    assert changed["body/order"] == ("1", "5")
    assert changed["body/items/0/n"] == ("1", "5")
    assert changed["properties/KEYS"] == ("k1", "k5")
    assert "body/customer/id" not in changed
    assert (found["further"], found["isCut"], found["problems"]) == (0, False, [])
    packed = message(api, "Packed", "p1")["msgId"]
    found = get(api, f"Orders/messages/{one}/difference", other=packed, otherTopic="Packed")
    assert [each["field"] for each in found["fields"] if each["field"].startswith("body")] == []


def test_what_cannot_be_compared_is_told(api: Control) -> None:
    one, other = (message(api, "Orders", key)["msgId"] for key in ("k1", "k5"))
    path = f"Orders/messages/{one}/difference"
    found = get(api, path, other=other, decoder="msgpack")
    assert len(found["problems"]) == 2
    large = message(api, "Mixed", "large")["msgId"]
    found = get(api, path, other=large, otherTopic="Mixed")
    assert found["further"] > 400
    assert len(found["fields"]) == 500
    texts = get(api, path, other=large, otherTopic="Mixed", decoder="text")
    (whole,) = [each for each in texts["fields"] if each["field"] == "body"]
    assert (json.loads(whole["here"]), len(whole["there"])) == (order(1), 501)
    assert api.problem("GET", f"{API}/topics/{path}?other=nobody")["status"] == 404


# -- who may see bodies ---------------------------------------------------------------------------


def test_hidden_bodies_stay_hidden(shared: Consoled, api: Control) -> None:
    one, other = (message(api, "Orders", key)["msgId"] for key in ("k1", "k5"))
    with console(shared.cluster, no_bodies=True) as running:
        topic = f"{API}/topics/Orders"
        for path in (
            f"{topic}/messages/{one}/body",
            f"{topic}/download",
            f"{topic}/messages?where={quote('body.order = 1')}",
            topic + "/messages?where=" + quote("body CONTAINS 'order'"),
        ):
            assert running.api.problem("GET", path)["status"] == 403, path
        found = running.api.ok("GET", f"{topic}/messages/{one}/difference?other={other}")
        assert found["problems"] == ["this console shows no bodies"]
        assert "body" not in json.dumps(found["fields"])
        looked_up = running.api.ok("GET", f"{topic}/lookup?key=k1")["messages"]
        assert [each["body"] for each in looked_up] == [None]
        where = quote("KEYS = 'k1'")
        found = running.api.ok("GET", f"{topic}/messages?start=earliest&where={where}")
        assert keys(found) == ["k1"]
