"""Finds packs, commands and sandboxes by entry points, those of Knackbox as well as third-party ones."""

import tomllib
from collections.abc import Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path

TOOL_SOURCES = "knackbox.tool_sources"
COMMANDS = "knackbox.commands"
SANDBOXES = "knackbox.sandboxes"

CHECKOUT = Path(__file__).resolve().parents[2]


def find(group: str) -> Sequence[EntryPoint]:
    """Return the entry points of a group by name, with those of Knackbox first, so that no pack can replace them.

    In a checkout that is not installed, those of Knackbox are read from its pyproject.toml.
    """
    ours = own(group)
    names = {point.name for point in ours}
    others = sorted((point for point in entry_points(group=group) if point.name not in names), key=lambda p: p.name)
    return [*ours, *others]


def named(group: str, name: str) -> EntryPoint | None:
    """Return the entry point of this name. Those of Knackbox are found without scanning all installed packages."""
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
