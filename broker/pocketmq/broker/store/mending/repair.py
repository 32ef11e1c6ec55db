"""Mends a data directory that no broker has open, by `pocketmq store repair`.

What is sound stays in service; everything else is moved into a folder, never deleted.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pocketmq.broker.store.disk.files import Files
from pocketmq.broker.store.log.checkpoint import Checkpoint
from pocketmq.broker.store.mending.aside import Aside
from pocketmq.broker.store.mending.check import OPEN_FILES_MAX, QueueKey, queue_directories
from pocketmq.broker.store.mending.metadata_check import (
    LEFT_AS_IT_IS,
    MetadataSurvey,
    survey_metadata,
)
from pocketmq.broker.store.mending.repair_metadata import MetadataRepair
from pocketmq.broker.store.mending.repair_queue import QueueRepair, QueueRepairPlan, Step
from pocketmq.broker.store.mending.survey import OnProgress, survey_queue


class RepairReport(NamedTuple):
    """What a repair did, or would do.

    Attributes:
        steps: in words, in order.
        refusals: what cannot be repaired, and what helps.
        folder: where things were moved; it exists only if something was.
    """

    steps: list[str]
    refusals: list[str]
    folder: Path


def repair_directory(
    directory: Path, folder: Path, *, dry_run: bool, on_progress: OnProgress = lambda _: None
) -> RepairReport:
    """Checks a data directory, then mends what is wrong with it.

    All is planned before anything is changed. A repair that was interrupted may be run again.

    Args:
        directory: the data directory; the caller holds its lock.
        folder: where to put what is taken out of service; below the directory.
        dry_run: only say what would be done.
        on_progress: see `survey.OnProgress`.

    Raises:
        OSError, sqlite3.Error: a step failed; what was moved is in the folder.
    """
    files = Files(OPEN_FILES_MAX)
    aside = Aside(directory, folder)
    try:
        metadata = survey_metadata(directory)
        if metadata.is_newer:
            text = "; ".join(metadata.problems)
            refusal = f"{directory / 'meta.db'}: {text}; {LEFT_AS_IT_IS}"
            return RepairReport([], [refusal], folder)
        plans = _plan_queues(files, aside, directory, metadata, on_progress)
        steps = [step for plan in plans.values() for step in plan.steps]
        refusals = [plan.refusal for plan in plans.values() if plan.refusal]
        if metadata.is_there:
            sound = {key: plan for key, plan in plans.items() if not plan.refusal}
            if not refusals or not metadata.problems:
                steps += MetadataRepair(files, aside, directory, metadata, sound).plan()
        if not dry_run and steps:
            _apply(steps, aside)
        return RepairReport([str(step) for step in steps], refusals, folder)
    finally:
        files.close()


def _apply(steps: list[Step], aside: Aside) -> None:
    aside.write_report([f"planned: {step}" for step in steps])
    for step in steps:
        step.apply()
        aside.write_report([f"done: {step}"])


def _plan_queues(
    files: Files,
    aside: Aside,
    directory: Path,
    metadata: MetadataSurvey,
    on_progress: OnProgress,
) -> dict[QueueKey, QueueRepairPlan]:
    rows = {(row[1], row[2]): row for row in metadata.rows["queue_logs"]}
    topics = metadata.topics()
    plans: dict[QueueKey, QueueRepairPlan] = {}
    directories = queue_directories(directory)
    for (topic, queue_id), row in rows.items():
        if row[3] and topic in topics:  # its directory may be gone
            directories.setdefault((topic, queue_id), directory / "queues" / topic / str(queue_id))
    for key, path in directories.items():
        known = rows.get(key)
        number = None if known is None else known[0]
        checkpoint = None if known is None else Checkpoint(*known[3:])
        repair = QueueRepair(files, aside, path, number, checkpoint)
        plans[key] = repair.plan(survey_queue(files, path, on_progress))
        files.close()
    _refuse_copies(directory, aside, files, rows, plans)
    return plans


def _refuse_copies(
    directory: Path,
    aside: Aside,
    files: Files,
    rows: dict[QueueKey, tuple[object, ...]],
    plans: dict[QueueKey, QueueRepairPlan],
) -> None:
    """Of several queues with the same log number, only the one that the metadata knows stays."""
    counts = Counter(plan.number for plan in plans.values() if plan.number is not None)
    for key, plan in list(plans.items()):
        if plan.number is None or counts[plan.number] == 1:
            continue
        row = rows.get(key)
        if row is not None and row[0] == plan.number:
            continue
        path = directory / "queues" / key[0] / str(key[1])
        text = f"move it aside: its files carry the number {plan.number} of another queue"
        step = Step(path, text, partial(aside.move, files, path))
        plans[key] = QueueRepairPlan([step])
        counts[plan.number] -= 1
