"""Reads and validates a file of fallback chains. Every error names the file, line and column.

The file lists, for each tool, its alternatives, best first::

    chains:
      vision_analysis:
        - tool: execute
          arguments: {language: python, code: $prompt}   # $name: the failed call's argument; $$ is a literal $
          note: How to use it, for the model.             # optional
          mode: suggest                                   # or auto, only between read-only tools
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from engine.contract.spec import ToolSpec
from engine.formats.yaml_model import MAPPING_IF_EMPTY, YamlDocument, YamlModel, did_you_mean, read_yaml
from engine.recovery.chain import Alternative, ArgumentReference, Chains, Mode

_MOST_VALUES = 10_000
_DEEPEST = 20

Specs = Mapping[str, ToolSpec]
Skipped = Callable[[str], None]


class _AlternativeFields(YamlModel):
    tool: str
    arguments: Annotated[dict[str, Any], MAPPING_IF_EMPTY] = Field(default_factory=dict)
    note: str = ""
    mode: Mode = "suggest"


class _ChainsFile(YamlModel):
    chains: Annotated[dict[str, list[_AlternativeFields]], MAPPING_IF_EMPTY] = Field(default_factory=dict)


def read_chains(path: Path, specs: Specs, *, skipped: Skipped | None = None) -> Chains:
    """Read the chains of a file.

    Args:
        path: The file.
        specs: The tools that may be named, by primary name.
        skipped: Function to call for each entry or alternative that is skipped because it names an unknown tool.
            Without this function, an unknown tool is an error. The chains that ship with Knackbox name tools of packs
            that may not be installed.

    Raises:
        ConfigError: The file is unreadable or not YAML, a field is wrong or duplicate, a tool or argument is unknown,
            ``auto`` is used with a tool that is not read-only, or the chains form a cycle.
    """
    return _ChainReader(_parsed(path, _version_of(path)), specs, skipped).read()


@lru_cache(maxsize=8)
def _parsed(path: Path, _version: tuple[int, int, int]) -> YamlDocument[_ChainsFile]:
    """Parse a file. Each version of it is parsed once per process, because that takes 25 ms."""
    return read_yaml(path, _ChainsFile)


def _version_of(path: Path) -> tuple[int, int, int]:
    with suppress(OSError):  # reading the file reports the problem
        status = path.stat()
        return status.st_mtime_ns, status.st_size, status.st_ino
    return (0, 0, 0)


class _ChainReader:
    """Converts the chains of a file, and checks that the tools and arguments in them exist."""

    def __init__(self, file: YamlDocument[_ChainsFile], specs: Specs, skipped: Skipped | None) -> None:
        self._file = file
        self._specs = specs
        self._skipped = skipped
        self._values = 0

    def read(self) -> Chains:
        chains: dict[str, tuple[Alternative, ...]] = {}
        places: dict[tuple[str, str], int] = {}
        for failed, listed in self._file.content.chains.items():
            if not self._known(failed, "chains", failed, key=True):
                continue
            alternatives = []
            for index, fields in enumerate(listed):
                if self._known(fields.tool, "chains", failed, index, "tool"):
                    alternatives.append(self._alternative(failed, index, fields))
                    places[failed, fields.tool] = index
            chains[failed] = tuple(alternatives)
        self._refuse_cycle(chains, places)
        return chains

    def _alternative(self, failed: str, index: int, fields: _AlternativeFields) -> Alternative:
        at = ("chains", failed, index)
        if fields.mode == "auto":
            for each in (failed, fields.tool):
                if not self._specs[each].annotations.read_only:
                    problem = f"`auto` is only for read-only tools, and {each} is not; use `suggest`"
                    self._file.refuse(problem, *at, "mode")
        arguments: dict[str, Any] = {}
        for name, value in fields.arguments.items():
            place = (*at, "arguments", name)
            self._refuse_unknown_argument(fields.tool, name, *place, key=True)
            if isinstance(value, str) and value.startswith("$") and not value.startswith("$$"):
                self._refuse_unknown_argument(failed, value[1:], *place)
                arguments[name] = ArgumentReference(value[1:])
            else:
                arguments[name] = self._literal(value, *place)
        return Alternative(fields.tool, arguments, fields.note.strip(), fields.mode)

    def _literal(self, value: Any, *at: int | str, depth: int = 0) -> Any:
        """Convert a YAML value to plain JSON. Its size and depth are limited, because aliases may repeat or recurse."""
        self._values += 1
        if self._values > _MOST_VALUES or depth > _DEEPEST:
            self._file.refuse(f"arguments have more than {_MOST_VALUES} values or {_DEEPEST} levels", *at)
        if isinstance(value, dict):
            return {str(key): self._literal(each, *at, depth=depth + 1) for key, each in value.items()}
        if isinstance(value, list):
            return [self._literal(each, *at, depth=depth + 1) for each in value]
        if isinstance(value, str):
            return value.removeprefix("$") if value.startswith("$$") else value
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._file.refuse(f"a {type(value).__name__} has no JSON form; put it in quotes", *at)

    def _known(self, name: str, *at: int | str, key: bool = False) -> bool:
        if name in self._specs:
            return True
        problem = f"unknown tool {name!r}{did_you_mean(name, self._specs)}"
        if self._skipped is None:
            self._file.refuse(problem, *at, key=key)
        self._skipped(f"{self._file.at(*at, key=key)}: {problem}")
        return False

    def _refuse_unknown_argument(self, tool: str, name: str, *at: int | str, key: bool = False) -> None:
        schema = self._specs[tool].parameters
        known = schema.get("properties", {})
        if name not in known and schema.get("additionalProperties", True) is False:
            self._file.refuse(f"{tool} has no argument {name!r}{did_you_mean(name, known)}", *at, key=key)

    def _refuse_cycle(self, chains: Chains, places: Mapping[tuple[str, str], int]) -> None:
        done: set[str] = set()

        def visit(tool: str, trail: tuple[str, ...]) -> None:
            if tool in trail:
                around = [*trail[trail.index(tool) :], tool]
                problem = f"a cycle: {' -> '.join(around)}; remove one step"
                self._file.refuse(problem, "chains", trail[-1], places[trail[-1], tool])
            if tool in done:
                return
            for alternative in chains.get(tool, ()):
                visit(alternative.tool, (*trail, tool))
            done.add(tool)

        for tool in chains:
            visit(tool, ())
