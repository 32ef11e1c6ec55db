"""The broker: ``async with Broker(BrokerConfig(...)) as broker:``."""

from pocketmq.broker.broker import Broker
from pocketmq.broker.config import AdvertiseRule, BrokerConfig

__all__ = ["AdvertiseRule", "Broker", "BrokerConfig"]
