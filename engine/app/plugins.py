"""Entry points: how packs, commands and sandboxes are found, ours by the same door as anyone's."""

import tomllib
from collections.abc import Sequence
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path

TOOL_SOURCES = "knackbox.tool_sources"
COMMANDS = "knackbox.commands"
SANDBOXES = "knackbox.sandboxes"

CHECKOUT = Path(__file__).resolve().parents[2]


def find(group: str) -> Sequence[EntryPoint]:
    """The entry points of a group, sorted by name; our own first, so that a pack cannot take their names.

    In a checkout that is not installed our own are read from its pyproject.toml.
    """
    ours = own(group)
    names = {point.name for point in ours}
    others = sorted((point for point in entry_points(group=group) if point.name not in names), key=lambda p: p.name)
    return [*ours, *others]


def named(group: str, name: str) -> EntryPoint | None:
    """The entry point of this name. One of our own is found without reading what every installed package declares."""
    ours = {point.name: point for point in own(group)}
    if name in ours:
        return ours[name]
    return next(iter(entry_points(group=group, name=name)), None)


def own(group: str) -> list[EntryPoint]:
    """Knackbox's own entry points of a group."""
    try:
        points = distribution("knackbox").entry_points.select(group=group)
        return sorted(points, key=lambda point: point.name)
    except PackageNotFoundError:
        declared = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))
        table = declared["project"]["entry-points"].get(group, {})
        return [EntryPoint(name, value, group) for name, value in sorted(table.items())]
