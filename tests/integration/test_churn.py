"""Producers and consumers that come, go and crash, over many rebalances and broker restarts.

Every acknowledged message is handled at least once by each group. In the group that consumes in
order no message of a queue begins before all that were stored before it were handled, and no two
members have messages of one queue at the same time.
"""

from __future__ import annotations

import logging
import random
from pathlib import Path

import pytest
from support.brokers.churn import Churn

STEPS = 25

log = logging.getLogger("pocketmq.tests")


@pytest.mark.timeout(3_600)
async def test_members_that_come_go_and_crash(tmp_path: Path, seed: int, churn_rounds: int) -> None:
    for number in range(churn_rounds):
        chance = random.Random(f"{seed}/{number}")
        async with Churn(tmp_path / str(number), chance) as churn:
            for _ in range(STEPS):
                await churn.step()
            await churn.settle()
            in_order = churn.ledgers["in-order"]
            log.info("%s", churn.summary())
            assert not in_order.violations, churn.report()
            assert len(churn.acknowledged) > STEPS, churn.report()
