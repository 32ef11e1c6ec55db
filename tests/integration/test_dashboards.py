"""The dashboards and alert rules name metrics that a running broker emits."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from pocketmq.broker import Broker, BrokerConfig

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
FILES = ["overview.json", "topics.json", "groups.json", "brokers.json", "alerts.yml"]

OF_BROKER_SETS = {"pocketmq_in_sync_members"}
"""A broker that stands alone does not emit them."""


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


async def test_each_metric_that_is_named_is_emitted(tmp_path: Path) -> None:
    config = BrokerConfig(
        listen_port=0,
        store_path_root_dir=str(tmp_path),
        metrics_exporter_type="PROM",
        metrics_prom_exporter_port=0,
    )
    async with Broker(config) as broker:
        url = f"http://127.0.0.1:{broker.metrics_port}/metrics"
        answer = await asyncio.to_thread(urllib.request.urlopen, url)
        with answer:
            text = answer.read().decode()
    families = text_string_to_metric_families(text)
    emitted = {f.name + ("_total" if f.type == "counter" else "") for f in families}
    named = {m for text in expressions() for m in re.findall(r"\b(?:rocketmq|pocketmq)_\w+", text)}
    assert len(named) > 30
    assert named - emitted == OF_BROKER_SETS
