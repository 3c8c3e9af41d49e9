"""All pages together equal the list, and look-ups and searches read no more tools than necessary."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from engine.contract.allowed import Allowed
from engine.contract.source import Match, Matches, Tool
from engine.contract.spec import Origin, ToolSpec
from engine.contract.turn import Turn
from engine.registry.static import StaticSource
from engine.stores.embedder import WordLlamaEmbedder
from engine.turn.assembly import Assembly
from engine.turn.discovery import Discovery
from engine.turn.look_up import LookUp
from engine.turn.paging import tool_page, tool_pages

SKILLS = ("add_one", "bake_bread", "convert_money", "echo", "find_words", "greet")


@dataclass(frozen=True, eq=False)
class Named:
    spec: ToolSpec

    async def run(self, ctx: Any, arguments: Any) -> str:
        return self.spec.name


@dataclass
class Pages:
    """A paged source of skills. `given` records the page sizes. `echo` shadows a static tool, `greet` is composed."""

    name: str = "skills"
    skills: Sequence[str] = SKILLS
    given: list[int] = field(default_factory=list)
    gap: str = ""

    def _tool(self, name: str) -> Tool:
        origin = Origin.COMPOSED if name == "greet" else Origin.ACQUIRED
        permission = "admin" if name == "find_words" else "user"
        return Named(ToolSpec(name, f"Does {name}.", origin=origin, required_permission=permission))  # type: ignore[arg-type]

    def _give(self, names: Sequence[str]) -> list[Tool]:
        self.given.append(len(names))
        return [self._tool(name) for name in names]

    async def tools(self, turn: Turn) -> Sequence[Tool]:
        return self._give(self.skills if turn.query is None else self.skills[:1])

    async def find(self, name: str) -> Tool | None:
        return await self.listed(name)

    async def page(self, after: str, limit: int) -> Sequence[Tool]:
        return self._give([name for name in self.skills if name > after][:limit])

    async def search(self, query: str, limit: int) -> Matches:
        found = self._give(self.skills[:limit])
        return Matches(tuple(Match(tool, 0.9 - number / 10) for number, tool in enumerate(found)), self.gap)

    async def listed(self, name: str) -> Tool | None:
        return self._give([name])[0] if name in self.skills else None

    async def names(self) -> Sequence[str]:
        return self.skills


STATIC = StaticSource("static", [Named(ToolSpec("echo", "Says it again.")), Named(ToolSpec("zip", "Packs files."))])
USER = Turn(permission="user")


def names(tools: Sequence[Tool]) -> list[str]:
    return [tool.spec.name for tool in tools]


@pytest.mark.spec("LIST-9")
@pytest.mark.parametrize("limit", [1, 2, 3, 6, 7])
@pytest.mark.parametrize("turn", [Turn(), USER, Turn(allowed=Allowed.of(["zip", "greet"]))])
async def test_all_pages_together_equal_the_list_and_none_exceeds_the_limit(limit: int, turn: Turn) -> None:
    assembly, skills = Assembly(), Pages()
    whole = await assembly.active_list([STATIC, skills], turn)
    skills.given.clear()
    parts = [part async for part in tool_pages(assembly, [STATIC, skills], turn, limit)]
    assert sorted(name for part in parts for name in names(part.tools)) == sorted(names(whole.tools))
    assert sorted(each.name for part in parts for each in part.dropped) == sorted(each.name for each in whole.dropped)
    assert max(skills.given) <= limit
    static = [tool for tool in whole.tools if tool.spec.origin is Origin.STATIC]
    assert list(parts[0].tools[: len(static)]) == static
    if limit > len(SKILLS):
        assert [(names(part.tools), part.dropped) for part in parts] == [(names(whole.tools), whole.dropped)]


@pytest.mark.spec("LIST-9")
async def test_pages_of_two_sources_omit_nothing() -> None:
    sources = [STATIC, Pages(skills=("add_one", "find_words")), Pages("more", ("bake_bread", "greet"))]
    parts = [names(part.tools) async for part in tool_pages(Assembly(), sources, Turn(), 2)]
    assert parts == [["echo", "zip", "add_one", "bake_bread"], ["find_words", "greet"]]


@pytest.mark.spec("LIST-9")
async def test_a_turn_with_a_query_has_one_page() -> None:
    page = await tool_page(Assembly(), [STATIC, Pages()], Turn(query="add"), limit=1)
    assert (names(page.listed.tools), page.next) == (["echo", "zip", "add_one"], "")


@pytest.mark.spec("DISC-1")
async def test_a_look_up_reads_only_the_requested_tools() -> None:
    skills = Pages()
    look_up = LookUp(Assembly(), lambda: [STATIC, skills])
    assert set(await look_up.specs(USER, {"add_one", "zip", "find_words", "nothing"})) == {"add_one", "zip"}
    assert sum(skills.given) == 2
    assert await look_up.nearest(USER, "find_word") != []
    assert "find_words" not in await look_up.nearest(USER, "find_word")
    assert (await look_up.nearest(Turn(), "find_word"))[0] == "find_words"


@pytest.mark.spec("DISC-1")
async def test_a_search_reads_only_its_results_and_reports_what_it_could_not_search() -> None:
    skills = Pages(gap="7 skills are not in the index yet")
    discovery = Discovery(lambda: [STATIC, skills], Assembly(), WordLlamaEmbedder)
    found = await discovery.search("zip packs files", USER, 3)
    assert [spec.name for spec in found.specs] == ["zip", "add_one", "bake_bread"]
    assert (found.gap, max(skills.given)) == ("7 skills are not in the index yet", 3)


@pytest.mark.spec("DISC-1")
async def test_a_search_continues_until_it_has_enough_callable_results() -> None:
    discovery = Discovery(lambda: [STATIC, Pages()], Assembly(), WordLlamaEmbedder)
    found = await discovery.search("anything", Turn(allowed=Allowed.of(["find_words"])), 1)
    assert [spec.name for spec in found.specs] == ["find_words"]


@pytest.mark.spec("DISC-1")
async def test_without_a_query_tools_are_listed_page_by_page() -> None:
    many = Pages(skills=tuple(f"skill_{number:03}" for number in range(250)))
    discovery = Discovery(lambda: [STATIC, many], Assembly(), WordLlamaEmbedder)
    found, after, pages = [], "", 0
    while pages == 0 or after:
        page = await discovery.page(USER, after)
        found += [spec.name for spec in page.specs]
        after, pages = page.next, pages + 1
    assert found == ["echo", *many.skills[:100], "zip", *many.skills[100:]]
    assert (pages, max(many.given)) == (3, 100)
