"""Rules of the house that no linter knows (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import toml

from pocketmq.runtime import VERSION

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = toml.decode((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
COMPONENTS = [
    "runtime",
    "protocol",
    "transport",
    "auth",
    "proxy",
    "namesrv",
    "broker",
    "client",
    "schemas",
    "console",
    "airflow",
    "kombu",
    "taskiq",
    "spark",
    "cli",
    "testing",
]
CLOCKS = {
    Path("runtime/pocketmq/runtime/clock.py"),
    Path("testing/pocketmq/testing/clock.py"),
}
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])

OWN_TIME = re.compile(
    r"\btime\.(?:time|time_ns|monotonic|monotonic_ns|sleep)\b"
    r"|\bdatetime\.(?:now|utcnow|today)\b|\bdate\.today\b"
    r"|\basyncio\.(?:sleep|wait_for|timeout)\b"
    r"|\bloop(?:\(\))?\.(?:call_later|call_at|time)\b"
)
MODULES_PER_FOLDER_MAX = 15
SLEEP = re.compile(r"(?<!clock\.)(?<!\w)sleep\(")


def sources(*folders: str) -> list[Path]:
    return sorted(
        path.relative_to(ROOT)
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "target" not in path.parts
    )


def lines(path: Path) -> Iterator[tuple[str, str]]:
    for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
        yield f"{path}:{number}", line


def test_all_components_are_there() -> None:
    assert all((ROOT / component / "pocketmq" / component).is_dir() for component in COMPONENTS)


def test_only_the_clocks_know_the_time() -> None:
    found = [
        where
        for path in sources(*COMPONENTS)
        if path not in CLOCKS
        for where, line in lines(path)
        if OWN_TIME.search(line)
    ]
    assert not found, "take a Clock (pocketmq.runtime.clock) instead"


def test_tests_do_not_sleep() -> None:
    own = Path(__file__).relative_to(ROOT)
    found = [
        where
        for path in sources("tests")
        if path != own
        for where, line in lines(path)
        if SLEEP.search(line)
    ]
    assert not found, "wait for what should happen, or advance a VirtualClock"


def test_the_namespace_has_no_init() -> None:
    assert not [c for c in COMPONENTS if (ROOT / c / "pocketmq" / "__init__.py").exists()]


def test_every_component_is_typed() -> None:
    assert all((ROOT / c / "pocketmq" / c / "py.typed").exists() for c in COMPONENTS)


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(path.parent for path in sources(*COMPONENTS) if path.name != "__init__.py")
    too_full = {folder: n for folder, n in counts.items() if n > MODULES_PER_FOLDER_MAX}
    assert not too_full, "group the modules of these folders by idea"


def test_the_build_knows_every_component() -> None:
    tool = PROJECT["tool"]
    wheel = tool["hatch"]["build"]["targets"]["wheel"]
    assert tool["hatch"]["build"]["dev-mode-dirs"] == COMPONENTS
    assert wheel["sources"] == COMPONENTS
    assert wheel["only-include"] == [f"{c}/pocketmq" for c in COMPONENTS]
    assert tool["coverage"]["run"]["source"] == COMPONENTS
    assert tool["mypy"]["mypy_path"].split(":")[: len(COMPONENTS)] == COMPONENTS
    assert set(tool["mypy"]["files"]) >= {*COMPONENTS, "tests"}
    packages = {f"pocketmq.{c}" for c in COMPONENTS}
    assert set(tool["importlinter"]["root_packages"]) == packages
    layers = tool["importlinter"]["contracts"][0]["layers"]
    assert {name for layer in layers for name in layer.split(" | ")} == packages


def test_one_release_stands_everywhere() -> None:
    chart = (ROOT / "deploy" / "helm" / "pocketmq" / "Chart.yaml").read_text(encoding="utf-8")
    assert re.findall(r"^(?:appV|v)ersion: (\S+)$", chart, re.M) == [VERSION, VERSION]
    manifests = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "deploy" / "kubernetes").glob("*.yaml")
    )
    assert set(re.findall(r"pocketmq:(\d[\w.]*)", manifests)) == {VERSION}
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changelog, re.M)[0] == VERSION


def test_the_readme_says_what_the_build_says() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    python = PROJECT["project"]["requires-python"].removeprefix(">=")
    assert f"Python ≥ {python}" in readme
    assert f"Programming Language :: Python :: {python}" in PROJECT["project"]["classifiers"]
    assert PROJECT["tool"]["mypy"]["python_version"] == python
    assert PROJECT["tool"]["ruff"]["target-version"] == "py" + python.replace(".", "")
    assert "make demo" in readme
    assert "make test" in readme
    assert (ROOT / "LICENSE").exists()
    assert PROJECT["project"]["license"] == "Apache-2.0"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_documents_name_what_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    rules = set(re.findall(r"^([a-z-]+)%?:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
    verbs = set(re.findall(r"(?:`|^ {4})make\s([a-z-]+)", text, re.M))
    assert verbs <= rules
    links = re.findall(r"\]\((?!https?:|mailto:|#)([^)#\s]+)", text)
    assert [link for link in links if not (document.parent / link).exists()] == []


def test_the_architecture_names_files_and_classes_that_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    files = re.findall(rf"`((?:{'|'.join(COMPONENTS)})/[\w/]+\.py)`", text)
    assert len(set(files)) >= 80
    places = {file: ROOT / file.partition("/")[0] / "pocketmq" / file for file in files}
    assert [file for file, place in places.items() if not place.exists()] == []
    code = "\n".join((ROOT / path).read_text(encoding="utf-8") for path in sources(*COMPONENTS))
    words = set(re.findall(r"`([A-Z]\w+[a-z]\w*)`", text))
    assert {word for word in words if not re.search(rf"\b{word}\b", code)} == set()


def test_the_command_is_installed_from_what_exists() -> None:
    for target in PROJECT["project"]["scripts"].values():
        module, _, function = target.partition(":")
        component = module.split(".")[1]
        path = ROOT / component / Path(*module.split(".")).with_suffix(".py")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names = {
            n.name for n in tree.body if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
        }
        assert function in names


# Only these may catch everything: what calls code of others, and must go on whatever that does.
CATCH_ALL = {
    Path("transport/pocketmq/transport/connection.py"),
    Path("transport/pocketmq/transport/grpc/connection.py"),  # calls a service's handlers
    Path("transport/pocketmq/transport/response_table.py"),
    Path("runtime/pocketmq/runtime/tasks.py"),
    Path("client/pocketmq/client/application_code.py"),
    Path("client/pocketmq/client/listening/dispatch.py"),
    Path("client/pocketmq/client/rebalance/queue_listeners.py"),
    Path("client/pocketmq/client/hooks.py"),
    Path("spark/pocketmq/spark/writing/sending_thread.py"),
}


def test_only_borders_catch_everything() -> None:
    found = {
        path
        for path in sources(*COMPONENTS)
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.ExceptHandler) and catches_everything(node)
    }
    assert found <= CATCH_ALL


def catches_everything(handler: ast.ExceptHandler) -> bool:
    """`except Exception`, and what is wider unless it raises again."""
    if handler.type is None:
        return True
    if not isinstance(handler.type, ast.Name):
        return False
    if handler.type.id == "BaseException":
        last = handler.body[-1]
        return not (isinstance(last, ast.Raise) and last.exc is None)
    return handler.type.id == "Exception"


@pytest.mark.parametrize("component", ["runtime", "protocol", "transport"])
def test_every_module_has_its_test_module(component: str) -> None:
    package = ROOT / component / "pocketmq" / component
    tests = ROOT / "tests" / "unit" / component
    missing = []
    for module in package.rglob("*.py"):
        folder = module.parent.relative_to(package)
        name = folder.name if module.name == "__init__.py" else module.stem
        if not (tests / folder / f"test_{name}.py").exists():
            missing.append(str(module.relative_to(package)))
    assert set(missing) <= EXEMPT


# Requests are declarations, tested together; the rest is tested where it is used.
EXEMPT = {
    "__init__.py",
    "metrics/__init__.py",
    "metering/__init__.py",
    "supervision/__init__.py",
    "wire/__init__.py",
    "wire/codecs/__init__.py",
    "messages/__init__.py",
    "names/__init__.py",
    "tls/__init__.py",
    "http2/__init__.py",
    "http2/limits.py",
    "http2/stream.py",
    "grpc/__init__.py",
    "grpc/limits.py",
    "grpc/service.py",
    "requests/extensions/__init__.py",
    "grpc/call.py",
    "grpc/connection.py",
    *(f"requests/{name}.py" for name in (
        "brokers", "clients", "consuming", "groups", "nameserver", "offsets",
        "pulling", "queries", "sending", "topics", "transactions",
    )),
}  # fmt: skip


def test_every_fuzz_begins_with_its_invariant() -> None:
    files = sorted((ROOT / "tests" / "fuzz").glob("test_*.py"))
    assert files
    for file in files:
        assert file.read_text(encoding="utf-8").startswith(("# Invariant: ", '"""Invariant: '))


STARTERS = re.compile(
    r"\bsubprocess\.(?:run|Popen)\b|\b(?:pocketmq_process|ok_process|pocketmq_cluster|running)\("
    r"|\brunpytest_subprocess\("
)
STARTING_MARKS = re.compile(r"\bmark\.(?:process|spark|interop|crash)\b")


def test_tests_that_start_processes_are_marked() -> None:
    """What a fixture starts for all tests of a module does not count."""
    found = []
    for path in sources("tests"):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        constants = " ".join(ast.unparse(n) for n in tree.body if isinstance(n, ast.Assign))
        if STARTING_MARKS.search(constants):  # pytestmark
            continue
        for node in tree.body:
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            decorators = " ".join(map(ast.unparse, node.decorator_list))
            if (
                node.name.startswith("test_")
                and STARTERS.search(ast.unparse(node))
                and not STARTING_MARKS.search(decorators)
            ):
                found.append(f"{path}:{node.lineno} {node.name}")
    assert not found, "mark them with process, or run commands in process (support.commands.here)"
