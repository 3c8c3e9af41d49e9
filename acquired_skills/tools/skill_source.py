"""`SkillSource`: the acquired skills as a source of tools (LIST-3, LIST-4), and `read_skill` for the instructions."""

import asyncio
from bisect import insort
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TypeAlias

from acquired_skills.composed.tool import ComposedTool, composed_tool
from acquired_skills.find.instruction_search import InstructionHit, InstructionSearch
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import Skill, SkillKind
from acquired_skills.tools.read_skill import MOST_OFFERED, NAME, ReadSkill, read_skill
from acquired_skills.tools.skill_tool import SkillTool, skill_tool
from engine.contract.source import Match, Matches, NoTools, Tool
from engine.contract.turn import Turn

_MOST_KEPT = 5_000  # maximum number of cached tools, to limit memory
AnyTool: TypeAlias = SkillTool | ComposedTool
_by_name = attrgetter("spec.name")


class SkillSource:
    """A source that offers skills as tools, sorted by name.

    A turn with a query is offered the skills that retrieval finds. A turn without one is offered all listed skills.
    """

    name = "skills"
    undotted = True  # skills have names of Python functions, without dots

    def __init__(self, library: SkillLibrary, instructions: InstructionSearch | None = None) -> None:
        """Create the source.

        Args:
            library: The skills.
            instructions: The instructions to offer through the tool `read_skill`; None if there are none.
        """
        self._library = library
        self._instructions = instructions
        self._made: dict[str, AnyTool] = {}
        self._listed: tuple[Sequence[Skill], Sequence[InstructionHit], tuple[Tool, ...]] = ((), (), ())

    async def tools(self, turn: Turn) -> Sequence[Tool]:
        """Return the tools for this turn, after applying changes by other processes."""
        if turn.query and turn.query.strip():
            found = await self._library.search(turn.query)
            texts = await self._fitting(turn.query)
            tools = self._with_texts(self._tools(sorted((one.skill for one in found), key=_skill_name)), texts)
            if self._library.gap:
                return NoTools.because("acquired skills", self._library.gap, tools)
            if not tools and (there := await self._library.count(listed=True)):
                why = f"nothing fits: no skill ({there} are listed) reaches the probability `fits` of `[skills]`"
                return NoTools.because("acquired skills", why)
            return tools
        listed, texts = await self._library.listed(), await self._texts()
        if self._listed[0] is not listed or self._listed[1] is not texts:
            self._listed = (listed, texts, tuple(self._with_texts(self._tools(listed), texts)))
        return self._listed[2]

    async def find(self, name: str) -> AnyTool | ReadSkill | None:
        """Return the tool with exactly this name, even if the skill is disabled. A call of a disabled skill fails."""
        skill = await self._library.find(name)
        if skill is not None:
            return self._tool(skill)
        return self._reader(await self._texts()) if name == NAME else None

    async def page(self, after: str, limit: int) -> Sequence[Tool]:
        """Return the next listed skills, in the order of their names."""
        tools: list[Tool] = [*self._tools(await self._library.page(limit, after, listed=True))]
        if after < NAME and (len(tools) < limit or _by_name(tools[-1]) > NAME):
            tools = self._with_texts(tools, await self._texts())[:limit]
        return tools

    async def search(self, query: str, limit: int) -> Matches:
        """Return the listed skills nearest to a query, even if they fit poorly."""
        found = await self._library.search(query, limit, 0.0)
        matches = [
            Match(self._tool(one.skill), one.fit, one.evidence.terms if one.evidence is not None else {})
            for one in found
            if one.score > 0
        ]
        texts = await self._fitting(query)
        if (reader := self._reader(texts)) is not None:
            better = sum(one.fit >= texts[0].fit for one in matches)
            matches.insert(better, Match(reader, texts[0].fit))
        return Matches(tuple(matches[:limit]), self._library.gap, self._library.ranking)

    async def listed(self, name: str) -> Tool | None:
        """Return the listed skill with exactly this name."""
        tool = await self.find(name)
        if tool is None or isinstance(tool, ReadSkill):
            return tool
        return tool if tool.skill.state.listed else None

    async def names(self) -> Sequence[str]:
        """Return the names of all listed skills, sorted."""
        names = await self._library.names()
        return sorted({*names, NAME}) if await self._texts() else names

    async def _texts(self) -> tuple[InstructionHit, ...]:
        return () if self._instructions is None else await asyncio.to_thread(self._instructions.all)

    async def _fitting(self, query: str) -> tuple[InstructionHit, ...]:
        if self._instructions is None:
            return ()
        return await asyncio.to_thread(self._instructions.search, query, MOST_OFFERED, self._library.fits)

    def _reader(self, texts: Sequence[InstructionHit]) -> ReadSkill | None:
        return read_skill(self._library.instructions, texts) if texts else None

    def _with_texts(self, tools: Sequence[Tool], texts: Sequence[InstructionHit]) -> list[Tool]:
        """Add the tool that reads these instructions, if there are any, and sort the tools by name."""
        all_tools = list(tools)
        if (reader := self._reader(texts)) is not None and all(_by_name(tool) != NAME for tool in all_tools):
            insort(all_tools, reader, key=_by_name)
        return all_tools

    def _tools(self, skills: Iterable[Skill]) -> list[AnyTool]:
        return [self._tool(skill) for skill in skills]

    def _tool(self, skill: Skill) -> AnyTool:
        made = self._made.get(skill.name)
        if made is None or (made.skill is not skill and made.skill != skill):
            make = composed_tool if skill.kind is SkillKind.COMPOSED else skill_tool
            if len(self._made) >= _MOST_KEPT:
                self._made.clear()
            made = self._made[skill.name] = make(skill, self._library)
        return made


def _skill_name(skill: Skill) -> str:
    return skill.name
