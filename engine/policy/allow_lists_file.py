"""Reads and validates a file of allow-lists. Every error names file, line and column. The format: allow_lists.yaml."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from engine.contract.allowed import EVERY_CATEGORY, Selection
from engine.contract.spec import ToolSpec
from engine.formats.placed_yaml import Place, PlacedYaml, key_place, meant, value_place

_SELECTION = ("tools", "categories", "modules", "skills")
_CONDITIONAL = ("exclude", "add_when_non_local", "exclude_in_local", "add_when_embedding_ok")
_FIELDS = ("description", "include", *_SELECTION, "read_only", "without_effects", *_CONDITIONAL)
_TOP = ("lists", "optional")
_OPTIONAL = ("tools", "categories", "effects")

NOTHING = Selection()

Specs = Mapping[str, ToolSpec]
Unknown = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AllowList:
    """One list as written. include: names of other lists, each with its position in the file, for errors."""

    name: str
    description: str = ""
    include: Mapping[str, str] = field(default_factory=dict)
    selected: Selection = NOTHING
    exclude: Selection = NOTHING
    read_only: bool = False
    without_effects: frozenset[str] = frozenset()
    add_when_non_local: Selection = NOTHING
    exclude_in_local: Selection = NOTHING
    add_when_embedding_ok: Selection = NOTHING


def read_allow_lists(path: Path, specs: Specs, *, unknown: Unknown | None = None) -> dict[str, AllowList]:
    """Read the lists of a file, by name. Includes are not followed: they may name lists of other files.

    Args:
        path: The file.
        specs: The static tools, by primary name.
        unknown: If given, an unknown tool, category or effect that the file does not declare optional is reported here
            instead of refused, and stays in the list.

    Raises:
        ConfigError: The file is unreadable or not YAML, a field is wrong or duplicate, or a name is unknown.
    """
    return _AllowListReader(path, specs, unknown).read()


class _AllowListReader:
    def __init__(self, path: Path, specs: Specs, unknown: Unknown | None) -> None:
        self._file = PlacedYaml(path)
        self._unknown = unknown
        self._known: dict[str, set[str]] = {
            "tools": set(specs),
            "categories": {EVERY_CATEGORY, *(spec.category for spec in specs.values())},
            "effects": {effect for spec in specs.values() for effect in spec.side_effects},
        }

    def read(self) -> dict[str, AllowList]:
        document = self._file.load()
        if document is None:
            return {}
        top = self._mapping(document, (0, 0), "the file", _TOP)
        if "optional" in top:
            optional = self._mapping(top["optional"], value_place(top, "optional"), "optional", _OPTIONAL)
            for kind in optional:
                self._known[kind].update(self._texts(optional, kind))
        lists = top.get("lists")
        if lists is None:
            return {}
        named = self._mapping(lists, value_place(top, "lists"), "lists", None)
        return {str(name): self._list(str(name), named[name], key_place(named, name)) for name in named}

    def _list(self, name: str, node: Any, place: Place) -> AllowList:
        fields = self._mapping(node, place, f"the list {name}", _FIELDS)
        conditional: dict[str, Selection] = {}
        for each in _CONDITIONAL:
            if each in fields:
                inner = self._mapping(fields[each], value_place(fields, each), each, _SELECTION)
                conditional[each] = self._selection(inner)
        description, read_only = fields.get("description", ""), fields.get("read_only", False)
        if not isinstance(description, str):
            self._file.refuse(value_place(fields, "description"), "description must be a string")
        if not isinstance(read_only, bool):
            self._file.refuse(value_place(fields, "read_only"), "read_only must be true or false")
        include = {other: self._file.placed(at, "") for other, at in self._texts(fields, "include").items()}
        return AllowList(
            name=name,
            description=str(description),
            include=include,
            selected=self._selection(fields),
            read_only=bool(read_only),
            without_effects=frozenset(self._of_known(fields, "without_effects", "effects")),
            **conditional,
        )

    def _selection(self, fields: CommentedMap) -> Selection:
        for name, place in self._texts(fields, "tools").items():
            if "." in name:
                self._file.refuse(place, f"{name!r} is a tool of a remote module; name it under `modules`")
        modules = [name if "." in name else f"{name}.*" for name in self._texts(fields, "modules")]
        return Selection(
            tools=frozenset(self._of_known(fields, "tools", "tools")),
            categories=frozenset(self._of_known(fields, "categories", "categories")),
            modules=tuple(modules),
            skills=tuple(self._texts(fields, "skills")),
        )

    def _of_known(self, fields: CommentedMap, key: str, kind: str) -> list[str]:
        """Return the names below a key. All must be known, because a misspelled one could fail to forbid a tool."""
        names = self._texts(fields, key)
        for name, place in names.items():
            if name not in self._known[kind]:
                what = {"tools": "tool", "categories": "category", "effects": "side effect"}[kind]
                hint = meant(name, self._known[kind])
                problem = f"unknown {what} {name!r}{hint}; list it under `optional` if its pack may be missing"
                if self._unknown is None:
                    self._file.refuse(place, problem)
                self._unknown(self._file.placed(place, problem))
        return list(names)

    def _texts(self, fields: CommentedMap, key: str) -> dict[str, Place]:
        """Return the strings of a list, in order, each with its position."""
        node = fields.get(key)
        if node is None:
            return {}
        if not isinstance(node, CommentedSeq):
            self._file.refuse(value_place(fields, key), f"{key} needs a list of names, such as [one, two]")
        found: dict[str, Place] = {}
        for index, item in enumerate(node):
            place: Place = node.lc.item(index)
            if not isinstance(item, str) or not item:
                self._file.refuse(place, f"{key} must be a list of names, and {item!r} is not a name")
            found[str(item)] = place
        return found

    def _mapping(self, node: Any, place: Place, what: str, known: tuple[str, ...] | None) -> CommentedMap:
        if not isinstance(node, CommentedMap):
            self._file.refuse(place, f"{what} needs fields" + (f": {', '.join(known)}" if known else ""))
        for key in node:
            if known is not None and key not in known:
                problem = f"unknown field {key!r} of {what}{meant(key, known)}; known: {', '.join(known)}"
                self._file.refuse(key_place(node, key), problem)
            if not isinstance(key, str):
                self._file.refuse(key_place(node, key), f"{key!r} is not a name; put it in quotes")
        return node
