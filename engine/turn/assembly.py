"""`Assembly`: builds the active lists of an engine's turns, and caches the parts that have not changed (LIST-7).

Changes are detected by identity: a source that returns the same tuple as before has not changed. Sources that return a
list, which is mutable, are read every time. Sources that fail or hang are reported and skipped.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter, is_

from cachetools import LRUCache

from engine.contract.source import NoTools, Tool, ToolSource
from engine.contract.spec import Origin
from engine.contract.turn import Turn
from engine.turn.active_list import (
    ActiveList,
    SourceFailure,
    append_acquired,
    register_composed_skills,
    reserved_names,
    static_tools,
)
from engine.turn.availability import Dropped, Tools, enabled, offerable, programs_or_single_calls

_log = logging.getLogger("knackbox.turn")

# Seconds that one source may take. Generous, because the first query to the skills loads their index.
SOURCE_TIMEOUT_S = 20.0

_SPLITS = 64  # cached answers of sources
_BASES = 8  # cached sets of static tools, which differ in discovery tools and in the state of the sources
_TURNS = 64  # cached kinds of turn; a kind is a turn without its query (user, agent, band and so on)

Ask = Callable[[ToolSource, Turn], Awaitable[Sequence[Tool]]]
_name = attrgetter("name")
_tool_name = attrgetter("spec.name")


@dataclass(frozen=True, slots=True)
class Offered:
    """The tools that the sources offer, by origin, sorted by name. Tools of the same name stay in source order."""

    static: Tools = ()
    acquired: Tools = ()
    composed: Tools = ()

    @classmethod
    def of(cls, tools: Iterable[Tool]) -> "Offered":
        by_origin: dict[Origin, list[Tool]] = {origin: [] for origin in Origin}
        for tool in tools:
            by_origin[tool.spec.origin].append(tool)
        for each in by_origin.values():
            each.sort(key=_tool_name)
        return cls(*(tuple(by_origin[origin]) for origin in (Origin.STATIC, Origin.ACQUIRED, Origin.COMPOSED)))


@dataclass(frozen=True, slots=True)
class _ListPart:
    """A part of an active list, and the tools that were omitted from it."""

    tools: Tools
    dropped: tuple[Dropped, ...]


@dataclass(slots=True)
class _Base:
    """Caches the static tools, and the lists built from them, while every source returns the same tools as before.

    The sources' answers are referenced here, because their id() is used as a key and must not be reused.

    Attributes:
        by_turn: The static tools offered to each kind of turn (the turn without its query).
        skills: The skills last offered to each kind of turn, with the answers from which their list was built.
    """

    answers: tuple[Tools, ...]
    tools: Tools
    doubled: tuple[Dropped, ...]
    reserved: frozenset[str]
    by_turn: LRUCache[Turn, _ListPart] = field(default_factory=lambda: LRUCache(_TURNS))
    skills: LRUCache[Turn, tuple[tuple[Tools, ...], _ListPart]] = field(default_factory=lambda: LRUCache(_TURNS))


class Assembly:
    """Builds the active lists of an engine. Use it from a single event loop."""

    def __init__(
        self,
        configured: frozenset[str] = frozenset(),
        *,
        timeout_s: float = SOURCE_TIMEOUT_S,
        disabled: Callable[[], Mapping[str, str]] = dict,
        look_again: Callable[[], Awaitable[frozenset[str]] | None] | None = None,
    ) -> None:
        """Create the assembly.

        Args:
            configured: Requirements that are met (`ToolSpec.requires`).
            timeout_s: Seconds within which each source must answer.
            disabled: Returns the time at which each disabled tool was disabled, by tool id. Called for each list, after
                the sources have answered.
            look_again: Called before each list is built. It returns the requirements that are met now, or None if they
                have not changed. Pass None instead of a function if requirements never change.
        """
        self._configured = configured
        self._timeout_s = timeout_s
        self._disabled = disabled
        self._look_again = look_again
        self._splits: LRUCache[int, tuple[Sequence[Tool], Offered]] = LRUCache(_SPLITS)
        self._bases: LRUCache[tuple[int, ...], _Base] = LRUCache(_BASES)

    async def active_list(self, sources: Sequence[ToolSource], turn: Turn, ask: Ask | None = None) -> ActiveList:
        """Return the tools of a turn, and the omitted tools with reasons. Errors of sources are reported, not raised.

        All sources are asked concurrently. They receive the turn, so that the source of acquired skills can return the
        skills that match the query.

        Args:
            sources: The sources.
            turn: The turn.
            ask: Called to get the tools of each source, for callers that want only some of the tools. With None, all
                tools of every source are used.
        """
        if self._look_again is not None and (looking := self._look_again()) is not None:
            self._configure(await looking)
        replies = await asyncio.gather(*(self._reply(source, turn, ask) for source in sources))
        answers = [reply for reply in replies if not isinstance(reply, SourceFailure)]
        parts = [self._split(answer) for answer in answers]
        base = self._base(tuple(part.static for part in parts))
        kind = replace(turn, query=None)
        static = self._static(base, kind)
        skills = self._skills(base, [part.acquired for part in parts], [part.composed for part in parts], kind)
        tools = (*static.tools, *skills.tools)
        dropped = [*base.doubled, *static.dropped, *skills.dropped]
        if disabled := self._disabled():
            tools, off = enabled(tools, disabled)
            dropped += off
        if turn.use_tool_search_flow:  # last, because without the tool that runs programs `execute_tool` is needed
            tools, needless = programs_or_single_calls(tools)
            dropped += needless
        dropped += [Dropped(answer.what, answer.why) for answer in answers if isinstance(answer, NoTools)]
        dropped.sort(key=_name)
        return ActiveList(tools, tuple(dropped), tuple(reply for reply in replies if isinstance(reply, SourceFailure)))

    async def _reply(self, source: ToolSource, turn: Turn, ask: Ask | None) -> Sequence[Tool] | SourceFailure:
        """Ask one source for its tools."""
        deadline = asyncio.timeout(self._timeout_s)
        try:
            async with deadline:
                return await (source.tools(turn) if ask is None else ask(source, turn))
        except Exception as error:  # noqa: BLE001 - sources may be third-party code; they must not make the turn fail
            late = f"no answer within {self._timeout_s:g} s"
            reason = late if deadline.expired() else f"{type(error).__name__}: {error}"
            _log.warning("Tool source %r returned no tools in this turn: %s", source.name, reason)
            return SourceFailure(source.name, reason)

    def _configure(self, configured: frozenset[str]) -> None:
        """Set which requirements are met, and clear the caches."""
        if configured != self._configured:
            self._configured = configured
            self._bases.clear()

    def _split(self, answer: Sequence[Tool]) -> Offered:
        """Group the tools of a source's answer by origin."""
        if type(answer) is not tuple:
            return Offered.of(answer)
        try:
            return self._splits[id(answer)][1]
        except KeyError:
            split = Offered.of(answer)
            self._splits[id(answer)] = (answer, split)
            return split

    def _base(self, answers: tuple[Tools, ...]) -> _Base:
        """Return the `_Base` of these answers (the static tools of each source), from the cache if possible."""
        key = tuple(map(id, answers))
        try:
            return self._bases[key]
        except KeyError:
            offered = _joined(answers)
            tools, doubled = static_tools(offered)
            base = self._bases[key] = _Base(answers, tuple(tools), tuple(doubled), reserved_names(offered))
            return base

    def _static(self, base: _Base, kind: Turn) -> _ListPart:
        """Return the static tools that are offered to this kind of turn (the turn without its query)."""
        try:
            return base.by_turn[kind]
        except KeyError:
            tools, dropped = offerable(base.tools, kind, self._configured)
            part = base.by_turn[kind] = _ListPart(tuple(tools), tuple(dropped))
            return part

    def _skills(self, base: _Base, acquired: Sequence[Tools], composed: Sequence[Tools], kind: Turn) -> _ListPart:
        """Return the skills that are offered to this kind of turn (the turn without its query).

        The last result for each kind is cached.
        """
        offered = (*acquired, *composed)
        known = base.skills.get(kind)
        if known is not None and len(known[0]) == len(offered) and all(map(is_, known[0], offered)):
            return known[1]
        # Skills cannot clash with static tools, whose names are reserved.
        tools, shadowing = append_acquired((), _joined(acquired), base.reserved)
        tools, unusable = register_composed_skills(tools, _joined(composed), base.reserved)
        kept, refused = offerable(tools, kind, self._configured)
        part = _ListPart(tuple(kept), (*shadowing, *unusable, *refused))
        base.skills[kind] = (offered, part)
        return part


async def active_list(
    sources: Sequence[ToolSource],
    turn: Turn,
    configured: frozenset[str] = frozenset(),
    *,
    timeout_s: float = SOURCE_TIMEOUT_S,
    disabled: Callable[[], Mapping[str, str]] = dict,
) -> ActiveList:
    """Return the active list of a turn, built without caches. The arguments are those of `Assembly`."""
    return await Assembly(configured, timeout_s=timeout_s, disabled=disabled).active_list(sources, turn)


def _joined(parts: Sequence[Tools]) -> Tools:
    """Merge sorted lists of tools. Tools of the same name keep the order of their sources."""
    filled = [part for part in parts if part]
    if len(filled) < 2:  # noqa: PLR2004 -- nothing to join
        return filled[0] if filled else ()
    return tuple(sorted((tool for part in filled for tool in part), key=_tool_name))
