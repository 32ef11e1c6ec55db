"""What Airflow reads of an installed provider."""

from __future__ import annotations

from typing import Any

NAME = "PocketMQ"


def get_provider_info() -> dict[str, Any]:
    """Returns which connections, queues, hooks, sensors and triggers there are."""
    return {
        "package-name": "pocketmq",
        "name": NAME,
        "description": "Topics of PocketMQ and RocketMQ.",
        "integrations": [
            {
                "integration-name": NAME,
                "external-doc-url": "https://rocketmq.apache.org",
                "tags": ["service"],
            }
        ],
        "connection-types": [
            {
                "connection-type": "pocketmq",
                "hook-class-name": "pocketmq.airflow.hook.PocketMQHook",
                "hook-name": NAME,
            }
        ],
        "queues": ["pocketmq.airflow.queue_provider.PocketMQMessageQueueProvider"],
        "hooks": [{"integration-name": NAME, "python-modules": ["pocketmq.airflow.hook"]}],
        "sensors": [{"integration-name": NAME, "python-modules": ["pocketmq.airflow.sensor"]}],
        "triggers": [{"integration-name": NAME, "python-modules": ["pocketmq.airflow.triggers"]}],
    }
