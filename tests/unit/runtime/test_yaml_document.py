from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from pocketmq.protocol.errors import ConfigError
from pocketmq.runtime.yaml_document import YamlDocument


class Leaf(msgspec.Struct, forbid_unknown_fields=True):
    name: str = ""
    numbers: list[int] = []
    depths: dict[str, dict[int, int]] = {}


class Tree(msgspec.Struct, forbid_unknown_fields=True):
    leaves: dict[str, int | Leaf | None] = {}


def refusal(tmp_path: Path, text: str, **options: Any) -> str:
    path = tmp_path / "tree.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        YamlDocument(path, has_columns=True, **options).convert(Tree, strict=True)
    return str(refused.value).removeprefix(str(path))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("leaves:\n  a: 1\n  b: {}\n  a: 2", ":4:3: the key 'a' stands twice, first in line 2"),
        ("leaves:\n  a: {nam: x}", ":2:7: unknown key 'nam'; did you mean 'name'?"),
        ("leaves:\n  a: 1\n  b:\n    name: 5\n", ":4:11: the value of leaves.b.name does not fit: "
         "expected str, got int"),
        ("leaves: {a: {numbers: [1, x]}}", ":1:27: the value of leaves.a.numbers[1] does not fit"),
        ("leaves:\n a: {depths: {x: {1: 1}, y: {2: z}}}", ":2:33: the value of leaves.a.depths.y"),
        ("leaves: {a: {depths: {x: {z: 1}}}}", ":1:30: the value of leaves.a.depths.x.z does not"),
        ("leaves: {5: 1}", ":1:13: the value of leaves.5 does not fit: expected str, got int"),
        ("leaves:\n  - a", ":2:3: the value of leaves does not fit: expected object, got array"),
        ("- a", ":1:1: expected object, got array"),
        ("leaves: {", ":1:10: this is no YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, text: str, told: str) -> None:
    assert refusal(tmp_path, text).startswith(told), refusal(tmp_path, text)


def test_what_is_too_large_is_told(tmp_path: Path) -> None:
    assert "has 13 bytes, and may have 5" in refusal(tmp_path, "leaves: {a: 1", size_max=5)


def test_what_is_nested_too_deeply_is_told(tmp_path: Path) -> None:
    assert "nested too deeply" in refusal(tmp_path, "[" * 5000 + "]" * 5000)


def test_a_place_that_is_not_there_is_the_nearest_one(tmp_path: Path) -> None:
    path = tmp_path / "tree.yaml"
    path.write_text("leaves:\n  a: {name: x}\n")
    document = YamlDocument(path, has_columns=True)
    assert document.at(("leaves", "a", "name")) == f"{path}:2:13"
    assert document.at(("leaves", "a", "numbers", 3)) == f"{path}:2:6"
    assert document.at(("other",)) == str(path)
    assert document.convert(Tree, strict=True).leaves == {"a": Leaf("x")}
