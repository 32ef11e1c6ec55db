from __future__ import annotations

from pocketmq.protocol import filters


def test_public_names() -> None:
    assert set(filters.__all__) == {
        "DEPTH_MAX",
        "IN_VALUES_MAX",
        "SQL92_CACHE_SIZE",
        "TAGS_CACHE_SIZE",
        "TEXT_LENGTH_MAX",
        "Expression",
        "FilterSyntaxError",
        "MessageFilter",
        "compile_filter",
        "parse",
    }
    assert all(hasattr(filters, name) for name in filters.__all__)
