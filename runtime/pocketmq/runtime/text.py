"""Words figures for people."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Formats a count with its noun in singular or plural: ``1 topic``, ``1,200 topics``."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
