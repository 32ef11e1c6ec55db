"""The Helm chart and the plain manifests made from it: they fit each other and the product.

What needs Helm or Kubernetes' schemas is skipped without them (`make manifests-check` installs the
schemas); the settings in the plain manifests are read by the servers' own code everywhere.
"""

from __future__ import annotations

import ipaddress
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from pocketmq.broker import BrokerConfig
from pocketmq.broker.config.agreed import agreed_settings
from pocketmq.broker.config.controller import parse_controller
from pocketmq.namesrv import NamesrvConfig
from pocketmq.protocol.names.advertise import parse_advertised
from pocketmq.runtime.settings import load_settings

DEPLOY = Path(__file__).parents[2] / "deploy"
CHART = DEPLOY / "helm" / "pocketmq"
PLAIN = {name: DEPLOY / "kubernetes" / f"{name}.yaml" for name in ("cluster", "ha")}
HELM = os.environ.get("HELM") or shutil.which("helm")
KUBERNETES_VERSIONS = ("1.25", "1.37")
"""The oldest that Chart.yaml allows, and the newest whose schemas the validator has."""

OPERATORS = "monitoring.coreos.com/v1"
"""Of the Prometheus operator's own kinds, of which Kubernetes has no schemas."""

SECURE = (
    "--values", str(CHART / "values-secure.yaml"),
    "--set", "security.admin.password=p$ss: word,security.inner.secretKey=two",
)  # fmt: skip
OUTSIDE = (
    "--set", "external.enabled=true,external.type=NodePort",
    "--set", "external.addresses={mq.example:30911,mq.example:30912}",
    "--set", "external.nodePorts={30911,30912}",
)  # fmt: skip

MONITORED = (
    "--set", "metrics.enabled=true,metrics.serviceMonitor.enabled=true,metrics.rules.enabled=true",
    "--set", "metrics.dashboards.enabled=true,metrics.dashboards.datasource=thanos",
    "--set", "metrics.serviceMonitor.labels.release=prometheus",
)  # fmt: skip

needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed (HELM names it)")

Manifests = list[dict[str, Any]]


def helm(*words: str, chart: Path = CHART) -> subprocess.CompletedProcess[str]:
    assert HELM is not None
    command = (HELM, "template", "pocketmq", str(chart), "--kube-version", "1.31.0", *words)
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def rendered(*words: str) -> Manifests:
    done = helm(*words)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def rendered_notes(directory: Path, *words: str) -> str:
    """What `helm install` prints in the end: `helm template` leaves that out."""
    chart = shutil.copytree(CHART, directory / "chart")
    (chart / "templates" / "NOTES.txt").rename(chart / "notes.txt")
    wrapped = 'kind: Notes\ntext: {{ tpl (.Files.Get "notes.txt") . | toJson }}\n'
    (chart / "templates" / "notes.yaml").write_text(wrapped)
    done = helm(*words, chart=chart)
    assert done.returncode == 0, done.stderr
    [notes] = [one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] == "Notes"]
    return str(notes["text"])


def plain(name: str) -> Manifests:
    return [one for one in yaml.safe_load_all(PLAIN[name].read_text()) if one]


def of_kind(manifests: Manifests, kind: str) -> Manifests:
    return [one for one in manifests if one["kind"] == kind]


def stateful_sets(manifests: Manifests) -> dict[str, Any]:
    return {one["metadata"]["name"]: one["spec"] for one in of_kind(manifests, "StatefulSet")}


def settings(
    manifests: Manifests, directory: Path
) -> tuple[dict[str, NamesrvConfig], dict[str, BrokerConfig]]:
    """The settings of all pods, read as the servers read them."""
    [secret] = of_kind(manifests, "Secret")
    namesrvs, brokers = {}, {}
    for file, text in secret["stringData"].items():
        path = directory / file
        path.write_text(text)
        if "-namesrv-" in file:
            namesrvs[path.stem] = load_settings(path, NamesrvConfig)
        else:
            brokers[path.stem] = load_settings(path, BrokerConfig)
    return namesrvs, brokers


def validate(manifests: Manifests) -> None:
    """Holds manifests against Kubernetes' own schemas, in which no further key is allowed."""
    validator = pytest.importorskip(
        "kubernetes_validate", reason="the extra deploy-test is not installed"
    )
    for manifest in manifests:
        if manifest["apiVersion"] == OPERATORS:
            continue
        for version in KUBERNETES_VERSIONS:
            validator.validate(manifest, version, strict=True)


@pytest.mark.parametrize("name", PLAIN)
def test_plain_manifests_are_valid(name: str) -> None:
    validate(plain(name))


