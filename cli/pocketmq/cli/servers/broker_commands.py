"""The group `pocketmq broker`: without a command of its own it starts one."""

from __future__ import annotations

from pocketmq.cli.administration.brokers import app
from pocketmq.cli.servers.single_servers import broker

app.callback(invoke_without_command=True)(broker)
