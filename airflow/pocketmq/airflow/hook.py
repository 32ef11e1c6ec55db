"""The hook of Airflow: a connection by which tasks send messages."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook

from pocketmq.airflow.target import target_of
from pocketmq.client.blocking import Admin, Producer
from pocketmq.client.results import SendResult
from pocketmq.protocol.errors import PocketMQError
from pocketmq.protocol.messages.message import Message

PRODUCER_GROUP = "pocketmq_airflow"


class PocketMQHook(BaseHook):
    """Sends messages by a connection of the type ``pocketmq``::

        PocketMQHook().send("Orders", "...", keys="4711", tags="new")

    Args:
        conn_id: the connection.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "pocketmq_default"
    conn_type = "pocketmq"
    hook_name = "PocketMQ"

    def __init__(self, conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        """Returns how the form of a connection is labelled."""
        return {
            "hidden_fields": ["schema"],
            "relabeling": {
                "host": "Name servers",
                "login": "Access key",
                "password": "Secret key",
            },
            "placeholders": {
                "host": "10.0.0.1:9876;10.0.0.2:9876",
                "extra": '{"namespace": "shop", "tls": true}',
            },
        }

    def get_conn(self) -> Producer:
        """Returns a blocking producer, which is used in a ``with`` block.

        Raises:
            ConfigError: the connection is not complete.
        """
        namesrv, settings = target_of(self.get_connection(self.conn_id))
        return Producer(PRODUCER_GROUP, namesrv, **settings)

    def send(self, topic: str, body: str | bytes, **settings: Any) -> SendResult:
        """Sends one message.

        Args:
            topic: where it goes.
            body: its content.
            settings: further ones of `Message`, such as keys, tags and delay_ms.

        Raises:
            UsageError: a setting does not fit.
            What `Producer.send` raises.
        """
        message = Message(topic, body, **settings)
        with self.get_conn() as producer:
            return producer.send(message)

    def test_connection(self) -> tuple[bool, str]:
        """Asks the name servers for the brokers; for the button of Airflow's pages."""
        try:
            namesrv, settings = target_of(self.get_connection(self.conn_id))
            with Admin(namesrv, **{**settings, "namespace": ""}) as admin:
                brokers = sorted(admin.cluster_info().broker_addr_table)
        except PocketMQError as e:
            return False, str(e)
        if not brokers:
            return False, f"the name servers {';'.join(namesrv)} know no broker"
        return True, f"brokers: {', '.join(brokers)}"
