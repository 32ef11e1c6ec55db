"""Names of `pocketmq.client` are there when asked for, and cost nothing before."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pocketmq.client


def test_every_name_is_there() -> None:
    for name in pocketmq.client.__all__:
        assert getattr(pocketmq.client, name) is not None
    assert set(pocketmq.client.__all__) <= set(dir(pocketmq.client))
    assert not hasattr(pocketmq.client, "Nothing")


@pytest.mark.process
def test_who_only_sends_loads_no_consumer() -> None:
    script = (
        "import sys; from pocketmq.client import Message, Producer;"
        "print([m for m in sys.modules if m.startswith("
        "('pocketmq.client.consumers', 'pocketmq.client.admin'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
