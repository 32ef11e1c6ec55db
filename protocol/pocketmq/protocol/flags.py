"""Bits of messages and topics (`common/sysflag/MessageSysFlag`, `common/constant/PermName`)."""

from __future__ import annotations

COMPRESSED = 0x1
MULTI_TAGS = 0x2
TRANSACTION_NOT_TYPE = 0x0
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC
TRANSACTION_MASK = 0xC
BORN_HOST_V6 = 0x10
STORE_HOST_V6 = 0x20
COMPRESSION_MASK = 0x700
COMPRESSION_LZ4 = 0x100
COMPRESSION_ZSTD = 0x200
COMPRESSION_ZLIB = 0x300

PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1


def is_readable(perm: int) -> bool:
    """Whether consumers may pull."""
    return perm & PERM_READ != 0


def is_writable(perm: int) -> bool:
    """Whether producers may send."""
    return perm & PERM_WRITE != 0


def perm_text(perm: int) -> str:
    """A permission as people write it, such as ``RW-``."""
    return (
        ("R" if is_readable(perm) else "-")
        + ("W" if is_writable(perm) else "-")
        + ("X" if perm & PERM_INHERIT else "-")
    )
