"""A follower beside a leader of a later release: what it does not know, it does not take over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.store.stores import open_store

from pocketmq.broker.replication.follower import Follower
from pocketmq.broker.replication.items import Change, Item, Table, TablesEnd, encode_item
from pocketmq.broker.store.disk.errors import VersionError
from pocketmq.broker.store.metadata.features import POPS, Feature, encode_features
from pocketmq.broker.store.metadata.log_epochs import LogEpochs
from pocketmq.broker.store.store import MessageStore
from pocketmq.protocol.errors import ContentError
from pocketmq.testing.clock import VirtualClock

TIERS = Feature("tiers", "0.3.0", "logs in an object store")


@pytest_asyncio.fixture
async def store(tmp_path: Path, clock: VirtualClock) -> AsyncIterator[MessageStore]:
    store = open_store(tmp_path / "data", clock)
    yield store
    await store.close()


def told(store: MessageStore, *items: Item) -> None:
    """Has a follower apply what a leader sends."""
    frame = b"".join(b"".join(encode_item(item)) for item in items)
    Follower(store, LogEpochs(store.metadata)).apply(frame, 0)


async def test_features_of_the_leader_mark_the_follower(store: MessageStore) -> None:
    told(store, Change("use_features", ([POPS],)), Change("set_state", ("pop_journal_begin", "7")))
    assert store.metadata.features == {POPS}
    assert store.metadata.state("pop_journal_begin") == "7"


async def test_an_unknown_feature_is_refused_before_anything_of_it_comes(
    store: MessageStore,
) -> None:
    tiers = Change("use_features", ([TIERS],))
    with pytest.raises(VersionError, match=r"run PocketMQ 0\.3\.0 or a newer one"):
        told(store, tiers, Change("set_state", ("tiers_begin", "7")))
    rows = [("features", encode_features([TIERS])), ("tiers_begin", "7")]
    with pytest.raises(VersionError, match=r"tiers, since 0\.3\.0"):
        told(store, Table("state", rows), TablesEnd())
    assert store.metadata.states("tiers") == {}
    assert store.metadata.features == set()


async def test_an_unknown_change_is_refused(store: MessageStore) -> None:
    with pytest.raises(ContentError, match="a change 'move_to_tier', which nobody knows"):
        told(store, Change("move_to_tier", ("Orders",)))
