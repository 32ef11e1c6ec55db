"""The Python that stands in documents."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python_of(document: Path) -> list[str]:
    """The Python blocks of a document."""
    return re.findall(r"^```python\n(.*?)^```", document.read_text("utf-8"), re.M | re.S)


def check_blocks(document: Path) -> None:
    """Checks that each block is Python, and that what it imports is there."""
    for block in python_of(document):
        tree = ast.parse(block)
        compile(block, document.name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        imports: list[ast.stmt] = [
            n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)
        ]
        exec(compile(ast.Module(imports, []), document.name, "exec"), {})
