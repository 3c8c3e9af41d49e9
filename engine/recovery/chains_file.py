"""Reads and validates a fallback chains file. Every error names file, line and column.

The format, per tool a list of alternatives, best first::

    chains:
      vision_analysis:
        - tool: execute
          arguments: {language: python, code: $prompt}   # $name: the failed call's argument; $$ is a literal $
          note: How to use it, for the model.             # optional
          mode: suggest                                   # or auto, only between read-only tools
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from ruamel.yaml.comments import CommentedMap, CommentedSeq

from engine.contract.spec import ToolSpec
from engine.formats.placed_yaml import Place, PlacedYaml, key_place, meant, value_place
from engine.recovery.chain import Alternative, ArgumentReference, Chains, Mode

_FIELDS = ("tool", "arguments", "note", "mode")
_MODES = ("suggest", "auto")
_MOST_VALUES = 10_000
_DEEPEST = 20

Specs = Mapping[str, ToolSpec]
Skipped = Callable[[str], None]


def read_chains(path: Path, specs: Specs, *, skipped: Skipped | None = None) -> Chains:
    """Read the chains of a file.

    Args:
        path: The file.
        specs: The tools that may be named, by primary name.
        skipped: If given, an entry or alternative with an unknown tool is skipped and reported here instead of refused.
            Used for the chains that ship with Knackbox, which name tools of packs that may not be installed.

    Raises:
        ConfigError: The file is unreadable or not YAML, a field is wrong or duplicate, a tool or argument is unknown,
            ``auto`` is used with a tool that is not read-only, or the chains form a cycle.
    """
    return _ChainReader(path, specs, skipped).read()


class _ChainReader:
    def __init__(self, path: Path, specs: Specs, skipped: Skipped | None) -> None:
        self._file = PlacedYaml(path)
        self._specs = specs
        self._skipped = skipped
        self._values = 0

    def read(self) -> Chains:
        document = self._document()
        chains: dict[str, tuple[Alternative, ...]] = {}
        places: dict[tuple[str, str], Place] = {}
        for tool in document:
            place = key_place(document, tool)
            if not self._known(tool, place):
                continue
            listed = document[tool]
            if not isinstance(listed, CommentedSeq):
                self._refuse(value_place(document, tool), f"{tool} needs a list of alternatives, each with a `tool`")
            alternatives = []
            for index, item in enumerate(listed):
                alternative = self._alternative(tool, item, listed.lc.item(index))
                if alternative is not None:
                    alternatives.append(alternative)
                    places[tool, alternative.tool] = listed.lc.item(index)
            chains[tool] = tuple(alternatives)
        self._refuse_cycle(chains, places)
        return chains

    def _document(self) -> CommentedMap:
        """Return the mapping below `chains`; empty for an empty file."""
        loaded = self._file.load()
        if loaded is None:
            return CommentedMap()
        if not isinstance(loaded, CommentedMap):
            self._refuse((0, 0), "the file needs one key, `chains`, with a mapping of tool names")
        for key in loaded:
            if key != "chains":
                self._refuse(key_place(loaded, key), f"unknown field {key!r}; the only valid field is `chains`")
        chains = loaded.get("chains")
        if chains is None:
            return CommentedMap()
        if not isinstance(chains, CommentedMap):
            self._refuse(value_place(loaded, "chains"), "`chains` needs tool names, each with a list of alternatives")
        return chains

    def _alternative(self, failed: str, item: Any, place: Place) -> Alternative | None:
        if not isinstance(item, CommentedMap):
            self._refuse(place, f"an alternative must be a mapping with the fields {', '.join(_FIELDS)}")
        for key in item:
            if key not in _FIELDS:
                known = f"{meant(key, _FIELDS)}; known: {', '.join(_FIELDS)}"
                self._refuse(key_place(item, key), f"unknown field {key!r}{known}")
        if "tool" not in item:
            self._refuse(place, "the field `tool` is missing")
        name, note = item["tool"], item.get("note", "")
        if not self._known(name, value_place(item, "tool")):
            return None
        if not isinstance(note, str):
            self._refuse(value_place(item, "note"), "note must be a string")
        arguments = self._arguments(failed, str(name), item)
        return Alternative(str(name), arguments, str(note).strip(), self._mode(failed, str(name), item))

    def _mode(self, failed: str, alternative: str, item: CommentedMap) -> Mode:
        mode = item.get("mode", "suggest")
        if mode not in _MODES:
            self._refuse(value_place(item, "mode"), f"mode is {mode!r}; use suggest or auto")
        if mode == "auto":
            for each in (failed, alternative):
                if not self._specs[each].annotations.read_only:
                    problem = f"auto is only for read-only tools, and {each} is not; use suggest"
                    self._refuse(value_place(item, "mode"), problem)
        return cast("Mode", str(mode))

    def _arguments(self, failed: str, alternative: str, item: CommentedMap) -> dict[str, Any]:
        given = item.get("arguments")
        if given is None:
            return {}
        if not isinstance(given, CommentedMap):
            self._refuse(
                value_place(item, "arguments"), "arguments must be a mapping: new argument to $old_argument or a value"
            )
        made: dict[str, Any] = {}
        for name, value in given.items():
            self._refuse_unknown_argument(alternative, name, key_place(given, name))
            if isinstance(value, str) and value.startswith("$") and not value.startswith("$$"):
                self._refuse_unknown_argument(failed, value[1:], value_place(given, name))
                made[str(name)] = ArgumentReference(value[1:])
            else:
                made[str(name)] = self._literal(value, value_place(given, name))
        return made

    def _literal(self, value: Any, place: Place, depth: int = 0) -> Any:
        """Convert a YAML value to plain JSON. Aliases may repeat or recurse, so count and depth are limited."""
        self._values += 1
        if self._values > _MOST_VALUES or depth > _DEEPEST:
            self._refuse(place, f"arguments have more than {_MOST_VALUES} values or {_DEEPEST} levels")
        if isinstance(value, CommentedMap):
            return {str(key): self._literal(value[key], value_place(value, key), depth + 1) for key in value}
        if isinstance(value, CommentedSeq):
            return [self._literal(each, place, depth + 1) for each in value]
        if value is None or isinstance(value, bool):
            return value
        for plain in (int, float):
            if isinstance(value, plain):
                return plain(value)
        if isinstance(value, str):
            return str(value)[1:] if value.startswith("$$") else str(value)
        return self._refuse(place, f"a {type(value).__name__} has no JSON form; put it in quotes")

    def _known(self, name: Any, place: Place) -> bool:
        if isinstance(name, str) and name in self._specs:
            return True
        problem = f"unknown tool {name!r}{meant(name, self._specs)}"
        if self._skipped is None:
            self._refuse(place, problem)
        self._skipped(self._file.placed(place, problem))
        return False

    def _refuse_unknown_argument(self, tool: str, name: Any, place: Place) -> None:
        schema = self._specs[tool].parameters
        known = schema.get("properties", {})
        if name not in known and schema.get("additionalProperties", True) is False:
            self._refuse(place, f"{tool} has no argument {name!r}{meant(name, known)}")

    def _refuse_cycle(self, chains: Chains, places: Mapping[tuple[str, str], Place]) -> None:
        done: set[str] = set()

        def visit(tool: str, trail: tuple[str, ...]) -> None:
            if tool in trail:
                around = [*trail[trail.index(tool) :], tool]
                self._refuse(places[trail[-1], tool], f"a cycle: {' -> '.join(around)}; remove one step")
            if tool in done:
                return
            for alternative in chains.get(tool, ()):
                visit(alternative.tool, (*trail, tool))
            done.add(tool)

        for tool in chains:
            visit(tool, ())

    def _refuse(self, place: Place, problem: str) -> NoReturn:
        self._file.refuse(place, problem)
