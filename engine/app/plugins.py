"""Finds packs, commands and sandboxes through entry points, both Knackbox's own and third-party ones."""

import sys
import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import EntryPoint, EntryPoints, PackageNotFoundError, distribution, entry_points
from pathlib import Path

TOOL_SOURCES = "knackbox.tool_sources"
COMMANDS = "knackbox.commands"
SANDBOXES = "knackbox.sandboxes"
CHECKS = "knackbox.checks"

CHECKOUT = Path(__file__).resolve().parents[2]


def find(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group: first those of Knackbox, then those of other packages, both sorted by name.

    A third-party entry point is ignored if Knackbox has one of the same name, so that no pack can replace it. In a
    checkout that is not installed, Knackbox's entry points are read from its pyproject.toml.
    """
    ours = own(group)
    names = {point.name for point in ours}
    found = _installed(group, tuple(sys.path))
    return [*ours, *sorted((point for point in found if point.name not in names), key=lambda point: point.name)]


@lru_cache(maxsize=16)
def _installed(group: str, _path: tuple[str, ...]) -> EntryPoints:
    """Return the entry points of the packages on this path. Read once per process, because that takes 20 ms."""
    return entry_points(group=group)


def named(group: str, name: str) -> EntryPoint | None:
    """Return the entry point with this name, or None. Knackbox's own are found without scanning every package."""
    ours = {point.name: point for point in own(group)}
    if name in ours:
        return ours[name]
    return next(iter(entry_points(group=group, name=name)), None)


def own(group: str) -> list[EntryPoint]:
    """Return the entry points of Knackbox in a group."""
    try:
        points = distribution("knackbox").entry_points.select(group=group)
        return sorted(points, key=lambda point: point.name)
    except PackageNotFoundError:
        declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
        table = declared["project"]["entry-points"].get(group, {})
        return [EntryPoint(name, value, group) for name, value in sorted(table.items())]
