"""Tools of one process are registered, disabled and deleted, whatever their source. (REG-1, REG-3, REG-8)"""

import pytest

from engine.contract.failure import ToolFailure, ToolNotFound
from engine.contract.spec import ToolSpec
from engine.registry.decorate import tool
from engine.registry.registry import Registry
from engine.registry.static import RegistryError, StaticSource
from engine.registry.tool_service import build_registry_from_tool_service
from tests.registry.parts import engine, published


def named(name, aliases=()):
    async def function() -> str:
        """Say its name."""
        return name

    return tool(name=name, aliases=aliases)(function)


def names(tools):
    return [each.spec.name for each in tools]


@pytest.mark.spec("REG-1")
async def test_register_rejects_every_taken_name_and_alias():
    registry = Registry([StaticSource("built in", [named("run", aliases=("go",))])])
    await registry.register(named("walk", aliases=("stroll",)))
    for name, aliases in [("run", ()), ("go", ()), ("x", ("run",)), ("x", ("go",)), ("stroll", ()), ("x", ("walk",))]:
        with pytest.raises(RegistryError, match="claimed"):
            await registry.register(named(name, aliases))
    with pytest.raises(RegistryError, match="claimed"):
        await registry.register(named("walk"))
    assert await registry.all_primary_names() == ["run", "walk"]
    assert registry.static.get("stroll") is await registry.get("walk")


@pytest.mark.spec("REG-1")
async def test_tools_are_listed_by_name_and_described_by_name_alias_or_id():
    registry = Registry([StaticSource("built in", [named("zeta"), named("beta", aliases=("b",))])])
    alpha = named("alpha")
    await registry.register(alpha)
    assert names(await registry.all_tools()) == ["alpha", "beta", "zeta"]
    assert await registry.get_metadata("b") is (await registry.get("beta")).spec
    service = Registry([StaticSource("s", [WithId()])])
    assert (await service.get_metadata("acme.convert")).name == "convert"
    with pytest.raises(ToolNotFound, match=r"no tool 'alpah'.*alpha"):
        await registry.get("alpah")
    with pytest.raises(ToolNotFound):
        await registry.get_metadata("alpah")


class WithId:
    spec = ToolSpec("convert", "Convert.", id="acme.convert")

    async def run(self, ctx, arguments):
        return None


@pytest.mark.spec("REG-1")
async def test_a_disabled_tool_is_neither_listed_nor_run_until_it_is_enabled():
    registry = Registry([StaticSource("built in", [named("run", aliases=("go",)), named("stay")])])
    assert await registry.disable("go")
    assert not await registry.disable("run")
    assert names(await registry.all_tools()) == ["stay"]
    assert names(await registry.all_tools(include_disabled=True)) == ["run", "stay"]
    with pytest.raises(ToolFailure, match="run is disabled"):
        await registry.execute("run", {}, None)
    assert await registry.enable("go")
    assert not await registry.enable("run")
    assert await registry.execute("run", {}, None) == "run"
    for change in (registry.disable, registry.enable, registry.delete):
        with pytest.raises(ToolNotFound):
            await change("nobody")


@pytest.mark.spec("REG-1")
async def test_delete_removes_only_registered_tools():
    registry = Registry([StaticSource("built in", [named("run")])])
    await registry.register(named("walk", aliases=("stroll",)))
    with pytest.raises(RegistryError, match="Disable it instead"):
        await registry.delete("run")
    await registry.disable("walk")
    await registry.delete("stroll")
    assert await registry.find("walk") is None
    assert registry.static.get("stroll") is None
    await registry.register(named("walk"))
    assert names(await registry.all_tools()) == ["run", "walk"]


@pytest.mark.spec("REG-1", "REG-8")
async def test_an_engine_neither_lists_nor_runs_a_disabled_tool_and_gives_the_reason(tmp_path):
    async with engine(tmp_path, sources=[StaticSource("mine", [named("run"), named("stay")])]) as one:
        await one.registry.register(named("walk"))
        assert (await one.call("walk", {})).output == "walk"
        await one.registry.disable("run")
        listed = await one.list_tools()
        assert names(listed.tools) == ["stay", "walk"]
        assert [(each.name, "disabled since" in each.reason) for each in listed.dropped if each.name == "run"] == [
            ("run", True)
        ]
        refused = await one.call("run", {})
        assert refused.failure is not None
        assert (refused.failure.reason, refused.audit.attempts) == ("disabled", 0)
        assert "registry enable run" in refused.error
        through_search = await one.call("execute_tool", {"name": "run", "tool_args": {}})
        assert through_search.failure is not None
        assert through_search.failure.reason == "disabled"
        async with engine(tmp_path, sources=[StaticSource("mine", [named("run")])]) as other:
            assert not (await other.call("run", {})).success
            await other.registry.enable("run")
            assert (await other.call("run", {})).success
        await one.registry.delete("walk")
        assert published(one) == [("upsert", "walk"), ("disable", "run"), ("upsert", "run"), ("delete", "walk")]


class Service:
    """A tool service like those of other frameworks."""

    def __init__(self, definitions, callables):
        self._definitions, self._callables = definitions, callables

    def definitions(self):
        return self._definitions

    def callables(self):
        return self._callables


def double(n):
    return 2 * n


async def greet(ctx, name="you"):
    return f"hello {name}"


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
FITTING = [
    {"type": "function", "function": {"name": "double", "description": "Twice.", "parameters": SCHEMA}},
    {"name": "greet", "description": "Greet.", "input_schema": {"type": "object", "properties": {"name": {}}}},
]


@pytest.mark.spec("REG-3")
async def test_a_registry_is_built_from_definitions_and_callables():
    registry = build_registry_from_tool_service(Service(FITTING, {"double": double, "greet": greet}), strict=True)
    assert registry.problems == ()
    assert await registry.execute("double", {"n": 4}, None) == 8
    assert await registry.execute("greet", {"name": "me"}, None) == "hello me"
    assert (await registry.get_metadata("double")).parameters == SCHEMA


@pytest.mark.spec("REG-3")
@pytest.mark.parametrize(
    ("definitions", "callables", "problem"),
    [
        (FITTING, {"double": double}, "'greet' is defined, but the service has no callable"),
        (FITTING, {"double": double, "greet": greet, "extra": greet}, "'extra' of the service has no definition"),
        ([*FITTING, {"description": "?"}], {"double": double, "greet": greet}, "has no name"),
        (
            FITTING,
            {"double": greet, "greet": greet},
            "double: its parameters include n, which its function does not accept",
        ),
        (FITTING, {"double": 7, "greet": greet}, "neither a tool nor a function"),
        ([{"name": "double", "parameters": 7}], {}, "not a JSON Schema"),
    ],
)
async def test_mismatched_definitions_are_an_error_if_strict_and_otherwise_reported(definitions, callables, problem):
    with pytest.raises(RegistryError) as raised:
        build_registry_from_tool_service(Service(definitions, callables), strict=True)
    registry = build_registry_from_tool_service(Service(definitions, callables))
    assert any(problem in each for each in registry.problems)
    assert str(raised.value) in registry.problems
    for name in await registry.all_primary_names():  # the others work
        assert await registry.execute(name, {"n": 1} if name == "double" else {}, None)
