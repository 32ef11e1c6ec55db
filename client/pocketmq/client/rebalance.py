"""How a group's members share the queues of a topic: pure functions, the same in every member."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pocketmq.protocol.message import MessageQueue

AllocateStrategy = Callable[[str, Sequence[MessageQueue], Sequence[str]], Sequence[MessageQueue]]
"""(own client id, all queues sorted, all client ids sorted) → the own queues.

Every member computes this for itself, so it must depend on nothing else, and the members' shares
together must be all queues, each once.
"""


def allocate_averagely(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> Sequence[MessageQueue]:
    """Neighbouring queues, as many for each; the first members take what is left over.

    `client/consumer/rebalance/AllocateMessageQueueAveragely`; members of other SDKs in the same
    group must come to the same result.
    """
    if client_id not in client_ids:
        return ()
    index = client_ids.index(client_id)
    share, left_over = divmod(len(queues), len(client_ids))
    start = index * share + min(index, left_over)
    return queues[start : start + share + (index < left_over)]


def allocate_by_circle(
    client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> Sequence[MessageQueue]:
    """Queues dealt out like cards (`AllocateMessageQueueAveragelyByCircle`)."""
    if client_id not in client_ids:
        return ()
    return queues[client_ids.index(client_id) :: len(client_ids)]
