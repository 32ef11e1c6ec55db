"""Maven builds of the interop tests."""

from __future__ import annotations

from pathlib import Path

from support.interop import builds

REMEDY = "the network or ~/.m2/settings.xml"


def missing_tools() -> str | None:
    """The reason why nothing here can run on this machine, or None when it can."""
    missing = builds.missing_tools("java", "mvn")
    return missing and f"{missing}: install a JDK 17 or newer and Maven"


def build(project: Path, target: Path, *goals: str) -> Path:
    """Run Maven goals in a project unless ``target`` already holds the result of its sources.

    Returns ``target``; its ``dependency`` folder holds the jars. Raises builds.BuildFailure.
    """
    sources = [project / "pom.xml", *(project / "src").rglob("*.java")]
    return builds.build(project, target, sources, ["mvn", "-q", "-B", *goals], REMEDY)
