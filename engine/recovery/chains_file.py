"""Reads and checks a fallback chains file. Every complaint names file, line and column.

The format, per tool a list of alternatives, best first::

    chains:
      vision_analysis:
        - tool: execute
          arguments: {language: python, code: $prompt}   # $name: the failed call's argument; $$ is a plain $
          note: How to use it, for the model.             # optional
          mode: suggest                                   # or auto, only between read-only tools
"""

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, cast

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from engine.contract.failure import ConfigError
from engine.contract.spec import ToolSpec
from engine.recovery.chain import Alternative, Chains, From, Mode

_FIELDS = ("tool", "arguments", "note", "mode")
_MODES = ("suggest", "auto")
# A file a person edits is a few kilobytes; this bounds what a stray file can cost.
_MOST_BYTES = 1 << 20
_MOST_VALUES = 10_000
_DEEPEST = 20

Place = tuple[int, int]  # line and column, from 0

Specs = Mapping[str, ToolSpec]
Skipped = Callable[[str], None]


def read_chains(path: Path, specs: Specs, *, skipped: Skipped | None = None) -> Chains:
    """The chains of a file.

    specs: the tools that may be named, by primary name. skipped: with it, an entry or alternative that names an
    unknown tool is left out and reported there instead of refused; for the chains that ship with Knackbox, which
    name tools of packs that may not be installed.
    Raises ConfigError: unreadable, not YAML, wrong or doubled field, unknown tool or argument, ``auto`` with a tool
    that is not read-only, or a cycle.
    """
    return _Reader(path, specs, skipped).read()


