"""What a data directory holds that some releases cannot read: such a release refuses it by name.

A directory is marked with a feature before anything of the feature is written. As long as no
feature is in use, releases that know none of them can open it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import msgspec

from pocketmq.broker.store.disk.errors import VersionError
from pocketmq.protocol.names import names
from pocketmq.runtime import VERSION

FEATURES_STATE = "features"
"""The key of the state that lists the features in use, as (name, since, what) in JSON."""


class Feature(NamedTuple):
    """Something that releases before a certain one cannot read.

    Attributes:
        name: of the feature.
        since: the first release that knows it.
        what: what the directory holds then, in words, for releases that do not know the name.
    """

    name: str
    since: str
    what: str


USERS = Feature("users", "0.2.0", "users and policies")
POPS = Feature("pops", "0.2.0", "popped messages")
REDRIVES = Feature("redrives", "0.2.0", "redrives of dead letters")
BROKER_SET = Feature("broker-set", "0.2.0", "the data of a member of a broker set")
GAPS = Feature("gaps", "0.2.0", "records in the place of lost ones")

KNOWN = frozenset({USERS, POPS, REDRIVES, BROKER_SET, GAPS})
"""All that this release can read."""

_OF_STATES = {"user/": USERS, "pop_": POPS, "redrive_": REDRIVES, "member_": BROKER_SET}
"""By the beginnings of the keys of states that belong to a feature."""

_OF_TOPICS = {names.POP_JOURNAL_TOPIC: POPS, names.REDRIVE_TOPIC: REDRIVES}
"""By the topics whose logs belong to a feature."""

FEATURE_TOPICS = tuple(_OF_TOPICS)
"""The topics whose logs belong to features."""

_STATE_PREFIXES = tuple(_OF_STATES)


def features_of_states(keys: Iterable[str]) -> set[Feature]:
    """Returns the features to which states belong."""
    return {
        feature
        for key in keys
        if key.startswith(_STATE_PREFIXES)
        for prefix, feature in _OF_STATES.items()
        if key.startswith(prefix)
    }


def features_of_topics(topics: Iterable[str]) -> set[Feature]:
    """Returns the features to which the logs of topics belong."""
    return {_OF_TOPICS[topic] for topic in topics if topic in _OF_TOPICS}


def encode_features(features: Iterable[Feature]) -> str:
    """Encodes features as the state keeps them."""
    return msgspec.json.encode(sorted(features)).decode()


def decode_features(text: str | None) -> set[Feature]:
    """Decodes features; none if the state is not there.

    Raises:
        msgspec.DecodeError: the text is damaged.
    """
    return msgspec.json.decode(text, type=set[Feature]) if text else set()


def check_known(path: Path, features: Iterable[Feature]) -> None:
    """Refuses what holds features that this release does not know.

    Args:
        path: what is refused.
        features: that it holds.

    Raises:
        VersionError: with the features by name, and the release that knows them.
    """
    known = {feature.name for feature in KNOWN}
    if unknown := sorted(f for f in features if f.name not in known):
        raise VersionError(path, _refusal(unknown))


def _refusal(unknown: list[Feature]) -> str:
    told = ", ".join(f"{f.what} ({f.name}, since {f.since})" for f in unknown)
    newest = max((f.since for f in unknown), key=_order)
    return (
        f"it holds what PocketMQ {VERSION} does not know: {told}: run PocketMQ {newest} or a newer "
        f"one, or restore a backup that was made before"
    )


def _order(release: str) -> list[tuple[int, str]]:
    """Puts releases in order, whatever a later one is called."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in release.split(".")]
