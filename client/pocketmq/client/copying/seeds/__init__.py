"""Seed files: the topics, groups, messages and offsets that a cluster begins with."""

from pocketmq.client.copying.seeds.applying import SeedReport, apply_seed
from pocketmq.client.copying.seeds.model import seed_schema
from pocketmq.client.copying.seeds.seed_file import Seed, read_seed
from pocketmq.client.copying.seeds.snapshot import snapshot_text, take_snapshot

__all__ = [
    "Seed",
    "SeedReport",
    "apply_seed",
    "read_seed",
    "seed_schema",
    "snapshot_text",
    "take_snapshot",
]
