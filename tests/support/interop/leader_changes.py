"""Changes of the leader of a broker set of two, as operators and faults make them."""

from __future__ import annotations

from support.arbiters.broker_sets import BrokerSet

MEMBERS = (1, 2)


def switch(pair: BrokerSet) -> None:
    """Has the other member lead; returns when both are in sync again."""
    other = sum(MEMBERS) - pair.leader(*MEMBERS)
    pair.run_until(lambda done: not done.returncode, "broker", "switch", "--to", str(other))
    pair.wait_until_in_sync(*MEMBERS)


def kill(pair: BrokerSet) -> None:
    """Ends the leader's process by SIGKILL, and starts it again when the other member leads."""
    leader = pair.leader(*MEMBERS)
    pair.members[leader].stop()
    pair.leader(sum(MEMBERS) - leader)
    pair.members[leader].start()
    pair.wait_until_in_sync(*MEMBERS)
