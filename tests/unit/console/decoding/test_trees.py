from __future__ import annotations

import msgpack
import msgspec
import pytest

from pocketmq.console.decoding.built_in import HEX, JSON, MESSAGE_PACK, TEXT, detected
from pocketmq.console.decoding.pointers import MISSING, at_pointer, joined, member
from pocketmq.console.decoding.tree import (
    ALL_TEXT_LENGTH_MAX,
    DEPTH_MAX,
    MEMBERS_MAX,
    NODES_MAX,
    POINTER_LENGTH_MAX,
    ROOT_BYTES_SIZE_MAX,
    ROOT_TEXT_LENGTH_MAX,
    TEXT_LENGTH_MAX,
    Node,
    tree_of,
)
from pocketmq.protocol.errors import ContentError, UsageError


def nodes(node: Node) -> int:
    return 1 + sum(nodes(each) for each in node.members)


def depth(node: Node) -> int:
    return 1 + max((depth(each) for each in node.members), default=0)


@pytest.mark.parametrize(
    ("body", "decoder", "value"),
    [
        (b'{"a": [1, 2.5, null]}', "json", {"a": [1, 2.5, None]}),
        (b"  [1]", "json", [1]),
        (b"123", "text", "123"),
        (b'{"a": ', "text", '{"a": '),
        ("grüße".encode(), "text", "grüße"),
        (msgpack.packb({"a": b"\xff", 7: [1]}), "msgpack", {"a": b"\xff", 7: [1]}),
        (b"\x05", "text", "\x05"),
        (b"\x93\x01", "hex", b"\x93\x01"),
        (b"\xff\xfe", "hex", b"\xff\xfe"),
        (b"", "text", ""),
        (b"[" * 100_000, "text", "[" * 100_000),
        (b"\x91" * 100_000, "hex", b"\x91" * 100_000),
        (b"\xdd\xff\xff\xff\xff", "hex", b"\xdd\xff\xff\xff\xff"),
    ],
)
def test_a_body_is_decoded_by_its_content(body: bytes, decoder: str, value: object) -> None:
    chosen, seen = detected(body)
    assert (chosen.name, seen) == (decoder, value)


@pytest.mark.parametrize("decoder", [JSON, MESSAGE_PACK, TEXT])
@pytest.mark.parametrize(
    "body",
    [b"\xc1", b"\xff{", b"[" * 99_999 + b"\xff", b'{"a":"\xff"}', b"\x81\x91\x01\x01\xff"],
)
def test_what_cannot_be_decoded_is_told(decoder: object, body: bytes) -> None:
    with pytest.raises(ContentError, match="the body is no "):
        decoder.decode(body, "Orders", {})  # type: ignore[attr-defined]


def test_a_large_body_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"[" + b"1," * (5 * 1024 * 1024) + b"1]"
    with pytest.raises(ContentError, match="look at it as text or hex"):
        JSON.decode(body, "Orders", {})
    chosen, value = detected(body)
    assert (chosen.name, value) == ("text", body.decode())
    assert HEX.decode(body, "Orders", {}) == body


def test_times_and_extensions_of_message_pack_are_shown() -> None:
    packed = msgpack.packb([msgpack.Timestamp(0), msgpack.ExtType(5, b"x")])
    assert MESSAGE_PACK.decode(packed, "", {}) == ["1970-01-01T00:00:00Z", (5, b"x")]


def test_a_time_beyond_the_calendar_is_told() -> None:
    with pytest.raises(ContentError, match="the body is no MessagePack"):
        MESSAGE_PACK.decode(msgpack.packb([msgpack.Timestamp(2**60)]), "", {})


def test_a_tree_names_kinds_and_places() -> None:
    tree = tree_of({"a/b": [True, None, 1.5, "x", b"\x00A"], "n": 10**400})
    listed, number = tree.members
    assert (tree.kind, tree.size, tree.next) == ("object", 2, None)
    assert (listed.name, listed.pointer, listed.kind) == ("a/b", "/a~1b", "list")
    assert [each.kind for each in listed.members] == ["boolean", "null", "number", "text", "bytes"]
    assert [each.text for each in listed.members[:4]] == ["true", "null", "1.5", "x"]
    assert str(listed.members[4].text).endswith(" .A")
    assert number.text == str(10**400)
    assert tree_of(10**9999).text == "a number of thousands of digits"


def test_a_tree_is_bounded_and_goes_on() -> None:
    wide = tree_of({"a": list(range(10_000))})
    (many,) = wide.members
    assert (len(many.members), many.next, many.size) == (MEMBERS_MAX, MEMBERS_MAX, 10_000)
    rest = tree_of(list(range(10_000)), "/a", 9_990)
    assert ([each.name for each in rest.members], rest.next) == (
        [str(n) for n in range(9_990, 10_000)], None,
    )  # fmt: skip
    grid = tree_of([[[0] * 100] * 100] * 100)
    assert nodes(grid) <= NODES_MAX
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    cut = tree_of(deep)
    assert depth(cut) == DEPTH_MAX + 1
    long = tree_of(["x" * 5_000, b"y" * 5_000])
    assert long.members[0].next == TEXT_LENGTH_MAX
    assert long.members[1].next == 256
    assert tree_of("x" * 100_000).next == ROOT_TEXT_LENGTH_MAX
    assert tree_of(b"x" * 100_000, "", 16).next == 16 + ROOT_BYTES_SIZE_MAX
    assert tree_of("x" * 100_000, "", 100_000).text == ""


def test_texts_of_a_tree_are_bounded_together() -> None:
    for value in ([{"k" * 5000 + str(n): "v" * 5_000 for n in range(500)}], ["v" * 5000] * 500):
        size = len(msgspec.json.encode(tree_of(value)))
        assert size < 2 * ALL_TEXT_LENGTH_MAX


def test_a_place_that_is_too_long_for_a_link_is_none() -> None:
    (child,) = tree_of({"k" * (POINTER_LENGTH_MAX + 1): ["x"] * 200}).members
    assert child.pointer is None
    assert child.next == MEMBERS_MAX


def test_halves_of_surrogates_can_be_encoded() -> None:
    tree = tree_of({"\ud800": "\udc00"})
    assert b"ud800" in msgspec.json.encode(tree)


def test_pointers_lead_to_parts() -> None:
    value = {"a/b": [{"~": 5}], 7: "seven"}
    assert at_pointer(value, "") is value
    assert at_pointer(value, joined(joined(joined("", "a/b"), "0"), "~")) == 5
    assert at_pointer(value, "/7") == "seven"
    with pytest.raises(UsageError, match="write it as /customer/id"):
        at_pointer(value, "a")
    for nowhere in ("/x", "/a~1b/1", "/a~1b/-1", "/7/0"):
        with pytest.raises(UsageError, match="nothing at"):
            at_pointer(value, nowhere)
    assert member([1], "99999999999999999999") is MISSING
