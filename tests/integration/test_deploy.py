"""The files of `deploy/` and docker-compose.yml fit each other and the product, without Docker.

`deploy/try-compose.sh` brings them up for real; this finds what drifts apart in between.
"""

from __future__ import annotations

import csv
import ipaddress
import itertools
import json
import os
import re
import subprocess
import sys
import venv
from importlib.metadata import distribution, metadata
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec
import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from typer.main import get_command

from pocketmq.broker import BrokerConfig
from pocketmq.broker.config.agreed import agreed_settings
from pocketmq.broker.config.controller import parse_controller
from pocketmq.cli.main import app
from pocketmq.namesrv import NamesrvConfig
from pocketmq.protocol.messages.hosts import split_address
from pocketmq.protocol.names.advertise import parse_advertised
from pocketmq.runtime.settings import load_settings

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()
SMALL_DOCKERFILE = (ROOT / "deploy" / "Dockerfile.small").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
TESTING: dict[str, Any] = yaml.safe_load((ROOT / "deploy" / "compose-testing.yml").read_text())
BROKERS = sorted(name for name in SERVICES if name.startswith("broker-"))
NAMESRVS = sorted(name for name in SERVICES if name.startswith("namesrv-"))
SERVERS = BROKERS + NAMESRVS
MEMBERS = sorted(name for name in SERVICES if name.startswith("ha-broker-"))
HA_NAMESRVS = sorted(name for name in SERVICES if name.startswith("ha-namesrv-"))
HA_ETCDS = sorted(name for name in SERVICES if name.startswith("ha-etcd-"))
HA_SERVERS = MEMBERS + HA_NAMESRVS


def mounts(service: str) -> dict[str, str]:
    """What is mounted, by its place in the container."""
    entries = (entry.split(":") for entry in SERVICES[service].get("volumes", ()))
    return {parts[1]: parts[0] for parts in entries}


def config_file(service: str) -> Path:
    """The file on the host that a server's command reads in its container."""
    command = SERVICES[service]["command"]
    return ROOT / mounts(service)[command[command.index("-c") + 1]]


def broker_config(service: str) -> BrokerConfig:
    return load_settings(config_file(service), BrokerConfig)


def namesrv_config(service: str) -> NamesrvConfig:
    return load_settings(config_file(service), NamesrvConfig)


def listen_port(service: str) -> int:
    config = namesrv_config(service) if "namesrv" in service else broker_config(service)
    return config.listen_port


def parse(words: list[str]) -> dict[str, Any]:
    """The options of a `pocketmq` command line, as the command would be given them."""
    group: Any = get_command(app)
    name, command, rest = group.resolve_command(group.make_context("pocketmq", list(words)), words)
    context = command.make_context(name, list(rest))
    params: dict[str, Any] = context.params
    return params


def test_two_of_each_server_are_described() -> None:
    assert BROKERS == ["broker-a", "broker-b"]
    assert NAMESRVS == ["namesrv-1", "namesrv-2"]


@pytest.mark.parametrize("service", BROKERS)
def test_a_brokers_settings_fit_its_service(service: str) -> None:
    config = broker_config(service)
    assert config.broker_name == service
    assert config.bind_address == "0.0.0.0", "a published port reaches no loopback of a container"
    assert config.namesrv_addr.split(";") == [f"{name}:{listen_port(name)}" for name in NAMESRVS]
    # Clients are told the port: it must be the same on both sides.
    assert SERVICES[service]["ports"] == [f"127.0.0.1:{config.listen_port}:{config.listen_port}"]
    assert mounts(service)[config.store_path_root_dir] in COMPOSE["volumes"]


@pytest.mark.parametrize("service", NAMESRVS + HA_NAMESRVS)
def test_a_name_servers_settings_fit_its_service(service: str) -> None:
    config = namesrv_config(service)
    assert config.bind_address == "0.0.0.0"
    assert config.kv_config_path is not None
    directory = str(PurePosixPath(config.kv_config_path).parent)
    assert mounts(service)[directory] in COMPOSE["volumes"]
    host, _, inside = SERVICES[service]["ports"][0].rpartition(":")
    assert int(inside) == config.listen_port
    assert host.startswith("127.0.0.1:")


def test_every_server_has_a_volume_of_its_own() -> None:
    servers = SERVERS + HA_SERVERS + HA_ETCDS
    used = [source for name in servers for source in mounts(name).values() if "/" not in source]
    assert sorted([*used, "spark-out", "secure"]) == sorted(COMPOSE["volumes"])


