"""`Assembly`: makes the list of every turn of an engine, and does not do again what has not changed (LIST-7).

What is remembered is known by identity: a source that offers the very tuple it offered before has not changed. What a
source gives in a list, which could change behind our back, is looked at every time.
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

_SPLITS = 64  # answers of sources whose parts are kept
_BASES = 8  # sets of static tools: with and without the tools of discovery, and what changes while an engine runs
_TURNS = 64  # kinds of turn: users, agents, bands


@dataclass(frozen=True, slots=True)
class _ListPart:
    """Some of the tools of a list, and what was left out of it."""

    tools: Tools
    dropped: tuple[Dropped, ...]


@dataclass(slots=True)
class _Base:
    """The static tools of one set of answers. by_turn: what each kind of turn, without its query, is offered of them.

    skills: of the skills beside them, what each kind was offered last, and of which skills. What is known by its
    identity is kept, so that no other object can have it.
    """

    answers: tuple[Tools, ...]
    tools: Tools
    doubled: tuple[Dropped, ...]
    reserved: frozenset[str]
    by_turn: OrderedDict[Turn, _ListPart] = field(default_factory=OrderedDict)
    skills: OrderedDict[Turn, tuple[tuple[Tools, ...], _ListPart]] = field(default_factory=OrderedDict)


def nothing_changed() -> None:
    """For an assembly whose requirements stay what they are."""


class Assembly:
    """Belongs to one event loop."""

    def __init__(
        self,
        configured: frozenset[str] = frozenset(),
        *,
        timeout_s: float = SOURCE_TIMEOUT_S,
        disabled: Callable[[], Mapping[str, str]] = dict,
        look_again: Callable[[], Awaitable[frozenset[str]] | None] = nothing_changed,
    ) -> None:
        """configured: requirements that are met (`ToolSpec.requires`). timeout_s: for each source to answer.

        disabled: since when tools are, by id; asked for each list, when the sources have answered.
        look_again: called before each list; None where the requirements that are met cannot have changed.
        """
        self._configured = configured
        self._timeout_s = timeout_s
        self._disabled = disabled
        self._look_again = look_again
        self._splits: OrderedDict[int, tuple[Sequence[Tool], Offered]] = OrderedDict()
        self._bases: OrderedDict[tuple[int, ...], _Base] = OrderedDict()

    async def active_list(self, sources: Sequence[ToolSource], turn: Turn, ask: Ask = every_tool) -> ActiveList:
        """The tools of a turn, and what was left out and why. Never raises for what a source does.

        The sources see the turn, so the one of acquired skills offers those that fit the query, or all without one.
        ask: gets the tools of one source, for a caller that wants only some of them.
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
        """From now on these requirements are met. What was remembered for others is forgotten."""
        if configured != self._configured:
            self._configured = configured
            self._bases.clear()

    def _split(self, answer: Sequence[Tool]) -> Offered:
        """An answer by origin."""
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
        """The static tools of all sources together."""
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
        """What this kind of turn is offered of the static tools."""
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
        """What this kind of turn is offered of the skills; the last answer for each kind is remembered."""
        offered = (*acquired, *composed)
        known = base.skills.get(kind)
        if known is not None and len(known[0]) == len(offered) and all(map(is_, known[0], offered)):
            base.skills.move_to_end(kind)
            return known[1]
        # No static tool is put before them: its name is a reserved one.
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
    """One list, by an assembly that remembers nothing."""
    return await Assembly(configured, timeout_s=timeout_s, disabled=disabled).active_list(sources, turn)


def _joined(parts: Sequence[Tools]) -> Tools:
    """Sorted parts as one; stable, so that tools of one name stay in the order of their sources."""
    filled = [part for part in parts if part]
    if len(filled) < 2:  # noqa: PLR2004 -- nothing to join
        return filled[0] if filled else ()
    return tuple(sorted((tool for part in filled for tool in part), key=_tool_name))


def _tool_name(tool: Tool) -> str:
    return tool.spec.name


def _dropped_name(each: Dropped) -> str:
    return each.name
