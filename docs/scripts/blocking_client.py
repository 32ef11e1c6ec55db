"""The source of `pocketmq.client.blocking.clients`, made of the asynchronous classes.

A blocking method has the signature of the asynchronous one and the first line of its docstring, and
runs it on the shared thread. What the classes have in common is in `blocking.base`, by hand.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from pocketmq import client

WIDTH = 100
FIRST_PARTY = "pocketmq"
CLASSES = (
    client.Admin,
    client.LitePullConsumer,
    client.Producer,
    client.PullConsumer,
    client.PushConsumer,
    client.SimpleConsumer,
    client.TransactionProducer,
)

HEAD = '''"""The blocking twins of the client's classes.

Made by `make reference` (docs/scripts/blocking_client.py) of the asynchronous ones: change those.
"""

from __future__ import annotations
'''

NOT_FOR_APPLICATIONS = {"check_transaction", "describe", "group_changed", "instance"}
IN_BASE = {"start", "close"}
AMONG_SETTINGS = {"hooks", "instance", "clock", "random"}
"""Arguments of constructors that are passed on as they come, with the settings."""

NOTES = {
    "LitePullConsumer": "; plain listeners run in threads",
    "PushConsumer": "; plain listeners run in threads",
    "TransactionProducer": "; plain methods of the listener run in threads",
}
DOCSTRINGS = {
    "send_async": "Begins to send; the callback runs on the client's thread and must not block.",
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


class Method(NamedTuple):
    """A method or property of an asynchronous class.

    Attributes:
        node: its source.
        module: the name of the module that it is written in.
    """

    node: Function
    module: str

    @property
    def marks(self) -> list[str]:
        """Its decorators, such as ``property`` and ``concurrency.setter``."""
        return [ast.unparse(decorator) for decorator in self.node.decorator_list]

    @property
    def docstring(self) -> list[str]:
        """The blocking method's docstring, which is the first line of this one's."""
        text = DOCSTRINGS.get(self.node.name) or ast.get_docstring(self.node)
        return [] if text is None else [f'        """{text.splitlines()[0]}"""']


class Imports:
    """Gathers what the made module imports."""

    def __init__(self) -> None:
        self._names: dict[str, set[str]] = {}

    def add(self, module: str, name: str) -> None:
        """Adds a name that is imported from a module."""
        self._names.setdefault(module, set()).add(name)

    def add_all_of(self, nodes: Iterable[ast.AST], module: str) -> None:
        """Adds every name in pieces of a module's source, from where that module has the name."""
        origins = _origins(module)
        for node in nodes:
            for name in ast.walk(node):
                if isinstance(name, ast.Name) and name.id in origins:
                    self.add(origins[name.id], name.id)

    def lines(self) -> Iterator[str]:
        """The statements, in ruff's order."""
        groups = {"standard": "", "third": "", FIRST_PARTY: ""}
        for module in sorted(self._names):
            root = module.partition(".")[0]
            is_standard = root in sys.stdlib_module_names
            kind = root if root == FIRST_PARTY else "standard" if is_standard else "third"
            groups[kind] += "".join(
                f"{line}\n"
                for line in laid_out(
                    f"from {module} import ", "", sorted(self._names[module], key=_rank)
                )
            )
        yield from "\n".join(group for group in groups.values() if group).splitlines()


