from __future__ import annotations

import pytest

from pocketmq.protocol.errors import UsageError
from pocketmq.transport.limits import Limits


def test_a_peer_is_not_cut_off_before_it_is_paused() -> None:
    Limits(write_pause_size=10, write_buffer_max=10)
    with pytest.raises(UsageError, match="write_buffer_max is 9: it must not be below"):
        Limits(write_pause_size=10, write_buffer_max=9)
