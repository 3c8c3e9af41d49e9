"""Draws the imports between the folders of each package, in two versions of the repository, as SVG.

    python scripts/draw_packages.py OLD_CHECKOUT [NEW_CHECKOUT]

It writes docs/images/package-<name>.svg: the old version on the left, the new one on the right. Arrows point from a
folder to those it imports, downwards. An arrow that other arrows imply is omitted. Folders that import each other in a
cycle are in a red frame, with all arrows between them. Standard library only.
"""

import ast
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from html import escape
from itertools import pairwise
from math import cos, hypot, sin, tau
from pathlib import Path

PACKAGES = ("sandbox", "engine", "acquired_skills", "builtin_tools")
ROOT = "modules at the root"
_REPOSITORY = Path(__file__).resolve().parents[1]
_BOX, _HEIGHT, _GAP, _STEP = 116, 38, 22, 78  # width and height of a box, and the distances between boxes and ranks
_MARGIN, _TITLE = 26, 64
_ASIDE = 5  # how far an arrow in a cycle is moved from the line between two boxes
_PAIR = 2
_STYLE = """
text { font-family: -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #1f2a37; text-anchor: middle }
.name { font-size: 13px; font-weight: 600 } .files { font-size: 10.5px; fill: #64748b }
.title { font-size: 15px; font-weight: 600; text-anchor: start }
.note { font-size: 12px; fill: #64748b; text-anchor: start } .bad { fill: #b42318 }
.box { fill: #ffffff; stroke: #94a3b8; stroke-width: 1.2 } .frame { fill: #fef3f2; stroke: #f04438; stroke-width: 1.4 }
.arrow { fill: none; stroke: #94a3b8; stroke-width: 1.3; marker-end: url(#gray) }
.cycle { fill: none; stroke: #d92d20; stroke-width: 1.5; marker-end: url(#red) }
"""

Edge = tuple[str, str]
Point = tuple[float, float]


@dataclass
class FolderGraph:
    """The folders of a package with their numbers of files, and the imports between them."""

    files: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    imports: set[Edge] = field(default_factory=set)


def read_package(checkout: Path, package: str) -> FolderGraph:
    """Read all imports in a package, including those in functions."""
    base, graph = checkout / package, FolderGraph()
    for file in sorted(base.rglob("*.py")):
        parts = file.relative_to(base).parts
        if parts == ("__init__.py",) or not file.read_text("utf-8").strip():
            continue
        folder = parts[0] if len(parts) > 1 else ROOT
        graph.files[folder] += 1
        for name in imported(ast.parse(file.read_text("utf-8"))):
            first, *rest = name.split(".")
            if first == package and rest:
                other = rest[0] if (base / rest[0]).is_dir() else ROOT
                if other != folder:
                    graph.imports.add((folder, other))
    graph.imports = {edge for edge in graph.imports if edge[1] in graph.files}
    return graph


