"""What Prometheus gets of a server, read by its own client library."""

from __future__ import annotations

import urllib.request
from typing import Any

from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

PROM: dict[str, Any] = {"metrics_exporter_type": "PROM", "metrics_prom_exporter_port": 0}
"""The settings of a server that is scraped."""


def families_of(text: str, accept: str = "text/plain") -> list[Metric]:
    """The metrics of a page."""
    parse = openmetrics_families if "openmetrics" in accept else text_string_to_metric_families
    return list(parse(text))


def scraped_families(port: int, path: str = "/metrics", accept: str = "text/plain") -> list[Metric]:
    """The metrics that a port serves."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept})
    with urllib.request.urlopen(request) as answer:
        text = answer.read().decode()
    return families_of(text, accept)


def scraped(port: int, path: str = "/metrics", accept: str = "text/plain") -> list[Sample]:
    """The samples that a port serves."""
    return [s for family in scraped_families(port, path, accept) for s in family.samples]


def value(samples: list[Sample], name: str, **labels: str) -> float:
    """The value of the only sample with a name and some labels."""
    [found] = [s.value for s in samples if s.name == name and labels.items() <= s.labels.items()]
    return found
