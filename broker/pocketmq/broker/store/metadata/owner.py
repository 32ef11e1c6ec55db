"""Stores the broker's name in its data directory, and refuses to start on another broker's."""

from __future__ import annotations

from pathlib import Path

import msgspec

from pocketmq.broker.store.disk.errors import OwnerError
from pocketmq.broker.store.metadata.metadata import Metadata

STATE = "owner"
"""Under this key the metadata names the broker; without it the next one takes the directory."""


class Owner(msgspec.Struct, frozen=True):
    """The cluster, name and id of a broker."""

    cluster: str
    broker_name: str
    broker_id: int

    def __str__(self) -> str:
        return f"broker {self.broker_name} (id {self.broker_id}) of cluster {self.cluster}"


def claim(directory: Path, metadata: Metadata, broker: Owner) -> None:
    """Enters a broker as the owner of its data directory, or refuses it.

    A broker of its own (id 0) may become a member of the broker set with its name, which it then
    founds. A member never becomes a broker of its own again: it may lack what the set has.

    Raises:
        OwnerError: the directory is another broker's.
    """
    text = metadata.state(STATE)
    if text is not None:
        owner = msgspec.json.decode(text, type=Owner)
        joins_set = broker.broker_id > 0 and owner == msgspec.structs.replace(broker, broker_id=0)
        if owner != broker and not joins_set:
            raise OwnerError(directory, str(owner), str(broker))
        if owner == broker:
            return
    metadata.set_state(STATE, msgspec.json.encode(broker).decode())