@pytest.mark.parametrize("service", BROKERS + MEMBERS)
def test_the_advertise_rules_fit_the_subnet(service: str) -> None:
    config = broker_config(service)
    network = COMPOSE["networks"]["default"]["ipam"]["config"][0]
    subnet = ipaddress.ip_network(network["subnet"])
    gateway = ipaddress.ip_address(network["gateway"])
    assert gateway in subnet
    rules = parse_advertised(msgspec.json.encode(config.advertise).decode())
    on_host, inside = f"127.0.0.1:{config.listen_port}", f"{service}:{config.listen_port}"
    assert rules.address_for(gateway) == on_host
    for container in (gateway + 1, subnet[-2], ipaddress.ip_address("127.0.0.1")):
        assert rules.address_for(container) == inside, container
    # Another subnet is not this cluster's: the last rule is for everybody.
    assert rules.address_for(subnet.broadcast_address + 1) == on_host
    assert rules.address_for(None) == on_host


@pytest.mark.parametrize("service", SERVERS + HA_SERVERS)
def test_a_health_check_asks_the_server_itself(service: str) -> None:
    how, program, *words = SERVICES[service]["healthcheck"]["test"]
    assert (how, program) == ("CMD", "pocketmq")
    asked = parse(words)["namesrv" if "namesrv" in service else "broker"]
    assert split_address(asked) == ("127.0.0.1", listen_port(service))


def test_the_secure_cluster_publishes_what_asks_who_one_is() -> None:
    service = SERVICES["secure"]
    options = parse(list(service["command"]))
    assert options["secure"] is True
    assert options["published"] is True
    assert options["tls_mode"] == "enforcing"
    ports = (options["namesrv_port"], options["broker_port"])
    assert service["ports"] == [f"{port}:{port}" for port in ports]
    assert "secure" in options["tls_host"], "containers reach it by its service's name"
    how, program, *words = service["healthcheck"]["test"]
    assert (how, program) == ("CMD", "pocketmq")
    asked = parse(words)
    assert split_address(asked["namesrv"]) == ("127.0.0.1", options["namesrv_port"])
    assert asked["tls"] is True
    assert service["profiles"] == ["secure"], "it is only there when it is asked for"
    assert mounts("secure")["/var/lib/pocketmq"] == "secure"


def test_the_ha_cluster_outlives_any_one_container() -> None:
    assert HA_NAMESRVS == ["ha-namesrv-1", "ha-namesrv-2", "ha-namesrv-3"]
    assert len(HA_ETCDS) == 3, "two of three members of etcd are a majority"
    configs = [broker_config(name) for name in MEMBERS]
    ids_of_sets: dict[str, list[int]] = {}
    for config in configs:
        ids_of_sets.setdefault(config.broker_name, []).append(config.broker_id)
        assert config.min_in_sync_replicas == 1, "one member of two may be lost"
    assert ids_of_sets == {"broker-a": [1, 2], "broker-b": [1, 2]}
    agreed = [agreed_settings(config) for config in configs]
    assert agreed == agreed[:1] * len(agreed), "a leader refuses members with other settings"


@pytest.mark.parametrize("service", MEMBERS)
def test_a_members_settings_fit_its_service(service: str) -> None:
    config = broker_config(service)
    assert service == f"ha-{config.broker_name}-{config.broker_id}"
    assert config.enable_controller_mode
    assert config.bind_address == "0.0.0.0"
    assert config.namesrv_addr.split(";") == [f"{name}:{listen_port(name)}" for name in HA_NAMESRVS]
    controller = parse_controller(config.controller_addr)
    assert controller.is_etcd
    assert controller.addresses == tuple(f"{name}:2379" for name in HA_ETCDS)
    # Clients are told the port: it must be the same on both sides.
    assert SERVICES[service]["ports"] == [f"127.0.0.1:{config.listen_port}:{config.listen_port}"]
    assert mounts(service)[config.store_path_root_dir] == service
    assert set(SERVICES[service]["depends_on"]) == {*HA_NAMESRVS, *HA_ETCDS}


def test_the_ha_servers_keep_addresses_of_the_subnet() -> None:
    [network] = COMPOSE["networks"]["default"]["ipam"]["config"]
    # Docker gives the other containers addresses from the lower end on.
    *_, upper_half = ipaddress.ip_network(network["subnet"]).subnets()
    kept = {
        name: SERVICES[name]["networks"]["default"]["ipv4_address"]
        for name in HA_SERVERS + HA_ETCDS
    }
    assert len(set(kept.values())) == len(kept)
    assert all(ipaddress.ip_address(address) in upper_half for address in kept.values())
    for member in MEMBERS:
        known = SERVICES[member]["extra_hosts"]
        assert known == {name: kept[name] for name in HA_NAMESRVS + HA_ETCDS}


