"""`SkillSource`: the acquired skills as a source of tools (LIST-3, LIST-4)."""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from acquired_skills.composed.tool import ComposedTool, composed_tool
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import Skill, SkillKind
from acquired_skills.tools.skill_tool import SkillTool, skill_tool
from engine.contract.source import Match, Matches, NoTools, Tool
from engine.contract.turn import Turn

_MOST_KEPT = 5_000  # cached tools, to bound memory
AnyTool: TypeAlias = SkillTool | ComposedTool


class SkillSource:
    """With a query, the skills that retrieval finds; without one, every listed skill. Always sorted by name."""

    name = "skills"

    def __init__(self, library: SkillLibrary) -> None:
        self._library = library
        self._made: dict[str, AnyTool] = {}
        self._listed: tuple[Sequence[Skill], tuple[AnyTool, ...]] = ((), ())

    async def tools(self, turn: Turn) -> Sequence[Tool]:
        """Return the tools for this turn, after taking over changes of other processes."""
        if turn.query and turn.query.strip():
            found = await self._library.search(turn.query)
            tools = self._tools(sorted((one.skill for one in found), key=lambda skill: skill.name))
            if self._library.gap:
                return NoTools.because("acquired skills", self._library.gap, tools)
            if not found and (there := await self._library.count(listed=True)):
                why = f"nothing fits: none of the {there} is likely to be of use for this query ([skills] fits)"
                return NoTools.because("acquired skills", why)
            return tools
        listed = await self._library.listed()
        if self._listed[0] is not listed:
            self._listed = (listed, tuple(self._tools(listed)))
        return self._listed[1]

    async def find(self, name: str) -> AnyTool | None:
        """Return the skill with exactly this name, even a disabled one, whose call reports that."""
        skill = await self._library.find(name)
        return None if skill is None else self._tool(skill)

    async def page(self, after: str, limit: int) -> Sequence[Tool]:
        """The next listed skills by name."""
        return self._tools(await self._library.page(limit, after, listed=True))

    async def search(self, query: str, limit: int) -> Matches:
        """The listed skills nearest to a query, however little they fit."""
        found = await self._library.search(query, limit, 0.0)
        matches = tuple(Match(self._tool(one.skill), one.fit) for one in found if one.score > 0)
        return Matches(matches, self._library.gap)

    async def listed(self, name: str) -> Tool | None:
        """The listed skill of exactly this name."""
        tool = await self.find(name)
        return tool if tool is not None and tool.skill.state.listed else None

    async def names(self) -> Sequence[str]:
        """The names of all listed skills, sorted."""
        return await self._library.names()

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
