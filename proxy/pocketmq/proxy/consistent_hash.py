"""To which queue a message group goes: the same for all proxies (Guava's `consistentHash`)."""

from __future__ import annotations

_MASK = (1 << 64) - 1


def java_hash(text: str) -> int:
    """Java's `String.hashCode`, a signed 32-bit number."""
    value = 0
    data = text.encode("utf-16-be")
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def bucket_of(group: str, count: int) -> int:
    """The bucket of a message group, of so many.

    J. Lamping, E. Veach: A Fast, Minimal Memory, Consistent Hash Algorithm (2014).
    """
    state = java_hash(group) & _MASK
    candidate = 0
    while True:
        state = (2862933555777941757 * state + 1) & _MASK
        step = ((state >> 33) + 1) / (1 << 31)
        following = int((candidate + 1) / step)
        if not 0 <= following < count:
            return candidate
        candidate = following
