"""What a client must manage on any cluster: PocketMQ's own and Apache's."""

from __future__ import annotations

from support.scenarios.orderly import consumes_in_order, gives_up_in_order
from support.scenarios.pulling import pulls_and_offsets
from support.scenarios.pushing import broadcasts, iterated, pushed_again_after_a_failure, pushes
from support.scenarios.retry import (
    a_failed_message_takes_the_ladders_first_step,
    a_message_that_cannot_go_back_is_sent_anew,
    a_poison_message_ends_among_the_dead_letters,
)
from support.scenarios.sending import large_batches_are_split, sends_of_all_kinds
from support.scenarios.timer import timers_and_recalls
from support.scenarios.topic import topics_are_administered, unknown_topics
from support.scenarios.transaction import transactions

SCENARIOS = [
    sends_of_all_kinds,
    large_batches_are_split,
    unknown_topics,
    pulls_and_offsets,
    topics_are_administered,
    pushes,
    pushed_again_after_a_failure,
    broadcasts,
    iterated,
    transactions,
    consumes_in_order,
    timers_and_recalls,
]

RETRY_SCENARIOS = [
    a_failed_message_takes_the_ladders_first_step,
    a_poison_message_ends_among_the_dead_letters,
    a_message_that_cannot_go_back_is_sent_anew,
    gives_up_in_order,
]
"""They need a broker that takes messages back."""
