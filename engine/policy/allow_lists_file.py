"""Reads and validates allow-list files, whose format allow_lists.yaml describes. Errors name file, line and column."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from pydantic import Field, StringConstraints

from engine.contract.allowed import EVERY_CATEGORY, Selection
from engine.contract.spec import ToolSpec
from engine.formats.yaml_model import LIST_IF_EMPTY, MAPPING_IF_EMPTY, YamlDocument, YamlModel, did_you_mean, read_yaml

NOTHING = Selection()

Specs = Mapping[str, ToolSpec]
Unknown = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AllowList:
    """An allow-list as it is written in a file.

    Attributes:
        include: Names of the included lists, each with its position in the file (for error messages).
    """

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


_Names = Annotated[
    tuple[Annotated[str, StringConstraints(strict=True, min_length=1)], ...], Field(strict=False), LIST_IF_EMPTY
]


class _SelectionFields(YamlModel):
    tools: _Names = ()
    categories: _Names = ()
    modules: _Names = ()
    skills: _Names = ()


class _ListFields(_SelectionFields):
    description: str = ""
    include: _Names = ()
    read_only: bool = False
    without_effects: _Names = ()
    exclude: _SelectionFields = Field(default_factory=_SelectionFields)
    add_when_non_local: _SelectionFields = Field(default_factory=_SelectionFields)
    exclude_in_local: _SelectionFields = Field(default_factory=_SelectionFields)
    add_when_embedding_ok: _SelectionFields = Field(default_factory=_SelectionFields)


class _OptionalFields(YamlModel):
    tools: _Names = ()
    categories: _Names = ()
    effects: _Names = ()


class _AllowListsFile(YamlModel):
    lists: Annotated[dict[str, _ListFields], MAPPING_IF_EMPTY] = Field(default_factory=dict)
    optional: _OptionalFields = Field(default_factory=_OptionalFields)


def read_allow_lists(path: Path, specs: Specs, *, unknown: Unknown | None = None) -> dict[str, AllowList]:
    """Read the lists of a file, by name. Includes are not resolved, because they may name lists of another file.

    Args:
        path: The file.
        specs: The static tools, by primary name.
        unknown: Function to call for each unknown tool, category or side effect that the file does not declare
            optional. The name then stays in the list. Without this function, such a name is an error.

    Raises:
        ConfigError: The file is unreadable or not YAML, a field is wrong or duplicate, or a name is unknown.
    """
    file = read_yaml(path, _AllowListsFile)
    return _AllowListReader(file, specs, unknown).read()


class _AllowListReader:
    """Converts the lists of a file, and checks that the names in them exist."""

    def __init__(self, file: YamlDocument[_AllowListsFile], specs: Specs, unknown: Unknown | None) -> None:
        self._file = file
        self._unknown = unknown
        optional = file.content.optional
        self._known: dict[str, set[str]] = {
            "tool": {*specs, *optional.tools},
            "category": {EVERY_CATEGORY, *(spec.category for spec in specs.values()), *optional.categories},
            "side effect": {*(effect for spec in specs.values() for effect in spec.side_effects), *optional.effects},
        }

    def read(self) -> dict[str, AllowList]:
        return {name: self._list(name, fields) for name, fields in self._file.content.lists.items()}

    def _list(self, name: str, fields: _ListFields) -> AllowList:
        at = ("lists", name)
        return AllowList(
            name=name,
            description=fields.description,
            include={other: self._file.at(*at, "include", index) for index, other in enumerate(fields.include)},
            selected=self._selection(fields, *at),
            exclude=self._selection(fields.exclude, *at, "exclude"),
            read_only=fields.read_only,
            without_effects=self._of_known("side effect", fields.without_effects, *at, "without_effects"),
            add_when_non_local=self._selection(fields.add_when_non_local, *at, "add_when_non_local"),
            exclude_in_local=self._selection(fields.exclude_in_local, *at, "exclude_in_local"),
            add_when_embedding_ok=self._selection(fields.add_when_embedding_ok, *at, "add_when_embedding_ok"),
        )

    def _selection(self, fields: _SelectionFields, *at: str) -> Selection:
        for index, name in enumerate(fields.tools):
            if "." in name:
                problem = f"{name!r} is a tool of a remote module; name it under `modules`"
                self._file.refuse(problem, *at, "tools", index)
        return Selection(
            tools=self._of_known("tool", fields.tools, *at, "tools"),
            categories=self._of_known("category", fields.categories, *at, "categories"),
            modules=tuple(name if "." in name else f"{name}.*" for name in fields.modules),
            skills=fields.skills,
        )

    def _of_known(self, kind: str, names: tuple[str, ...], *at: str) -> frozenset[str]:
        """Return the names in a field. Report unknown names, because a misspelled name might fail to forbid a tool."""
        known = self._known[kind]
        for index, name in enumerate(names):
            if name not in known:
                hint = did_you_mean(name, known)
                problem = f"unknown {kind} {name!r}{hint}; list it under `optional` if its pack may be missing"
                if self._unknown is None:
                    self._file.refuse(problem, *at, index)
                self._unknown(f"{self._file.at(*at, index)}: {problem}")
        return frozenset(names)
