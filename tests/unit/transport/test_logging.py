"""A library is quiet until its application asks for logs."""

from __future__ import annotations

import subprocess
import sys

import pytest

WARN = "import logging, pocketmq.{0}; logging.getLogger('pocketmq.{0}').warning('!')"


def printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


@pytest.mark.process
@pytest.mark.parametrize("component", ["client", "broker", "namesrv"])
def test_nothing_is_printed_unless_the_application_asks(component: str) -> None:
    code = WARN.format(component)
    assert printed(code) == ""
    assert printed(f"import logging; logging.basicConfig(); {code}") == (
        f"WARNING:pocketmq.{component}:!\n"
    )