@pytest.mark.parametrize("service", HA_ETCDS)
def test_a_member_of_etcd_knows_the_others(service: str) -> None:
    settings = SERVICES[service]["environment"]
    assert settings["ETCD_NAME"] == service
    assert settings["ETCD_ADVERTISE_CLIENT_URLS"] == f"http://{service}:2379"
    peers = dict(peer.split("=") for peer in settings["ETCD_INITIAL_CLUSTER"].split(","))
    assert sorted(peers) == HA_ETCDS
    assert peers[service] == settings["ETCD_INITIAL_ADVERTISE_PEER_URLS"]
    assert mounts(service) == {settings["ETCD_DATA_DIR"]: service}
    assert SERVICES[service]["healthcheck"]["test"] == ["CMD", "etcdctl", "endpoint", "health"]
    assert re.search(r":v3\.\d+\.\d+\}$", SERVICES[service]["image"]), "a pinned version"
    assert "ports" not in SERVICES[service], "it asks nobody for a password"


def test_the_ha_cluster_is_only_there_when_it_is_asked_for() -> None:
    services = [name for name, service in SERVICES.items() if service.get("profiles") == ["ha"]]
    assert sorted(services) == sorted(["ha", *HA_SERVERS, *HA_ETCDS])
    for name in HA_ETCDS:
        assert SERVICES[name]["restart"] == "unless-stopped"
        assert SERVICES[name]["read_only"] is True


def test_the_ha_client_brings_up_all_servers() -> None:
    client = SERVICES["ha"]
    assert set(client["depends_on"]) == set(MEMBERS), "which depend on the others"
    addresses = client["environment"]["NAMESRV_ADDR"].split(";")
    assert addresses == [f"{name}:{listen_port(name)}" for name in HA_NAMESRVS]
    group: Any = get_command(app)
    listing = group.get_command(group.make_context("pocketmq", list(client["command"])), "cluster")
    assert client["command"][1] in listing.commands


def test_no_port_of_the_host_is_published_twice() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    published = [port.split(":")[-2] for port in ports]
    assert sorted(published) == sorted(set(published))


def test_the_cluster_for_tests_is_reached_by_its_ports() -> None:
    [service] = TESTING["services"].values()
    options = parse(list(service["command"]))
    assert options["published"] is True
    assert options["memory"] is True
    assert "/tmp" in service["tmpfs"], "its data is in a temporary directory"
    ports = (options["namesrv_port"], options["broker_port"], options["control"])
    assert service["ports"] == [f"127.0.0.1:{port}:{port}" for port in ports]
    how, program, *words = service["healthcheck"]["test"]
    assert (how, program) == ("CMD", "pocketmq")
    assert split_address(parse(words)["broker"]) == ("127.0.0.1", options["broker_port"])


