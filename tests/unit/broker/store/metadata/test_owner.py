from __future__ import annotations

from pathlib import Path

import pytest

from pocketmq.broker.store.disk.errors import OwnerError
from pocketmq.broker.store.metadata.metadata import Metadata
from pocketmq.broker.store.metadata.owner import Owner, claim

OWNER = Owner("DefaultCluster", "broker-a", 0)


@pytest.mark.parametrize(
    "other",
    [
        Owner("DefaultCluster", "broker-b", 0),
        Owner("Other", "broker-a", 0),
        Owner("Other", "broker-a", 1),
    ],
)
def test_the_first_broker_takes_the_directory_and_others_are_refused(
    tmp_path: Path, other: Owner
) -> None:
    metadata = Metadata(tmp_path / "meta.db")
    for _ in range(2):
        claim(tmp_path, metadata, OWNER)
    with pytest.raises(OwnerError) as caught:
        claim(tmp_path, metadata, other)
    assert f"is that of {OWNER}, and this is {other}" in str(caught.value)
    claim(tmp_path, metadata, OWNER)
    metadata.close()


def test_a_broker_of_its_own_becomes_a_member_of_a_set_and_never_goes_back(tmp_path: Path) -> None:
    metadata = Metadata(tmp_path / "meta.db")
    member = Owner("DefaultCluster", "broker-a", 2)
    claim(tmp_path, metadata, OWNER)
    for _ in range(2):
        claim(tmp_path, metadata, member)
    for other in (OWNER, Owner("DefaultCluster", "broker-a", 3)):
        with pytest.raises(OwnerError):
            claim(tmp_path, metadata, other)
    metadata.close()
