"""Response tags: lines of the form ``PREFIX: arguments`` in a model's answer that call a tool (TAG-1, TAG-2).

Patterns are matched by RE2 in linear time, so no pattern can hang the parser.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import re2

from engine.contract.spec import ToolSpec

_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_ -]{0,63}\Z")
_LONGEST_LINE = 64 << 10  # characters; a longer line is plain text
_MEMORY = 1 << 20  # bytes that RE2 may use for one pattern
_SCALARS: Mapping[str, tuple[type, ...]] = {"integer": (int,), "number": (int, float), "boolean": (bool,)}


class TagError(ValueError):
    """A tool's tag is invalid. The message says why and what to change."""


@dataclass(frozen=True, slots=True)
class TaggedCall:
    """A call that one line of an answer makes.

    Attributes:
        raw_arg: The text after the prefix.
        line: The line's number, starting at 1.
    """

    tool: str
    arguments: Mapping[str, Any]
    raw_arg: str
    line: int


@dataclass(frozen=True, slots=True)
class ParsedResponse:
    """The calls in a model's answer, and the text without them.

    Attributes:
        calls: The calls, in the order of their lines.
        display: The answer as people see it, without the lines that are hidden from them.
    """

    calls: tuple[TaggedCall, ...]
    display: str


@dataclass(frozen=True, slots=True)
class _TagEntry:
    spec: ToolSpec
    groups: tuple[str, ...]
    pattern: Any  # re2 is not typed
    strip: bool


class TagRegistry:
    """Finds the tool for a line of an answer by its prefix. Tools without a tag are ignored.

    Raises:
        TagError: A tag is invalid.
    """

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self._entries: dict[str, _TagEntry] = {}
        for tool in tools:
            if tool.tag is not None:
                self._add(tool)

    def __len__(self) -> int:
        return len(self._entries)

    def prompt_block(self) -> str:
        """Return the text that tells a model how to use the tagged tools; "" if there are none."""
        if not self._entries:
            return ""
        lines = ["To use one of these, write a line of this form, with nothing else on it:"]
        for prefix, entry in sorted(self._entries.items()):
            example = entry.spec.tag.prompt_example if entry.spec.tag is not None else ""
            form = f"for example {example}" if example else f"{prefix}: <{'> <'.join(entry.groups)}>"
            lines.append(f"- {entry.spec.summary}: {form}")
        return "\n".join(lines)

    def match(self, line: str) -> tuple[ToolSpec, dict[str, Any], str, bool] | None:
        """Return a line's tool, arguments and raw argument, and whether to hide the line; None for plain text."""
        prefix, colon, rest = line.partition(":")
        entry = self._entries.get(prefix)
        if entry is None or not colon or not rest[:1].isspace() or len(line) > _LONGEST_LINE:
            return None
        raw = rest.strip()
        found = entry.pattern.fullmatch(raw)
        if found is None:
            return None
        given = zip(entry.groups, found.groups(), strict=True)
        arguments = {name: _typed(entry.spec, name, text) for name, text in given if text is not None}
        return entry.spec, arguments, raw, entry.strip

    def _add(self, tool: ToolSpec) -> None:
        tag = tool.tag
        assert tag is not None  # noqa: S101 -- for the type checker; checked by the caller
        if not _PREFIX.match(tag.tag_prefix):
            raise TagError(
                f"{tool.name}: {tag.tag_prefix!r} is not a valid tag prefix. Use a letter, then up to 63 letters, "
                "digits, spaces, _ or -."
            )
        if tag.tag_prefix in self._entries:
            other = self._entries[tag.tag_prefix].spec.name
            raise TagError(
                f"{tool.name}: the prefix {tag.tag_prefix!r} is already used by {other}. Change one of them."
            )
        pattern = _compiled(tool.name, tag.arg_pattern)
        if pattern.groups != len(tag.arg_groups) or len(set(tag.arg_groups)) != len(tag.arg_groups):
            raise TagError(
                f"{tool.name}: its arg_pattern has {pattern.groups} groups and arg_groups names {len(tag.arg_groups)}. "
                "Give each group its own name, and write groups that are not arguments as (?:…)."
            )
        self._entries[tag.tag_prefix] = _TagEntry(tool, tag.arg_groups, pattern, tag.strip_from_display)


def parse_response(text: str, registry: TagRegistry) -> ParsedResponse:
    """Find the calls in an answer, and remove the lines that are hidden from people."""
    calls: list[TaggedCall] = []
    shown: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        found = registry.match(line.rstrip("\r"))
        if found is None:
            shown.append(line)
            continue
        tool, arguments, raw, strip = found
        calls.append(TaggedCall(tool.name, arguments, raw, number))
        if not strip:
            shown.append(line)
    return ParsedResponse(tuple(calls), "\n".join(shown).strip("\n") if calls else text)


def _compiled(tool: str, pattern: str) -> Any:
    options = re2.Options()
    options.log_errors = False  # errors are raised as exceptions instead
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        said = error.args[0].decode("utf-8", "replace") if error.args and isinstance(error.args[0], bytes) else error
        raise TagError(
            f"{tool}: its arg_pattern is not valid RE2 ({said}). Look-around and back-references are "
            "not supported, since they cannot be matched in linear time."
        ) from error


def _typed(tool: ToolSpec, name: str, text: str) -> Any:
    """Convert the text to the number or boolean that the tool's schema requires; leave it unchanged otherwise."""
    wanted = tool.parameters.get("properties", {}).get(name, {}).get("type")
    kinds = _SCALARS.get(wanted) if isinstance(wanted, str) else None
    if kinds is None:
        return text
    try:
        value = json.loads(text.strip().lower() if wanted == "boolean" else text)
    except ValueError:
        return text
    return value if isinstance(value, kinds) and isinstance(value, bool) == (wanted == "boolean") else text
