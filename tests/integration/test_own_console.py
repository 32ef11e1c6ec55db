"""Consoles in the processes of `pocketmq up`, brokers and name servers, and who sees them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.brokers.console_parts import API, basic
from support.brokers.control_parts import Control
from support.commands.process import COMMAND
from support.interop.apache_servers import free_port
from support.interop.clusters import POCKETMQ_UP
from support.interop.processes import running

from pocketmq.cli.main import app
from pocketmq.client import read_credentials
from pocketmq.protocol.errors import ConfigError

ANY_PORTS = ("--namesrv-port", "0", "--broker-port", "0", "--grpc-port", "-1")
UP = (*COMMAND, "up", *ANY_PORTS, "-o", "json")
LINE = re.compile(r"^\{.*\}$")
CONSOLE = re.compile(r" console=http://(\S+)")
CONSOLE_MIB_MAX = 30
LOADED = {"starlette", "uvicorn", "jinja2", "anyio", "pocketmq.console", "pocketmq.client"}


@contextmanager
def cluster(*options: str) -> Iterator[Any]:
    """A cluster in a process of its own; what its line says."""
    with running([*UP, *options], LINE) as line:
        yield json.loads(line.group())


@contextmanager
def cluster_process(*options: str) -> Iterator[tuple[int, Any]]:
    """A cluster with the id of its process, and what its line says."""
    with subprocess.Popen(
        [*UP, "--memory", *options], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield process.pid, json.loads(process.stdout.readline())
        finally:
            process.terminate()


def memory_mib(process: int) -> float:
    """What a process takes of the memory: its own, and its share of what others use, too (PSS)."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def console_of(up: Mapping[str, Any]) -> Control:
    return Control(up["console"].removeprefix("http://"))


@contextmanager
def server(command: str, folder: Path, settings: Mapping[str, object]) -> Iterator[str]:
    """A broker or a name server with settings of its file; the line that says it is up."""
    file = folder / f"{command}.yaml"
    file.write_text(yaml.safe_dump(dict(settings)))
    with running([*COMMAND, command, "-c", str(file)], POCKETMQ_UP) as line:
        yield line.group()


def shown_brokers(api: Control, headers: dict[str, str] | None = None) -> list[str]:
    answer = api.ask("GET", f"{API}/cluster", headers=headers)
    assert answer.status == 200, answer
    assert not any(broker["problem"] for broker in answer.content["brokers"])
    return [broker["name"] for broker in answer.content["brokers"]]


@pytest.mark.process
def test_a_cluster_of_processes_has_a_console(tmp_path: Path) -> None:
    with cluster("--data", str(tmp_path), "--brokers", "2", "--console", "0") as up:
        assert up["control"] is None
        assert shown_brokers(console_of(up)) == ["broker-a", "broker-b"]


@pytest.mark.process
def test_the_console_stands_beside_the_control_api_and_has_its_clock() -> None:
    with cluster("--memory", "--control", "0", "--console", "0", "--clock", "virtual") as up:
        api, control = console_of(up), Control(up["control"].removeprefix("http://"))
        assert shown_brokers(api) == ["broker-a"]
        control.ok("PUT", "/topics/Orders")
        later = {"messages": [{"body": "later", "delayMs": 7_200_000}]}
        api.ok("POST", f"{API}/topics/Orders/messages", later)
        control.ok("POST", "/clock/advance", {"hours": 2})
        found = api.ok("GET", f"{API}/topics/Orders/messages?start=earliest")["messages"]
        assert [message["body"] for message in found] == ["later"]