class _Reader:
    def __init__(self, path: Path, specs: Specs, skipped: Skipped | None) -> None:
        self._path = path
        self._specs = specs
        self._skipped = skipped
        self._values = 0

    def read(self) -> Chains:
        document = self._document()
        chains: dict[str, tuple[Alternative, ...]] = {}
        places: dict[tuple[str, str], Place] = {}
        for tool in document:
            place = _key_place(document, tool)
            if not self._known(tool, place):
                continue
            listed = document[tool]
            if not isinstance(listed, CommentedSeq):
                self._refuse(_value_place(document, tool), f"{tool} needs a list of alternatives, each with a `tool`")
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
        """The mapping below `chains`; empty for an empty file."""
        loaded = self._parsed()
        if loaded is None:
            return CommentedMap()
        if not isinstance(loaded, CommentedMap):
            self._refuse((0, 0), "the file needs one key, `chains`, holding tool names")
        for key in loaded:
            if key != "chains":
                self._refuse(_key_place(loaded, key), f"unknown field {key!r}; the only one here is `chains`")
        chains = loaded.get("chains")
        if chains is None:
            return CommentedMap()
        if not isinstance(chains, CommentedMap):
            self._refuse(_value_place(loaded, "chains"), "`chains` needs tool names, each with a list of alternatives")
        return chains

    def _parsed(self) -> Any:
        try:
            data = self._path.read_bytes()
        except OSError as error:
            raise ConfigError(f"{self._path}: cannot be read: {error.strerror}.") from error
        if len(data) > _MOST_BYTES:
            self._refuse((0, 0), f"{len(data)} bytes is too large for a chains file (at most {_MOST_BYTES})")
        try:
            return YAML(typ="rt", pure=True).load(data.decode("utf-8"))
        except UnicodeDecodeError as error:
            line_start = data.rfind(b"\n", 0, error.start) + 1
            place = (data.count(b"\n", 0, error.start), error.start - line_start)
            self._refuse(place, "this is not UTF-8 text; save the file as UTF-8")
        except MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            place = (mark.line, mark.column) if mark is not None else (0, 0)
            self._refuse(place, f"not valid YAML: {_first_line(error.problem or error.context or error)}")
        except (YAMLError, ValueError, RecursionError) as error:
            self._refuse((0, 0), f"not valid YAML: {_first_line(error)}")
        except (TypeError, AttributeError, LookupError, AssertionError, NotImplementedError) as error:
            # What ruamel itself stumbles over instead of reporting, such as a mapping used as a key.
            self._refuse((0, 0), f"YAML that cannot be used here: {_first_line(error)}")

    def _alternative(self, failed: str, item: Any, place: Place) -> Alternative | None:
        if not isinstance(item, CommentedMap):
            self._refuse(place, f"an alternative is a mapping with the fields {', '.join(_FIELDS)}")
        for key in item:
            if key not in _FIELDS:
                known = f"{_meant(key, _FIELDS)}; known: {', '.join(_FIELDS)}"
                self._refuse(_key_place(item, key), f"unknown field {key!r}{known}")
        if "tool" not in item:
            self._refuse(place, "the field `tool` is missing")
        name, note = item["tool"], item.get("note", "")
        if not self._known(name, _value_place(item, "tool")):
            return None
        if not isinstance(note, str):
            self._refuse(_value_place(item, "note"), "note is a text")
        arguments = self._arguments(failed, str(name), item)
        return Alternative(str(name), arguments, str(note).strip(), self._mode(failed, str(name), item))

    def _mode(self, failed: str, alternative: str, item: CommentedMap) -> Mode:
        mode = item.get("mode", "suggest")
        if mode not in _MODES:
            self._refuse(_value_place(item, "mode"), f"mode is {mode!r}; use suggest or auto")
        if mode == "auto":
            for each in (failed, alternative):
                if not self._specs[each].annotations.read_only:
                    problem = f"auto is only for read-only tools, and {each} is not; use suggest"
                    self._refuse(_value_place(item, "mode"), problem)
        return cast("Mode", str(mode))

    def _arguments(self, failed: str, alternative: str, item: CommentedMap) -> dict[str, Any]:
        given = item.get("arguments")
        if given is None:
            return {}
        if not isinstance(given, CommentedMap):
            self._refuse(
                _value_place(item, "arguments"), "arguments is a mapping: new argument to $old_argument or a value"
            )
        made: dict[str, Any] = {}
        for name, value in given.items():
            self._refuse_unknown_argument(alternative, name, _key_place(given, name))
            if isinstance(value, str) and value.startswith("$") and not value.startswith("$$"):
                self._refuse_unknown_argument(failed, value[1:], _value_place(given, name))
                made[str(name)] = From(value[1:])
            else:
                made[str(name)] = self._literal(value, _value_place(given, name))
        return made

    def _literal(self, value: Any, place: Place, depth: int = 0) -> Any:
        """A YAML value as plain JSON. Aliases may multiply values or contain themselves, so both are bounded."""
        self._values += 1
        if self._values > _MOST_VALUES or depth > _DEEPEST:
            self._refuse(place, f"arguments hold more than {_MOST_VALUES} values, or lie deeper than {_DEEPEST} levels")
        if isinstance(value, CommentedMap):
            return {str(key): self._literal(value[key], _value_place(value, key), depth + 1) for key in value}
        if isinstance(value, CommentedSeq):
            return [self._literal(each, place, depth + 1) for each in value]
        if value is None or isinstance(value, bool):
            return value
        for plain in (int, float):
            if isinstance(value, plain):
                return plain(value)
        if isinstance(value, str):
            return str(value)[1:] if value.startswith("$$") else str(value)
        return self._refuse(place, f"a {type(value).__name__} has no form in JSON; put it in quotes")

    def _known(self, name: Any, place: Place) -> bool:
        if isinstance(name, str) and name in self._specs:
            return True
        problem = f"unknown tool {name!r}{_meant(name, self._specs)}"
        if self._skipped is None:
            self._refuse(place, problem)
        self._skipped(self._placed(place, problem))
        return False

    def _refuse_unknown_argument(self, tool: str, name: Any, place: Place) -> None:
        schema = self._specs[tool].parameters
        known = schema.get("properties", {})
        if name not in known and schema.get("additionalProperties", True) is False:
            self._refuse(place, f"{tool} has no argument {name!r}{_meant(name, known)}")

    def _refuse_cycle(self, chains: Chains, places: Mapping[tuple[str, str], Place]) -> None:
        done: set[str] = set()

        def visit(tool: str, trail: tuple[str, ...]) -> None:
            if tool in trail:
                around = [*trail[trail.index(tool) :], tool]
                self._refuse(places[trail[-1], tool], f"a cycle: {' -> '.join(around)}; take one step out")
            if tool in done:
                return
            for alternative in chains.get(tool, ()):
                visit(alternative.tool, (*trail, tool))
            done.add(tool)

        for tool in chains:
            visit(tool, ())

    def _placed(self, place: Place, problem: str) -> str:
        """`place` counts lines and columns from 0, as the parser does; people count from 1."""
        return f"{self._path}:{place[0] + 1}:{place[1] + 1}: {problem}"

    def _refuse(self, place: Place, problem: str) -> NoReturn:
        raise ConfigError(f"{self._placed(place, problem)}.")


def _key_place(mapping: CommentedMap, key: Any) -> Place:
    """Where a key stands; the mapping's own place for a key that came in by a merge (``<<``)."""
    try:
        line, column = mapping.lc.key(key)
    except (KeyError, TypeError):
        return mapping.lc.line, mapping.lc.col
    return line, column


def _value_place(mapping: CommentedMap, key: Any) -> Place:
    """Where the value of a key stands; the mapping's own place for one that came in by a merge."""
    try:
        line, column = mapping.lc.value(key)
    except (KeyError, TypeError):
        return mapping.lc.line, mapping.lc.col
    return line, column


def _first_line(problem: object) -> str:
    return str(problem).strip().split("\n", 1)[0]


def _meant(name: Any, known: Any) -> str:
    close = difflib.get_close_matches(str(name), [str(each) for each in known], 1)
    return f" (did you mean {close[0]!r}?)" if close else ""
