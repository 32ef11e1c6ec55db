"""The broker: ``async with Broker(BrokerConfig(...)) as broker:``."""

from pocketmq.broker.broker import Broker
from pocketmq.broker.config.config import BrokerConfig
from pocketmq.protocol.bodies.routes import AdvertiseRule

__all__ = ["AdvertiseRule", "Broker", "BrokerConfig"]