@pytest.mark.process
def test_a_broker_and_a_name_server_have_consoles_by_their_settings(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    own = {"listenPort": 0, "consolePort": ports[0], "consoleReadOnly": True, "consolePath": "/ns"}
    with server("namesrv", tmp_path, own) as line:
        namesrv = re.search(r"namesrv=(\S+)", line)
        found = CONSOLE.search(line)
        assert namesrv is not None
        assert found is not None
        of_namesrv = Control(found.group(1))
        settings = {
            "listenPort": 0,
            "namesrvAddr": namesrv.group(1),
            "storePathRootDir": str(tmp_path / "store"),
            "consolePort": ports[1],
            "consoleNoBodies": True,
        }
        with server("broker", tmp_path, settings) as line:
            found = CONSOLE.search(line)
            assert found is not None
            of_broker = Control(found.group(1))
            assert shown_brokers(of_broker) == shown_brokers(of_namesrv) == ["broker-a"]
            message = {"messages": [{"body": "hidden"}]}
            of_broker.ok("POST", f"{API}/topics/Orders", {"queues": 1})
            of_broker.ok("POST", f"{API}/topics/Orders/messages", message)
            refused = of_namesrv.problem("POST", f"{API}/topics/Orders/messages", message)
            assert refused["status"] == 403
            looked = f"{API}/topics/Orders/messages?start=earliest"
            assert of_broker.ok("GET", looked)["messages"][0]["body"] is None
            assert of_namesrv.ok("GET", looked)["messages"][0]["body"] == "hidden"


@pytest.mark.process
def test_a_secure_cluster_is_shown_to_its_users_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with cluster("--data", str(tmp_path), "--secure", "--brokers", "2", "--console", "0") as up:
        api = console_of(up)
        assert api.problem("GET", f"{API}/cluster")["status"] == 401
        admin = read_credentials(tmp_path / "secure" / "admin.key")
        headers = basic(admin.access_key, admin.secret_key)
        assert shown_brokers(api, headers) == ["broker-a", "broker-b"]
        wrong = basic(admin.access_key, "wrong")
        assert api.problem("GET", f"{API}/cluster", headers=wrong)["status"] == 403


@pytest.mark.process
def test_servers_that_speak_tls_only_have_consoles(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with cluster("--data", str(tmp_path), "--secure"):
        pass  # makes the certificates
    secure = tmp_path / "secure"
    tls = {
        "tlsServerMode": "enforcing",
        "tlsServerCertPath": str(secure / "server.pem"),
        "tlsServerKeyPath": str(secure / "server.key"),
        "tlsClientTrustCertPath": str(secure / "ca.pem"),
    }
    ports = free_port(), free_port()
    with server("namesrv", tmp_path, {"listenPort": 0, "consolePort": ports[0], **tls}) as line:
        namesrv = re.search(r"namesrv=(\S+)", line)
        assert namesrv is not None
        settings = {
            "listenPort": 0, "namesrvAddr": namesrv.group(1), "consolePort": ports[1],
            "storePathRootDir": str(tmp_path / "store"), **tls,
        }  # fmt: skip
        with server("broker", tmp_path, settings):
            for port in ports:
                assert shown_brokers(Control(f"127.0.0.1:{port}")) == ["broker-a"]


@pytest.mark.process
@pytest.mark.parametrize(("options", "is_loaded"), [((), False), (("--console", "0"), True)])
def test_nothing_of_the_console_is_loaded_unless_it_is_wanted(
    options: tuple[str, ...],
    is_loaded: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = tmp_path / "modules"
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        f"atexit.register(lambda: open({str(written)!r}, 'w').write(' '.join(sys.modules)))\n"
    )
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    monkeypatch.setenv("PYTHONPATH", path)
    with cluster("--memory", *options) as up:
        assert (up["console"] is not None) == is_loaded
    loaded = LOADED & set(written.read_text().split())
    assert loaded == (LOADED if is_loaded else set())


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="Linux tells the memory")
def test_a_console_takes_little_memory() -> None:
    with cluster_process() as plain, cluster_process("--console", "0") as (process, up):
        api = console_of(up)
        for path in ("/topics", "/groups", "/cluster"):
            api.ok("GET", f"{API}{path}")
        assert memory_mib(process) - memory_mib(plain[0]) < CONSOLE_MIB_MAX


@pytest.mark.process
def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "jinja2.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'jinja2'\", name='jinja2')\n"
    )
    script = (
        "from pocketmq.cli.servers.consoles.own_console import load_console\n"
        "from pocketmq.protocol.errors import ConfigError\n"
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "try:\n    load_console('--console')\nexcept ConfigError as e:\n    print(e)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == (
        "--console needs jinja2, which is not installed: pip install 'pocketmq[console]'\n"
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--console", "70000"), "the port of the console is 70000: it must be"),
        (("--console", "0", "--console-host", "0.0.0.0"), "the console would listen on 0.0.0.0"),
        (("--console", "0", "--console-path", "mq"), "the path before all links is 'mq'"),
        (("--console", "0", "--console-path", "/m'q"), "the path before all links is"),
        (("--console", "0", "--console-origin", "mq.example.org"), "the origin is"),
        (("--console", "0", "--console-origin", "https://a/b"), "the origin is"),
    ],
)
def test_options_that_do_not_fit(options: tuple[str, ...], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        app(["up", "--memory", *ANY_PORTS, *options], standalone_mode=False)


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(ConfigError, match="choose another --console PORT, or 0"):
            app(["up", "--memory", *ANY_PORTS, "--console", port], standalone_mode=False)


def test_the_console_of_a_broker_needs_a_name_server(tmp_path: Path) -> None:
    settings = {"consolePort": 1, "storePathRootDir": str(tmp_path), "listenPort": 0}
    with pytest.raises(ConfigError, match="consolePort needs namesrvAddr"):
        app(["broker", "--settings", json.dumps(settings)], standalone_mode=False)
    settings = {**settings, "consoleHost": "0.0.0.0", "namesrvAddr": "127.0.0.1:9876"}
    with pytest.raises(ConfigError, match="the console would listen on"):
        app(["broker", "--settings", json.dumps(settings)], standalone_mode=False)