@needs_helm
@pytest.mark.parametrize(
    "words", [SECURE, OUTSIDE, MONITORED], ids=["secure", "outside", "monitored"]
)
def test_other_values_are_valid(words: tuple[str, ...]) -> None:
    validate(rendered(*words))


@needs_helm
@pytest.mark.process
def test_the_plain_manifests_are_those_of_the_chart(tmp_path: Path) -> None:
    environment = {**os.environ, "HELM": str(HELM), "OUT": str(tmp_path)}
    subprocess.run([str(DEPLOY / "kubernetes" / "make.sh")], env=environment, check=True)
    for path in PLAIN.values():
        assert (tmp_path / path.name).read_text() == path.read_text(), "make manifests"


@pytest.mark.parametrize("name", PLAIN)
def test_each_pod_finds_its_settings(name: str, tmp_path: Path) -> None:
    manifests = plain(name)
    namesrvs, brokers = settings(manifests, tmp_path)
    found = {
        f"{name}-{index}"
        for name, spec in stateful_sets(manifests).items()
        for index in range(spec["replicas"])
    }
    assert found == namesrvs.keys() | brokers.keys()
    for name, spec in stateful_sets(manifests).items():
        [container] = spec["template"]["spec"]["containers"]
        kind = name.removeprefix("pocketmq-")
        assert container["args"] == [kind, "-c", "/etc/pocketmq/$(POD_NAME).yaml"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        servers = namesrvs if kind == "namesrv" else brokers
        for config in servers.values():
            assert isinstance(config, NamesrvConfig | BrokerConfig)
            assert ports == {kind: config.listen_port, "health": config.health_port}
            assert config.health_host == config.bind_address == "0.0.0.0"
        for which, path in (("livenessProbe", "/live"), ("readinessProbe", "/ready")):
            assert container[which]["httpGet"] == {"path": path, "port": "health"}
    for config in brokers.values():
        hosts = [f"{pod}.pocketmq-namesrv.pocketmq.svc.cluster.local:9876" for pod in namesrvs]
        assert config.namesrv_addr.split(";") == hosts


@pytest.mark.parametrize("name", PLAIN)
def test_pods_may_do_little_and_are_given_time(name: str) -> None:
    manifests = plain(name)
    for spec in stateful_sets(manifests).values():
        pod = spec["template"]["spec"]
        [container] = pod["containers"]
        given = pod["securityContext"]
        assert given["runAsNonRoot"] is True
        assert given["runAsUser"] == given["fsGroup"] == 10001, "the image's user"
        assert given["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False, "a service would set POCKETMQ_… variables"
        assert pod["terminationGracePeriodSeconds"] >= 30
        assert spec["podManagementPolicy"] == "Parallel"
        [headless] = [
            one["spec"]
            for one in of_kind(manifests, "Service")
            if one["metadata"]["name"] == spec["serviceName"]
        ]
        assert headless["clusterIP"] == "None"
        assert headless["publishNotReadyAddresses"] is True
    budgets = of_kind(manifests, "PodDisruptionBudget")
    assert [one["spec"]["maxUnavailable"] for one in budgets] == [1, 1]


def test_the_ha_cluster_has_sets_of_two_that_agree(tmp_path: Path) -> None:
    namesrvs, brokers = settings(plain("ha"), tmp_path)
    assert len(namesrvs) == 3
    members = [(config.broker_name, config.broker_id) for config in brokers.values()]
    assert members == [("broker-0", 1), ("broker-0", 2), ("broker-1", 1), ("broker-1", 2)]
    agreed = [agreed_settings(config) for config in brokers.values()]
    assert agreed == agreed[:1] * len(agreed)
    for config in brokers.values():
        assert config.enable_controller_mode
        assert parse_controller(config.controller_addr).is_etcd


@needs_helm
def test_clients_outside_are_told_other_addresses(tmp_path: Path) -> None:
    manifests = rendered(*OUTSIDE)
    _, brokers = settings(manifests, tmp_path)
    services = {one["metadata"]["name"]: one["spec"] for one in of_kind(manifests, "Service")}
    for index, (pod, config) in enumerate(brokers.items()):
        rules = parse_advertised(msgspec.json.encode(config.advertise).decode())
        inside = rules.address_for(ipaddress.ip_address("10.1.2.3"))
        assert inside == f"{config.broker_ip1}:{config.listen_port}"
        outside = rules.address_for(ipaddress.ip_address("203.0.113.9"))
        assert outside == f"mq.example:{30911 + index}"
        service = services[f"{pod}-external"]
        assert service["selector"] == {"statefulset.kubernetes.io/pod-name": pod}
        assert service["ports"][0]["nodePort"] == 30911 + index


@needs_helm
def test_a_secure_cluster_takes_tls_and_signed_requests_only(tmp_path: Path) -> None:
    manifests = rendered(*SECURE)
    namesrvs, brokers = settings(manifests, tmp_path)
    servers: list[NamesrvConfig | BrokerConfig] = [*namesrvs.values(), *brokers.values()]
    for config in servers:
        assert config.authentication_enabled
        assert config.authorization_enabled
        assert not config.insecure
        assert config.tls_server_mode == "enforcing"
        user = {"username": "admin", "password": "p$ss: word"}
        assert config.init_authentication_user == user
    for spec in stateful_sets(manifests).values():
        [tls] = [one for one in spec["template"]["spec"]["volumes"] if one["name"] == "tls"]
        assert tls["secret"]["secretName"] == "pocketmq-tls"


@needs_helm
def test_prometheus_finds_every_pod_and_grafana_every_dashboard(tmp_path: Path) -> None:
    manifests = rendered(*MONITORED)
    namesrvs, brokers = settings(manifests, tmp_path)
    servers: list[NamesrvConfig | BrokerConfig] = [*namesrvs.values(), *brokers.values()]
    for config in servers:
        assert config.metrics_exporter_type == "PROM"
        assert config.metrics_prom_exporter_host == "0.0.0.0"
    [monitor] = of_kind(manifests, "ServiceMonitor")
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["path"] == "/metrics"
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    for spec in stateful_sets(manifests).values():
        [service] = [
            one
            for one in of_kind(manifests, "Service")
            if one["metadata"]["name"] == spec["serviceName"]
        ]
        assert wanted <= service["metadata"]["labels"].items()
        ports = {port["name"]: port for port in service["spec"]["ports"]}
        assert ports[endpoint["port"]]["targetPort"] == "metrics"
        [container] = spec["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        assert {config.metrics_prom_exporter_port for config in servers} == {ports["metrics"]}
    [rule] = of_kind(manifests, "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((DEPLOY / "grafana" / "alerts.yml").read_text())
    boards = of_kind(manifests, "ConfigMap")
    found = {name: json.loads(text) for one in boards for name, text in one["data"].items()}
    files = list((DEPLOY / "grafana").glob("*.json"))
    assert found.keys() == {f"pocketmq-{path.name}" for path in files}
    for path in files:
        text = path.read_text().replace("${DS_PROMETHEUS}", "thanos")
        assert found[f"pocketmq-{path.name}"] == json.loads(text)
    assert {one["metadata"]["labels"]["grafana_dashboard"] for one in boards} == {"1"}


@pytest.mark.parametrize("name", PLAIN)
def test_nothing_is_scraped_unless_it_is_asked_for(name: str, tmp_path: Path) -> None:
    manifests = plain(name)
    kinds = {one["kind"] for one in manifests}
    assert kinds == {"Secret", "Service", "StatefulSet", "PodDisruptionBudget"}
    namesrvs, brokers = settings(manifests, tmp_path)
    servers: list[NamesrvConfig | BrokerConfig] = [*namesrvs.values(), *brokers.values()]
    assert {config.metrics_exporter_type for config in servers} == {"DISABLE"}


@needs_helm
def test_the_notes_tell_where_clients_connect(tmp_path: Path) -> None:
    notes = rendered_notes(tmp_path / "outside", *OUTSIDE)
    assert "2 name servers, and 2 brokers in 2 broker sets" in notes
    assert "pocketmq-namesrv-0.pocketmq-namesrv.default.svc.cluster.local:9876;" in notes
    assert "mq.example:30911, mq.example:30912" in notes
    assert "Everybody who reaches the pods may do everything" in notes
    assert "Messages have one copy" in notes
    assert "may do everything" not in rendered_notes(tmp_path / "secure", *SECURE)


@needs_helm
def test_a_platform_may_choose_the_user() -> None:
    names = ("runAsUser", "runAsGroup", "fsGroup", "fsGroupChangePolicy")
    manifests = rendered("--set", ",".join(f"podSecurityContext.{name}=null" for name in names))
    validate(manifests)
    for spec in stateful_sets(manifests).values():
        given = spec["template"]["spec"]["securityContext"]
        assert given == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


@needs_helm
@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ("broker.members=2", "needs an arbiter"),
        ("broker.member=2", "broker"),
        ("external.enabled=true", "for each of the 2 brokers' pods"),
        ("security.enabled=true", "needs security.admin.password"),
        ("broker.storage.size=much", "broker"),
        ("metrics.serviceMonitor.enabled=true", "nothing to scrape"),
        ("metrics.port=1", "port"),
    ],
)
def test_values_that_do_not_fit_are_refused(values: str, reason: str) -> None:
    done = helm("--set", values)
    assert done.returncode
    assert reason in done.stderr
