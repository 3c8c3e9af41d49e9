"""`Assembly`: builds the list of every turn of an engine, and caches what has not changed (LIST-7).

Changes are detected by identity: a source that returns the same tuple as before has not changed. Sources that return a
list, which is mutable, are read every time.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import is_

from engine.contract.source import NoTools, Tool, ToolSource
from engine.contract.turn import Turn
from engine.turn.active_list import (
    ActiveList,
    ListContext,
    Offered,
    append_acquired,
    register_composed_skills,
    reserved_names,
    static_tools,
)
from engine.turn.availability import Dropped, Tools, enabled, offerable
from engine.turn.gather import SOURCE_TIMEOUT_S, Ask, every_tool, gather

_SPLITS = 64  # cached answers of sources
_BASES = 8  # cached sets of static tools: with and without discovery tools, and changes while an engine runs
_TURNS = 64  # kinds of turn: users, agents, bands


@dataclass(frozen=True, slots=True)
class _ListPart:
    """A part of a list, and what was omitted from it."""

    tools: Tools
    dropped: tuple[Dropped, ...]


@dataclass(slots=True)
class _Base:
    """The static tools of one set of answers. by_turn: what each kind of turn, without its query, is offered of them.

    skills: the skills that each kind of turn was last offered beside them. Objects that are compared by identity are
        kept
    alive, so that their id() is not reused.
    """

    answers: tuple[Tools, ...]
    tools: Tools
    doubled: tuple[Dropped, ...]
    reserved: frozenset[str]
    by_turn: OrderedDict[Turn, _ListPart] = field(default_factory=OrderedDict)
    skills: OrderedDict[Turn, tuple[tuple[Tools, ...], _ListPart]] = field(default_factory=OrderedDict)


def nothing_changed() -> None:
    """Do nothing. For an assembly whose requirements do not change."""


class Assembly:
    """Builds the lists of an engine. For one event loop."""

    def __init__(
        self,
        configured: frozenset[str] = frozenset(),
        *,
        timeout_s: float = SOURCE_TIMEOUT_S,
        disabled: Callable[[], Mapping[str, str]] = dict,
        look_again: Callable[[], Awaitable[frozenset[str]] | None] = nothing_changed,
    ) -> None:
        """Create the assembly.

        configured: requirements that are met (`ToolSpec.requires`). timeout_s: for each source to answer.
        disabled: returns since when tools are disabled, by id; called for each list, after the sources have answered.
        look_again: called before each list; None if the met requirements cannot change.
        """
        self._configured = configured
        self._timeout_s = timeout_s
        self._disabled = disabled
        self._look_again = look_again
        self._splits: OrderedDict[int, tuple[Sequence[Tool], Offered]] = OrderedDict()
        self._bases: OrderedDict[tuple[int, ...], _Base] = OrderedDict()

    async def active_list(self, sources: Sequence[ToolSource], turn: Turn, ask: Ask = every_tool) -> ActiveList:
        """Return the tools of a turn, and what was omitted and why. Never raises because of a source.

        The sources see the turn, so that the source of acquired skills returns those that match the query.
        ask: gets the tools of one source, for callers that want only some of them.
        """
        if (looking := self._look_again()) is not None:
            self._configure(await looking)
        gathered = await gather(sources, turn, ask=ask, timeout_s=self._timeout_s)
        parts = [self._split(answer) for answer in gathered.answers]
        base = self._base(tuple(part.static for part in parts))
        kind = replace(turn, query=None)
        static = self._static(base, kind)
        skills = self._skills(base, [part.acquired for part in parts], [part.composed for part in parts], kind)
        tools, off = enabled((*static.tools, *skills.tools), self._disabled())
        none = [Dropped(answer.what, answer.why) for answer in gathered.answers if isinstance(answer, NoTools)]
        dropped = [*base.doubled, *static.dropped, *skills.dropped, *off, *none]
        dropped.sort(key=_dropped_name)
        return ActiveList(tools, tuple(dropped), gathered.failed)

    def _configure(self, configured: frozenset[str]) -> None:
        """Set the met requirements, and clear the caches."""
        if configured != self._configured:
            self._configured = configured
            self._bases.clear()

    def _split(self, answer: Sequence[Tool]) -> Offered:
        """Split an answer by origin."""
        if type(answer) is not tuple:
            return Offered.of(answer)
        known = self._splits.get(id(answer))
        if known is None:
            known = self._splits[id(answer)] = (answer, Offered.of(answer))
            if len(self._splits) > _SPLITS:
                self._splits.popitem(last=False)
        else:
            self._splits.move_to_end(id(answer))
        return known[1]

    def _base(self, answers: tuple[Tools, ...]) -> _Base:
        """Return the static tools of all sources."""
        key = tuple(map(id, answers))
        base = self._bases.get(key)
        if base is None:
            offered = _joined(answers)
            tools, doubled = static_tools(offered)
            base = _Base(answers, tuple(tools), tuple(doubled), reserved_names(offered))
            self._bases[key] = base
            if len(self._bases) > _BASES:
                self._bases.popitem(last=False)
        else:
            self._bases.move_to_end(key)
        return base

    def _static(self, base: _Base, kind: Turn) -> _ListPart:
        """Return the static tools that this kind of turn is offered."""
        part = base.by_turn.get(kind)
        if part is None:
            tools, dropped = offerable(base.tools, kind, self._configured)
            part = base.by_turn[kind] = _ListPart(tuple(tools), tuple(dropped))
            if len(base.by_turn) > _TURNS:
                base.by_turn.popitem(last=False)
        else:
            base.by_turn.move_to_end(kind)
        return part

    def _skills(self, base: _Base, acquired: Sequence[Tools], composed: Sequence[Tools], kind: Turn) -> _ListPart:
        """Return the skills that this kind of turn is offered. The last answer for each kind is cached."""
        offered = (*acquired, *composed)
        known = base.skills.get(kind)
        if known is not None and len(known[0]) == len(offered) and all(map(is_, known[0], offered)):
            base.skills.move_to_end(kind)
            return known[1]
        # Static tools cannot clash with them, because their names are reserved.
        context = ListContext(Offered(acquired=_joined(acquired), composed=_joined(composed)), base.reserved)
        tools, shadowing = append_acquired((), context)
        tools, unusable = register_composed_skills(tools, context)
        kept, refused = offerable(tools, kind, self._configured)
        part = _ListPart(tuple(kept), (*shadowing, *unusable, *refused))
        base.skills[kind] = (offered, part)
        if len(base.skills) > _TURNS:
            base.skills.popitem(last=False)
        return part


async def active_list(
    sources: Sequence[ToolSource],
    turn: Turn,
    configured: frozenset[str] = frozenset(),
    *,
    timeout_s: float = SOURCE_TIMEOUT_S,
    disabled: Callable[[], Mapping[str, str]] = dict,
) -> ActiveList:
    """Build one list without caches."""
    return await Assembly(configured, timeout_s=timeout_s, disabled=disabled).active_list(sources, turn)


def _joined(parts: Sequence[Tools]) -> Tools:
    """Merge sorted parts. Stable, so that tools of the same name keep the order of their sources."""
    filled = [part for part in parts if part]
    if len(filled) < 2:  # noqa: PLR2004 -- nothing to join
        return filled[0] if filled else ()
    return tuple(sorted((tool for part in filled for tool in part), key=_tool_name))


def _tool_name(tool: Tool) -> str:
    return tool.spec.name


def _dropped_name(each: Dropped) -> str:
    return each.name
