"""How much memory there is."""

from __future__ import annotations

from pathlib import Path

from pocketmq.broker.reading.memory_size import memory_size


def test_the_limit_of_a_container_counts_if_it_is_less(tmp_path: Path) -> None:
    whole, limit = memory_size(()), tmp_path / "memory.max"
    assert whole > 1 << 20
    for text, expected in (("max\n", whole), ("4096\n", 4096), (f"{whole * 2}\n", whole)):
        limit.write_text(text)
        assert memory_size([limit, tmp_path / "missing"]) == expected