def _rank(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def _origins(module: str) -> dict[str, str]:
    """The module that each name at a module's top level is imported from, or written in."""
    out: dict[str, str] = {}
    for node in _tree(module).body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            out |= {alias.name: node.module for alias in node.names}
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            out |= {target.id: module for target in targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ClassDef):
            out[node.name] = module
    return out


def _tree(module: str) -> ast.Module:
    return ast.parse(inspect.getsource(sys.modules[module]))


def methods_of(cls: type) -> dict[str, Method]:
    """The methods of a class and its bases, by name and decorators' kind, in order of the bases."""
    out: dict[str, Method] = {}
    for base in cls.__mro__:
        if not base.__module__.startswith(FIRST_PARTY):
            continue
        tree = _tree(base.__module__)
        (body,) = (
            n.body for n in tree.body if isinstance(n, ast.ClassDef) and n.name == base.__name__
        )
        for node in body:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                method = Method(node, base.__module__)
                is_setter = any(mark.endswith(".setter") for mark in method.marks)
                out.setdefault(f"{node.name} setter" if is_setter else node.name, method)
    return out


def laid_out(before: str, after: str, items: Sequence[str], indent: str = "") -> list[str]:
    """Items between brackets as ruff lays them out: on one line, on one of their own, or on many.

    Args:
        before: up to the bracket, which imports only have where they need more lines.
        after: from the closing bracket on.
        items: what stands between.
        indent: of the first line.
    """
    is_import = before.endswith(" import ")
    line = f"{indent}{before}{', '.join(items)}{after}"
    if len(line) <= WIDTH:
        return [line]
    opening, closing = ("(", ")") if is_import else ("", "")
    inner = f"{indent}    {', '.join(items)}"
    if len(inner) <= WIDTH and not is_import:
        return [f"{indent}{before}", inner, f"{indent}{after}"]
    return [
        f"{indent}{before}{opening}",
        *(f"{indent}    {item}," for item in items),
        f"{indent}{closing}{after}",
    ]


def parameters(arguments: ast.arguments) -> list[str]:
    """The parameters as they are written, each with its annotation and default."""
    plain = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    out = [_parameter(a, d) for a, d in zip(plain, [*missing, *arguments.defaults], strict=True)]
    if arguments.vararg is not None:
        out.append(f"*{_parameter(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        out.append("*")
    out += map(_parameter, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg is not None:
        out.append(f"**{_parameter(arguments.kwarg, None)}")
    return out


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    if default is None:
        return text
    if isinstance(default, ast.Constant) and isinstance(default.value, str):
        return f'{text} = "{default.value}"'
    return f"{text} = {ast.unparse(default)}"


def passed_on(arguments: ast.arguments) -> list[str]:
    """What a call passes on of the parameters that it got."""
    names = [argument.arg for argument in arguments.args[1:]]
    if arguments.vararg is not None:
        names.append(f"*{arguments.vararg.arg}")
    names += [f"{a.arg}={a.arg}" for a in arguments.kwonlyargs]
    return names + ([f"**{arguments.kwarg.arg}"] if arguments.kwarg is not None else [])


def call(before: str, function: str, items: Sequence[str], indent: str) -> list[str]:
    """A call as the only argument of another one: ``return self._run(`` and so on.

    Args:
        before: of the outer call, with its bracket.
        function: the inner one.
        items: its arguments.
        indent: of the first line.
    """
    line = f"{indent}{before}{function}({', '.join(items)}))"
    if len(line) <= WIDTH:
        return [line]
    inner = laid_out(f"{function}(", ")", items, indent + "    ")
    return [f"{indent}{before}", *inner, f"{indent})"]


def definition(node: Function) -> list[str]:
    """The first lines of a blocking method."""
    returns = "None" if node.returns is None else ast.unparse(node.returns)
    return laid_out(f"def {node.name}(", f") -> {returns}:", parameters(node.args), "    ")


def body(method: Method) -> list[str]:
    """What a blocking method does."""
    node, deep = method.node, " " * 8
    items = passed_on(node.args)
    if "property" in method.marks:
        return [f"{deep}return self._call(lambda: self._twin.{node.name})"]
    if any(mark.endswith(".setter") for mark in method.marks):
        return [f'{deep}self._call(setattr, self._twin, "{node.name}", {items[0]})']
    gives = "" if node.returns is None or ast.unparse(node.returns) == "None" else "return "
    if isinstance(node, ast.AsyncFunctionDef):
        return call(f"{gives}self._run(", f"self._twin.{node.name}", items, deep)
    return laid_out(f"{gives}self._call(", ")", [f"self._twin.{node.name}", *items], deep)


def constructor(cls: type, method: Method, imports: Imports, *, is_derived: bool) -> list[str]:
    """The constructor of a blocking class, which makes the twin on the thread."""
    arguments = method.node.args
    kept = [
        (argument, default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if argument.arg not in AMONG_SETTINGS
    ]
    arguments.kwonlyargs, arguments.kw_defaults = [k for k, _ in kept], [d for _, d in kept]
    imports.add_all_of([arguments], method.module)
    package, _, module = cls.__module__.rpartition(".")
    imports.add(package, module)
    twin = f"lambda: {module}.{cls.__name__}"
    first = "Blocking.__init__(self, " if is_derived else "super().__init__("
    lines = call(first, twin, passed_on(arguments), " " * 8)
    if is_derived and len(lines) > 1:
        lines = ["        Blocking.__init__(", "            self,", *lines[1:]]
        lines[-2] += ","
    return [*definition(method.node), *lines]


def class_source(cls: type, imports: Imports, made: set[type]) -> list[str]:
    """The source of a blocking class.

    Args:
        cls: its asynchronous twin.
        imports: gets what the class needs.
        made: the twins of the classes above it, one of which may be its base.
    """
    methods = methods_of(cls)
    inherited: dict[str, Method] = {}
    base, twin = None, f"{cls.__module__.rpartition('.')[2]}.{cls.__name__}"
    for above in made & set(cls.__bases__):
        base, inherited = above.__name__, methods_of(above)
    if base is None:
        kind = "BlockingIterator" if "__anext__" in methods else "Blocking"
        imports.add("pocketmq.client.blocking.base", kind)
        base = f"{kind}[{twin}]"
    lines = [f"class {cls.__name__}({base}):"]
    lines += [f'    """See `pocketmq.client.{cls.__name__}`{NOTES.get(cls.__name__, "")}."""', ""]
    if inherited:
        imports.add("pocketmq.client.blocking.base", "Blocking")
        lines += [f"    _twin: {twin}", ""]
    lines += constructor(cls, methods["__init__"], imports, is_derived=bool(inherited))
    for name, method in methods.items():
        if name.startswith("_") or name in inherited or name in IN_BASE | NOT_FOR_APPLICATIONS:
            continue
        node = method.node
        returns = [] if node.returns is None else [node.returns]
        imports.add_all_of([node.args, *returns], method.module)
        marks = [f"    @{mark}" for mark in method.marks]
        lines += ["", *marks, *definition(node), *method.docstring, *body(method)]
    return lines


def module_source() -> str:
    """The source of the blocking client."""
    imports, made, text = Imports(), set[type](), ""
    for cls in CLASSES:
        text += "\n\n" + "\n".join(class_source(cls, imports, made)) + "\n"
        made.add(cls)
    return f"{HEAD}\n" + "\n".join(imports.lines()) + "\n" + text