def imported(tree: ast.Module) -> set[str]:
    """Return the full names that a module imports."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def reachable(start: str, edges: set[Edge]) -> set[str]:
    """Return every folder that this one imports, directly or indirectly."""
    found: set[str] = set()
    todo = [start]
    while todo:
        at = todo.pop()
        more = {b for a, b in edges if a == at} - found
        found |= more
        todo += more
    return found


def groups_of(graph: FolderGraph) -> dict[str, frozenset[str]]:
    """Return, for each folder, the folders that are in a cycle with it, including the folder itself."""
    reach = {name: reachable(name, graph.imports) for name in graph.files}
    return {a: frozenset({a} | {b for b in reach[a] if a in reach[b]}) for a in graph.files}


class PackageLayout:
    """Places the folders of one graph: cycles as one block, ranks from top to bottom, few crossings."""

    def __init__(self, graph: FolderGraph) -> None:
        self.graph = graph
        self.group = groups_of(graph)
        self.blocks = sorted(set(self.group.values()), key=sorted)
        between = {(self.group[a], self.group[b]) for a, b in graph.imports if self.group[a] != self.group[b]}
        below: dict[frozenset[str], set[frozenset[str]]] = {each: set() for each in self.blocks}
        for a, b in between:
            below[a].add(b)
        order = list(TopologicalSorter(below).static_order())  # the imported ones first
        self.links = {(a, b) for a, b in between if not any(b in self._under(c, below) for c in below[a] - {b})}
        self.rank: dict[frozenset[str], int] = {}
        for each in order:
            self.rank[each] = 1 + max((self.rank[other] for other in below[each]), default=-1)
        self.routes: dict[tuple[frozenset[str], frozenset[str]], list[object]] = {}
        self.rows = self._rows()
        self.where: dict[object, Point] = {}
        self.width, self.height = self._place()

    @staticmethod
    def _under(block: frozenset[str], below: dict[frozenset[str], set[frozenset[str]]]) -> set[frozenset[str]]:
        found = {block}
        todo = [block]
        while todo:
            more = below[todo.pop()] - found
            found |= more
            todo += more
        return found - {block}

    def _rows(self) -> list[list[object]]:
        """Return the ranks, highest first, with a placeholder where an arrow passes a rank."""
        rows: list[list[object]] = [[] for _ in range(max(self.rank.values()) + 1)]
        for block in self.blocks:
            rows[self.rank[block]].append(block)
        for a, b in sorted(self.links, key=lambda link: (sorted(link[0]), sorted(link[1]))):
            passed = [(a, b, rank) for rank in range(self.rank[a] - 1, self.rank[b], -1)]
            self.routes[a, b] = [a, *passed, b]
            for each in passed:
                rows[each[2]].append(each)
        neighbours: dict[object, set[object]] = defaultdict(set)
        for route in self.routes.values():
            for one, other in pairwise(route):
                neighbours[one].add(other)
                neighbours[other].add(one)
        for sweep in range(24):
            for number in range(len(rows)) if sweep % 2 else range(len(rows) - 1, -1, -1):
                others = {
                    each: at / max(1, len(row) - 1)
                    for row in (rows[n] for n in (number - 1, number + 1) if 0 <= n < len(rows))
                    for at, each in enumerate(row)
                }
                here = {each: at for at, each in enumerate(rows[number])}

                def centre(each: object, others: dict[object, float] = others, here: dict[object, int] = here) -> float:
                    known = [others[other] for other in neighbours[each] if other in others]
                    return sum(known) / len(known) if known else here[each] / max(1, len(here) - 1)

                rows[number].sort(key=centre)
        return rows[::-1]

    def _size(self, each: object) -> Point:
        if not isinstance(each, frozenset):
            return 14, _HEIGHT
        if len(each) == 1:
            return _BOX, _HEIGHT
        wide, high = _ring(len(each))
        return 2 * wide + _BOX + 36, 2 * high + _HEIGHT + 36

    def _place(self) -> Point:
        width = max(sum(self._size(each)[0] + _GAP for each in row) - _GAP for row in self.rows)
        top = 0.0
        for row in self.rows:
            sizes = [self._size(each) for each in row]
            high = max(size[1] for size in sizes)
            spare = (width - sum(size[0] for size in sizes)) / (len(row) + 1)
            left = spare
            for each, (wide, _) in zip(row, sizes, strict=True):
                self.where[each] = (left + wide / 2, top + high / 2)
                left += wide + spare
            top += high + _STEP - _HEIGHT
        for block in self.blocks:
            self._place_members(block)
        return width, top - (_STEP - _HEIGHT)

    def _place_members(self, block: frozenset[str]) -> None:
        """Place the folders of a cycle on a ring, so that no arrow passes behind a third folder."""
        x, y = self.where[block]
        wide, high = _ring(len(block)) if len(block) > 1 else (0, 0)
        busiest = sorted(block, key=lambda name: (-sum(name in edge for edge in self.graph.imports), name))
        for number, name in enumerate(busiest):
            angle = tau * number / len(block) - (tau / 4 if len(block) > _PAIR else tau / 2)
            self.where[name] = (x + wide * cos(angle), y + high * sin(angle))


def _ring(members: int) -> Point:
    """Return half the width and half the height of the ring of a cycle."""
    return (98, 0) if members == _PAIR else (150, 118)


def draw(layout: PackageLayout, left: float, top: float) -> list[str]:
    """Return the SVG elements of a graph."""
    out: list[str] = []

    def at(each: object) -> Point:
        x, y = layout.where[each]
        return left + x, top + y

    for block in layout.blocks:
        if len(block) > 1:
            (x, y), (wide, high) = at(block), layout._size(block)  # noqa: SLF001 -- same module
            out.append(
                f'<rect class="frame" x="{x - wide / 2:.0f}" y="{y - high / 2:.0f}" width="{wide:.0f}" '
                f'height="{high:.0f}" rx="12"/>'
            )
    for route in layout.routes.values():
        points = [at(each) for each in route]
        first, last = layout._size(route[0])[1], layout._size(route[-1])[1]  # noqa: SLF001 -- same module
        points[0] = (points[0][0], points[0][1] + first / 2)
        points[-1] = (points[-1][0], points[-1][1] - last / 2 - 2)
        path = f"M{points[0][0]:.0f},{points[0][1]:.0f}"
        for (x, y), (u, v) in pairwise(points):
            path += f" C{x:.0f},{(y + v) / 2:.0f} {u:.0f},{(y + v) / 2:.0f} {u:.0f},{v:.0f}"
        out.append(f'<path class="arrow" d="{path}"/>')
    for a, b in sorted(layout.graph.imports):
        if layout.group[a] == layout.group[b]:
            out.append(f'<path class="cycle" d="{_line(at(a), at(b))}"/>')
    for name, count in sorted(layout.graph.files.items()):
        x, y = at(name)
        files = f"{count} file{'' if count == 1 else 's'}"
        out.append(
            f'<rect class="box" x="{x - _BOX / 2:.0f}" y="{y - _HEIGHT / 2:.0f}" width="{_BOX}" height="{_HEIGHT}" '
            f'rx="7"/><text class="name" x="{x:.0f}" y="{y - 2:.0f}">{escape(_short(name))}</text>'
            f'<text class="files" x="{x:.0f}" y="{y + 12:.0f}">{files}</text>'
        )
    return out


def _short(name: str) -> str:
    return "root modules" if name == ROOT else name


def _line(start: Point, end: Point) -> str:
    """Return a line between the borders of two boxes, moved to the side, so that opposite arrows do not overlap."""
    (x, y), (u, v) = start, end
    dx, dy = u - x, v - y
    length = hypot(dx, dy)
    right, down = -dy / length * _ASIDE, dx / length * _ASIDE
    leaves = _border(dx, dy, right, down)
    enters = _border(-dx, -dy, right, down) + 3 / length
    return (
        f"M{x + right + dx * leaves:.1f},{y + down + dy * leaves:.1f} "
        f"L{u + right - dx * enters:.1f},{v + down - dy * enters:.1f}"
    )


def _border(dx: float, dy: float, right: float, down: float) -> float:
    """Return how far along a line it leaves its box, from 0 to 1. The line begins beside the centre of the box."""
    shares = [
        (limit - offset * sign) / abs(distance)
        for distance, offset, limit in ((dx, right, _BOX / 2), (dy, down, _HEIGHT / 2))
        if distance
        for sign in (1 if distance > 0 else -1,)
    ]
    return min(shares)


def _summary(layout: PackageLayout) -> str:
    cyclic = [name for name in layout.graph.files if len(layout.group[name]) > 1]
    return f"{len(cyclic)} of {len(layout.graph.files)} folders in a cycle" if cyclic else "no cycle"


def render(package: str, graphs: dict[str, FolderGraph]) -> str:
    """Return the SVG of a package, with one panel per version."""
    layouts = {title: PackageLayout(graph) for title, graph in graphs.items()}
    height = max(layout.height for layout in layouts.values()) + _TITLE + _MARGIN
    left, parts = float(_MARGIN), []
    for title, layout in layouts.items():
        summary = _summary(layout)
        files = sum(layout.graph.files.values())
        parts.append(f'<text class="title" x="{left:.0f}" y="26">{escape(package)}, {escape(title)}</text>')
        mark = " bad" if summary != "no cycle" else ""
        parts.append(f'<text class="note{mark}" x="{left:.0f}" y="44">{files} files, {summary}</text>')
        wide = max(layout.width, 190)
        parts += draw(layout, left + (wide - layout.width) / 2, _TITLE)
        left += wide + 2 * _MARGIN
        middle = left - _MARGIN
        parts.append(f'<path d="M{middle:.0f},18 V{height - 18:.0f}" stroke="#e2e8f0"/>')
    parts.pop()
    width = left - _MARGIN
    arrow = '<marker id="{0}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
    heads = "".join(
        f'{arrow.format(name)}<path d="M0,0.8 L8,4 L0,7.2 z" fill="{colour}"/></marker>'
        for name, colour in (("gray", "#94a3b8"), ("red", "#d92d20"))
    )
    label = f"Imports between the folders of {package}"
    return "\n".join(
        (
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
                f'height="{height:.0f}" role="img" aria-label="{label}">'
            ),
            f"<style>{_STYLE}</style>",
            f"<defs>{heads}</defs>",
            '<rect width="100%" height="100%" rx="10" fill="#f8fafc"/>',
            *parts,
            "</svg>\n",
        )
    )


def main(old: Path, new: Path = _REPOSITORY) -> None:
    """Draw every package."""
    for package in PACKAGES:
        graphs = {"before": read_package(old, package), "now": read_package(new, package)}
        target = _REPOSITORY / "docs" / "images" / f"package-{package.replace('_', '-')}.svg"
        target.write_text(render(package, graphs), "utf-8")


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    main(*map(Path, sys.argv[1:]))
