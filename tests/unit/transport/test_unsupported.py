from __future__ import annotations

from typing import cast

import pytest

from pocketmq.protocol.codes import RequestCode
from pocketmq.protocol.errors import ResponseError
from pocketmq.protocol.wire.command import Command
from pocketmq.transport.connection import Connection
from pocketmq.transport.unsupported import unsupported_handlers


def test_the_answer_is_that_to_unknown_codes_with_a_reason() -> None:
    table = unsupported_handlers({RequestCode.POP_MESSAGE: "pull", RequestCode.ACK_MESSAGE: "x"})
    assert table.keys() == {200050, 200051}
    with pytest.raises(ResponseError) as caught:
        table[200050](Command(200050), cast("Connection", None))
    assert caught.value.code == 3
    assert caught.value.remark == " request type 200050 not supported: pull"
