"""What `mkdocs` does besides (`hooks:` in mkdocs.yml): pages from outside of docs/.

The documents at the root of the repository and the examples' READMEs are pages too. In the
repository links to them go by ``../``; on the site those pages lie beside the others, and other
files of the repository, which are no pages, are named only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "bench/RESULTS.md": "speed.md",
    "examples/order_service/README.md": "order_service.md",
    "README.md": "index.md",
}
"""Where a document of the repository is on the site; the README's place is the first page."""

_LINK = re.compile(r"\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Adds the documents from outside of docs/."""
    for path, page in PAGES.items():
        if page != "index.md" and (ROOT / path).exists():
            files.append(File.generated(config, page, content=(ROOT / path).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Has links go where documents are on the site."""
    origins = {target: path for path, target in PAGES.items() if target != "index.md"}
    uri = page.file.src_uri
    folder = Path(origins.get(uri, f"docs/{uri}")).parent
    return _LINK.sub(lambda link: _moved(link, folder), markdown)


def _moved(link: re.Match[str], folder: Path) -> str:
    text, target, anchor = link[1], link[2], link[3] or ""
    path = (ROOT / folder / target).resolve()
    if not path.is_relative_to(ROOT):
        return link[0]
    name = path.relative_to(ROOT).as_posix()
    if name in PAGES:
        return f"[{text}]({PAGES[name]}{anchor})"
    if name.startswith("docs/"):
        return f"[{text}]({name.removeprefix('docs/')}{anchor})"
    if not path.exists():
        return link[0]
    return f"`{name}`" if text.strip("`") in (name, target, path.name) else f"{text} (`{name}`)"