def test_the_image_runs_a_cluster_for_everybody_unless_told_otherwise() -> None:
    match = re.search(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert match is not None
    options = parse(json.loads(match.group(1)))
    assert options["published"] is True
    exposed = re.search(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)
    assert exposed is not None
    ports = [str(options[name]) for name in ("namesrv_port", "broker_port")]
    assert exposed.group(1).split()[:2] == ports
    command: Any = get_command(app)
    up = command.get_command(command.make_context("pocketmq", ["up"]), "up")
    read = {option.envvar for option in up.params if option.envvar}
    given = set(re.findall(r"\b(POCKETMQ_UP_\w+)=0\.0\.0\.0", DOCKERFILE))
    assert given == {"POCKETMQ_UP_HOST", "POCKETMQ_UP_CONTROL_HOST"}
    assert given < read


def test_the_images_own_health_check_is_a_command() -> None:
    match = re.search(r"^HEALTHCHECK (?:.|\\\n)*?CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    assert match is not None
    program, *words = json.loads(match.group(1))
    assert program == "pocketmq"
    assert split_address(parse(words)["namesrv"])[1] == NamesrvConfig().listen_port


@pytest.mark.parametrize("service", SERVERS + HA_SERVERS)
def test_a_server_is_started_by_a_command(service: str) -> None:
    assert str(parse(SERVICES[service]["command"])["config"]) in mounts(service)
    assert SERVICES[service]["read_only"] is True
    assert SERVICES[service]["restart"] == "unless-stopped"


def test_the_spark_job_loads_the_sample_by_an_existing_column() -> None:
    options = parse(SERVICES["spark"]["command"])
    assert options["namesrv"].split(";") == [f"{name}:{listen_port(name)}" for name in NAMESRVS]
    source = PurePosixPath(options["source"])
    sample = ROOT / mounts("spark")[str(source.parent)] / source.name
    with sample.open(newline="") as file:
        assert options["key"] in next(csv.reader(file))


def test_the_spark_cluster_finds_itself_and_the_brokers() -> None:
    master, worker, submit = (SERVICES[f"spark-{n}"] for n in ("master", "worker", "submit"))
    given = dict(itertools.pairwise(master["command"]))
    url = f"spark://{given['--host']}:{given['--port']}"
    assert SERVICES[given["--host"]] is master
    assert worker["command"][-1] == url
    quiet = ["--conf", "spark.log.level=WARN"]
    assert submit["entrypoint"] == ["spark-submit", "--master", url, *quiet]
    assert "--py-files" not in submit["entrypoint"], "the image has the package"
    addresses = submit["environment"]["NAMESRV_ADDR"].split(";")
    assert addresses == [f"{name}:{listen_port(name)}" for name in NAMESRVS]
    assert (ROOT / mounts("spark-submit")["/jobs"] / "export.py").is_file()
    for service in (master, worker, submit):
        # None of them starts unless it is asked for, and each has what the image's base lacks.
        assert service["profiles"] == ["spark-cluster"]
        assert service["build"]["args"]["EXTRAS"] == "spark"
        assert service["tmpfs"] == ["/tmp:exec"]
    # Tasks read and write files where the driver does.
    for directory in ("/sample", "/var/lib/pocketmq"):
        assert mounts("spark-worker")[directory] == mounts("spark-submit")[directory]


def test_the_builder_is_given_every_component() -> None:
    passed = {
        line.removeprefix("!")
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    components = {path.parent.name for path in ROOT.glob("*/pocketmq")}
    scripts = {path for path in passed if path.startswith("deploy/")}
    assert components | {"pyproject.toml", "README.md", "LICENSE"} | scripts == passed
    for dockerfile in (DOCKERFILE, SMALL_DOCKERFILE):
        called = set(re.findall(r"deploy/[\w-]+\.sh", re.sub(r"(?m)^#.*", "", dockerfile)))
        assert called
        assert called <= scripts
        for script in called:
            assert os.access(ROOT / script, os.X_OK)


def test_the_small_image_runs_as_the_other_one_does() -> None:
    def orders(dockerfile: str) -> dict[str, str]:
        last = dockerfile[dockerfile.rindex("\nFROM ") :].replace("\\\n", " ")
        lines = (line.split(maxsplit=1) for line in last.splitlines() if line[:1].isupper())
        return {order: " ".join(words.split()) for order, words in lines if order != "COPY"}

    small, other = orders(SMALL_DOCKERFILE), orders(DOCKERFILE)
    assert other["USER"] == "pocketmq"
    assert "useradd --uid 10001 " in DOCKERFILE
    assert small["USER"] == "10001:10001"
    for order in ("WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD"):
        assert small[order] == other[order]
    assert "POCKETMQ_UP_HOST=0.0.0.0 POCKETMQ_UP_CONTROL_HOST=0.0.0.0" in small["ENV"]
    extras = [re.search(r'ARG EXTRAS="(.*)"', text) for text in (DOCKERFILE, SMALL_DOCKERFILE)]
    assert len({found and found.group(1) for found in extras}) == 1


def environment_of(directory: Path, *packages: str) -> Path:
    """Makes an environment that has some of the packages here; returns its interpreter."""
    venv.create(directory)
    [installed] = directory.glob("lib/*/site-packages")
    for package in packages:
        [known] = Path(str(distribution(package).locate_file(""))).glob(f"{package}-*.dist-info")
        (installed / known.name).symlink_to(known)
    return directory / "bin" / "python"


@pytest.mark.process
def test_the_bill_of_materials_names_what_is_installed(tmp_path: Path) -> None:
    python = environment_of(tmp_path / "environment", "pocketmq", "msgpack", "typer")
    path = tmp_path / "pocketmq.cdx.json"
    script = str(ROOT / "deploy" / "sbom.sh")
    command = f"{sys.executable} -m cyclonedx_py"
    subprocess.run(
        [script, str(python), str(path)],
        env={**os.environ, "CYCLONEDX": command},
        check=True,
        timeout=100,
    )
    text = path.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str("{}") is not None
    bill = json.loads(text)
    root = bill["metadata"]["component"]
    assert (root["name"], root["type"]) == ("pocketmq", "application")
    assert root["version"] == metadata("pocketmq")["Version"]
    named = {part["name"].lower(): part for part in bill["components"]}
    assert named.keys() == {"msgpack", "typer"}
    msgpack = named["msgpack"]
    assert msgpack["version"] == metadata("msgpack")["Version"]
    assert msgpack["purl"] == f"pkg:pypi/msgpack@{msgpack['version']}"
    assert msgpack["licenses"]


def test_the_images_extras_exist() -> None:
    spark = SERVICES["spark"]["build"]["args"]["EXTRAS"]
    assert f"*,{spark},*" in DOCKERFILE
    [always] = set(re.findall(r'^ARG EXTRAS="(.*)"$', DOCKERFILE, re.MULTILINE))
    extras = always.split(",")
    assert extras == ["control", "etcd"], "members of broker sets speak to etcd"
    assert {spark, *extras} <= set(metadata("pocketmq").get_all("Provides-Extra") or [])
