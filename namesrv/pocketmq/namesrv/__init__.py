"""The name server: it knows which brokers there are, and which queues of topics they hold.

Brokers register with every name server; clients ask any one of them for routes. Name servers do
not know each other and keep nothing but the KV configuration on disk.
"""

from pocketmq.namesrv.config import NamesrvConfig
from pocketmq.namesrv.nameserver import NameServer

__all__ = ["NameServer", "NamesrvConfig"]
