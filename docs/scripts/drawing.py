"""A small drawing board for SVG pictures that are readable on light and on dark pages.

Every picture has a background of its own, so that its text never stands on a page's colour. Colours
are classes of one style sheet, which has a second set for readers who prefer dark.
"""

from __future__ import annotations

from typing import NamedTuple
from xml.sax.saxutils import escape, quoteattr

_STYLE = """
    text { font-family: -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #1f2933; }
    .page { fill: #ffffff; stroke: #d5dbe3; }
    .name { font-size: 15px; font-weight: 600; }
    .note { font-size: 12px; fill: #52606d; }
    .title { font-size: 17px; font-weight: 600; }
    .plain { fill: #f3f5f8; stroke: #b8c2cc; }
    .server { fill: #e3f1ea; stroke: #2f855a; }
    .queue { fill: #ffffff; stroke: #2f855a; }
    .way { stroke: #2f855a; stroke-width: 2; fill: none; }
    .asks { stroke: #7b8794; stroke-width: 1.5; stroke-dasharray: 5 4; fill: none; }
    .tip { fill: #2f855a; }
    .asking { fill: #7b8794; }
    .ours { fill: #2f855a; }
    .theirs { fill: #b8c2cc; }
    .failed { fill: #c53030; }
    .grid { stroke: #d5dbe3; stroke-width: 1; }
    @media (prefers-color-scheme: dark) {
      text { fill: #e4e7eb; }
      .page { fill: #161b22; stroke: #3e4c59; }
      .note { fill: #a9b4c0; }
      .plain { fill: #222a33; stroke: #52606d; }
      .server { fill: #173327; stroke: #48bb78; }
      .queue { fill: #161b22; stroke: #48bb78; }
      .way { stroke: #48bb78; }
      .tip { fill: #48bb78; }
      .ours { fill: #48bb78; }
      .theirs { fill: #52606d; }
      .failed { fill: #fc8181; }
      .grid { stroke: #3e4c59; }
    }
"""

_MARKERS = """
  <defs>
    <marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="6" markerHeight="6"
            orient="auto">
      <path class="tip" d="M 0 0 L 10 5 L 0 10 z"/>
    </marker>
    <marker id="asking" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"
            orient="auto">
      <path class="asking" d="M 0 0 L 10 5 L 0 10 z"/>
    </marker>
  </defs>
"""


class Point(NamedTuple):
    """A point of the drawing, in pixels from its upper left corner."""

    x: float
    y: float


class Drawing:
    """Collects the shapes of a picture, and makes the SVG document of them.

    Args:
        width, height: size in pixels.
        title: one sentence that says what the picture shows, for readers who hear it.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width = width
        self.height = height
        self._title = title
        self._shapes: list[str] = []

    def text(self, at: Point, words: str, kind: str = "name", anchor: str = "middle") -> None:
        """Writes a line of text; ``kind`` is a class of the style sheet."""
        self._shapes.append(
            f'<text class="{kind}" x="{at.x:g}" y="{at.y:g}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    def box(self, at: Point, width: float, height: float, kind: str, radius: int = 6) -> None:
        """Draws a rectangle with round corners."""
        self._shapes.append(
            f'<rect class="{kind}" x="{at.x:g}" y="{at.y:g}" width="{width:g}" '
            f'height="{height:g}" rx="{radius}"/>'
        )

    def arrow(self, begin: Point, end: Point, kind: str = "way") -> None:
        """Draws a line with a tip: ``way`` for messages, ``asks`` for questions about routes."""
        tip = "tip" if kind == "way" else "asking"
        self._shapes.append(
            f'<path class="{kind}" d="M {begin.x:g} {begin.y:g} L {end.x:g} {end.y:g}" '
            f'marker-end="url(#{tip})"/>'
        )

    def line(self, begin: Point, end: Point, kind: str) -> None:
        """Draws a line without a tip."""
        self._shapes.append(
            f'<path class="{kind}" d="M {begin.x:g} {begin.y:g} L {end.x:g} {end.y:g}"/>'
        )

    def svg(self) -> str:
        """The document."""
        shapes = "\n  ".join(self._shapes)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
            f'width="{self.width}" height="{self.height}" role="img" '
            f"aria-label={quoteattr(self._title)}>\n"
            f"  <title>{escape(self._title)}</title>\n  <style>{_STYLE}  </style>{_MARKERS}"
            f'  <rect class="page" x="0.5" y="0.5" width="{self.width - 1}" '
            f'height="{self.height - 1}" rx="10"/>\n  {shapes}\n</svg>\n'
        )
