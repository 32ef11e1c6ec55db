"""The dashboards and alert rules name metrics that a running broker emits."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
from pathlib import Path

from support.brokers.broker_members import Members
from support.brokers.secured import SETTINGS
from support.peers.certificates import CertificateFiles
from support.scrapes import PROM, scraped_families
from support.threads import PatientClock

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
FILES = ["overview.json", "topics.json", "groups.json", "brokers.json", "alerts.yml"]


def test_the_files_are_those_that_the_script_makes() -> None:
    made = runpy.run_path(str(FOLDER / "make.py"))["files"]()
    assert sorted(made) == sorted(FILES)
    for name, text in made.items():
        assert (FOLDER / name).read_text(encoding="utf-8") == text, "run deploy/grafana/make.py"


def expressions() -> list[str]:
    found = []
    for name in FILES:
        document = json.loads((FOLDER / name).read_text(encoding="utf-8"))
        for panel in document.get("panels", []):
            found += [target["expr"] for target in panel["targets"]]
        for variable in document.get("templating", {}).get("list", []):
            found.append(variable["query"])
        for group in document.get("groups", []):
            found += [rule["expr"] for rule in group["rules"]]
    return found


SUFFIXES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}


async def test_each_metric_that_is_named_is_emitted(tmp_path: Path) -> None:
    """By the leader of a broker set over TLS, which has them all."""
    tls = CertificateFiles(tmp_path / "tls").config("permissive")
    pair = Members(tmp_path, PatientClock(), common={**SETTINGS, **PROM, **tls})
    await pair.start()
    await pair.until_in_sync()
    port = pair.leader.metrics_port
    assert port is not None
    families = await asyncio.to_thread(scraped_families, port)
    await pair.close()
    emitted = {family.name + suffix for family in families for suffix in SUFFIXES[family.type]}
    named = {m for text in expressions() for m in re.findall(r"\b(?:rocketmq|pocketmq)_\w+", text)}
    assert len(named) > 30
    assert not named - emitted
