"""The registry finds tools by name in several sources."""

import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.contract.failure import ConfigError, ToolNotFound
from engine.contract.spec import Tag
from engine.registry.decorate import tool
from engine.registry.nearest import nearest
from engine.registry.registry import Registry
from engine.registry.static import RegistryError, StaticSource


def named(name, aliases=()):
    async def function() -> str:
        """Say its name."""
        return name

    return tool(name=name, aliases=aliases)(function)


class Changing:
    """A source whose tools change, like skills."""

    def __init__(self, *tools):
        self.name = "skills"
        self.offered = list(tools)

    async def tools(self, turn):
        return self.offered

    async def find(self, name):
        return next((each for each in self.offered if each.spec.name == name), None)


@pytest.mark.spec("LIST-5")
def test_two_static_tools_never_share_a_name_or_an_alias():
    with pytest.raises(RegistryError, match=r"'go' is claimed by the tools 'a' and 'go'"):
        StaticSource("one", [named("a", aliases=("go",)), named("go")])
    with pytest.raises(RegistryError, match=r"'go' is claimed by the sources 'one' and 'two'"):
        Registry([StaticSource("one", [named("go")]), StaticSource("two", [named("b", aliases=("go",))])])
    with pytest.raises(ConfigError, match="Two tool sources have the name 'one'"):
        Registry([StaticSource("one", []), StaticSource("one", [])])


@pytest.mark.spec("LIST-5")
async def test_a_static_tool_takes_precedence_over_an_acquired_one_with_its_name_or_alias():
    own, alias, free = named("execute", aliases=("run",)), named("run"), named("free")
    registry = Registry([Changing(named("execute"), alias, free), StaticSource("built-in", [own])])
    assert await registry.find("execute") is own
    assert await registry.find("run") is own
    assert await registry.find("free") is free
    assert await registry.find("none") is None
    assert registry.static_names() == {"execute", "run"}
    assert [each.spec.name for each in await registry.all_tools()] == ["execute", "free"]


async def test_a_source_without_dotted_names_is_not_searched_for_a_dotted_name():
    class Undotted(Changing):
        undotted = True

        async def find(self, name):
            assert "." not in name
            return await super().find(name)

    tool_here = named("read")
    remote = replace(tool_here, spec=replace(tool_here.spec, name="mail.read"))
    plain, dotted = Undotted(named("a")), Changing(remote)
    dotted.name = "modules"
    registry = Registry([plain, dotted])
    assert (await registry.find("mail.read")).spec.name == "mail.read"
    assert (await registry.find("a")).spec.name == "a"
    assert await registry.find("mail.write") is None


@pytest.mark.spec("LIST-1")
async def test_all_tools_are_sorted_by_name():
    registry = Registry([StaticSource("s", [named("c"), named("a")]), Changing(named("b"))])
    assert [each.spec.name for each in await registry.all_tools()] == ["a", "b", "c"]
    assert list(registry.static_specs()) == ["a", "c"]


@pytest.mark.spec("CALL-4")
async def test_registry_execute_raises_for_an_unknown_name_and_suggests_similar_ones():
    registry = Registry([StaticSource("s", [named("execute"), named("scratchpad")])])
    assert await registry.execute("execute", {}, None) == "execute"
    with pytest.raises(ToolNotFound, match=r"no tool 'exekute'. Nearest: execute"):
        await registry.execute("exekute", {}, None)


@pytest.mark.spec("CALL-4")
async def test_a_failing_source_does_not_prevent_suggestions_from_other_sources(caplog):
    class Down(Changing):
        async def tools(self, turn):
            raise ConnectionRefusedError("down")

    registry = Registry([Down(), StaticSource("s", [named("execute")])])
    assert await registry.nearest("exec") == ["execute"]
    assert "failed to list its names" in caplog.text


@pytest.mark.spec("CALL-4")
@given(st.text(max_size=40), st.sets(st.text(max_size=40), max_size=20))
def test_up_to_three_similar_names_are_suggested_with_an_exact_match_first(name, names):
    found = nearest(name, names)
    assert len(found) == len(set(found)) == min(3, len(names))
    assert set(found) <= names
    if name in names:
        assert found[0].lower() == name.lower()


@pytest.mark.spec("CALL-4")
def test_similar_names_among_many_are_found_with_bounded_work():
    names = [f"skill_{number}_{number % 7}" for number in range(20_000)] + ["roman_numeral"]
    before = time.process_time()
    assert nearest("roman_numerals", names)[0] == "roman_numeral"
    assert time.process_time() - before < 5


@pytest.mark.spec("REG-1", "TAG-1")
async def test_a_tool_with_an_invalid_or_taken_tag_is_not_registered():
    def tagged(name, tag):
        made = named(name)
        return replace(made, spec=replace(made.spec, parameters={"properties": {"text": {}}}, tag=tag))

    registry = Registry([StaticSource("mine", [tagged("first", Tag("FIRST", arg_groups=("text",)))])])
    for tag in (Tag("X", arg_pattern="("), Tag("a:b"), Tag("X", arg_groups=()), Tag("FIRST", arg_groups=("text",))):
        with pytest.raises(RegistryError, match="second"):
            await registry.register(tagged("second", tag))
    await registry.register(tagged("second", Tag("SECOND", arg_groups=("text",))))
    assert await registry.all_primary_names() == ["first", "second"]
