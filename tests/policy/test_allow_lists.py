"""Allow-lists: the shipped ones, the format of the file, and that they apply to lists and calls alike."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from builtin_tools.pack import TOOLS
from engine import Engine
from engine.app.settings import Settings
from engine.contract.allowed import Allowed, Selection
from engine.contract.failure import ConfigError, UnknownName
from engine.contract.spec import Annotations, Origin, ToolSpec
from engine.contract.turn import Turn
from engine.policy.allow_lists import SHIPPED, AllowLists, refuse_cycles
from engine.policy.allow_lists_file import read_allow_lists
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.interfaces.cli import here

pytestmark = pytest.mark.spec("ACCESS-3")

BUILT_IN = {each.spec.name: each.spec for each in TOOLS}
EXPLORE = AllowLists(Path("/nowhere"), lambda: BUILT_IN).resolve_allow_list("explore")
SHIPPED_NAMES = {
    *("code_gen", "general_purpose", "supervisor", "execute", "explore"),
    *("integration_jira", "integration_github", "integration_confluence", "integration_linear"),
}


def spec(name: str, **fields: Any) -> ToolSpec:
    return ToolSpec(name, "Does.", **fields)


def lists(tmp_path: Path, text: str = "", specs: Any = BUILT_IN, **options: Any) -> AllowLists:
    own = tmp_path / "allow_lists.yaml"
    if text:
        own.write_text(text)
    return AllowLists(own, lambda: specs, **options)


def names(allowed: Allowed, *more: ToolSpec) -> set[str]:
    return {each.name for each in (*BUILT_IN.values(), *more) if allowed.permits(each)}


def test_the_shipped_lists_select_the_right_built_in_tools() -> None:
    shipped = read_allow_lists(SHIPPED, BUILT_IN)  # strict
    refuse_cycles(shipped)
    assert set(shipped) == SHIPPED_NAMES


def test_the_execute_list_is_code_gen_without_todo_and_requirement_tools(tmp_path: Path) -> None:
    more = (spec("todo_write", category="todo"), spec("add_requirement", category="requirement"))
    found = lists(tmp_path)
    code_gen = names(found.resolve_allow_list("code_gen"), *more)
    assert {"execute", "create_skill", "file_system", "todo_write", "add_requirement"} <= code_gen
    assert names(found.resolve_allow_list("execute"), *more) == code_gen - {"todo_write", "add_requirement"}


@pytest.mark.parametrize(
    ("category", "holding"),
    [
        ("requirement", {"code_gen", "general_purpose", "supervisor"}),
        ("code_changes", {"code_gen", "execute", "general_purpose"}),
        ("terminal", {"code_gen", "execute", "general_purpose"}),
        ("search", {"code_gen", "execute", "general_purpose", "supervisor", "explore"}),
        ("fetch", {"general_purpose", "supervisor"}),
        ("web", {"general_purpose", "supervisor"}),
        ("integration_jira", {"general_purpose", "integration_jira"}),
        ("integration_linear", {"general_purpose", "integration_linear"}),
    ],
)
def test_the_shipped_lists_use_the_categories_of_common_packs(tmp_path: Path, category: str, holding: set[str]) -> None:
    found, one = lists(tmp_path), spec("new_tool", category=category)  # its annotations follow from the category
    assert {name for name in SHIPPED_NAMES if found.resolve_allow_list(name).permits(one)} == holding
    if category in {"fetch", "web"} or category.startswith("integration_"):  # these leave the machine
        local = {name for name in SHIPPED_NAMES if found.resolve_allow_list(name, local_mode=True).permits(one)}
        assert local == set()


def test_a_supervisor_can_neither_use_nor_create_a_terminal_of_any_category(tmp_path: Path) -> None:
    supervisor = lists(tmp_path).resolve_allow_list("supervisor")
    assert not {"execute", "kernels", "create_skill"} & names(supervisor)
    assert "scratchpad" in names(supervisor)
    assert not supervisor.permits(spec("ssh", category="system", side_effects=("code_execution",)))
    assert not supervisor.permits(spec("shell", category="shell"))
    assert not supervisor.permits(spec("shell", category="terminal"))


@given(
    category=some.sampled_from(["files", "execution", "control", "new"]),
    read_only=some.booleans(),
    destructive=some.booleans(),
    origin=some.sampled_from(Origin),
    name=some.sampled_from(["new", "file_system", "jira.search"]),
)
def test_the_explore_list_contains_only_tools_declared_read_only(
    category: str, read_only: bool, destructive: bool, origin: Origin, name: str
) -> None:
    hints = Annotations(read_only=read_only, destructive=destructive)
    held = EXPLORE.permits(spec(name, category=category, annotations=hints, origin=origin))
    assert held == (read_only and origin is Origin.STATIC and "." not in name)


def test_local_mode_excludes_external_services_and_embedding_tools_are_optional(tmp_path: Path) -> None:
    found = lists(tmp_path)
    jira = spec("jira.search")
    assert found.resolve_allow_list("integration_jira").permits(jira)
    assert not found.resolve_allow_list("integration_jira").permits(spec("github.search"))
    assert not found.resolve_allow_list("integration_jira", local_mode=True).permits(jira)
    assert "image_generation" not in names(found.resolve_allow_list("general_purpose", local_mode=True))
    recall = spec("recall", category="knowledge")
    assert found.resolve_allow_list("code_gen").permits(recall)
    assert not found.resolve_allow_list("code_gen", embedding_ok=False).permits(recall)


def test_skills_and_modules_are_listed_separately_and_cannot_claim_a_category(tmp_path: Path) -> None:
    text = 'lists: {mine: {categories: [files], skills: ["report_*"], modules: ["crm.read_*"]}}'
    mine = lists(tmp_path, text).resolve_allow_list("mine")
    assert mine.permits(spec("report_sales", origin=Origin.ACQUIRED))
    assert mine.permits(spec("report_all", origin=Origin.COMPOSED))
    assert not mine.permits(spec("report_disk", origin=Origin.STATIC))
    assert not mine.permits(spec("file_system", origin=Origin.ACQUIRED, category="files"))
    assert not mine.permits(spec("crm.write", category="files"))
    assert mine.permits(spec("crm.read_all"))


def test_names_and_globs_of_an_agent_match_tools_of_any_kind() -> None:
    allowed = Allowed.of(["execute", "weather.*", "report_?"])
    assert allowed.permits(spec("execute"))
    assert allowed.permits(spec("weather.today"))
    assert allowed.permits(spec("report_1", origin=Origin.ACQUIRED))
    assert not allowed.permits(spec("report_12"))
    assert not Allowed.of([]).permits(spec("execute"))


@given(some.lists(some.sampled_from(["a", "b", "c*", "*"])), some.lists(some.sampled_from(["a", "b", "ca", "*"])))
def test_a_ceiling_permits_only_tools_that_both_sides_permit(one: list[str], other: list[str]) -> None:
    first, second = Allowed.of(one), Allowed.of(other)
    both = first.within(second)
    for name in ("a", "b", "ca", "d"):
        assert both.permits(spec(name)) == (first.permits(spec(name)) and second.permits(spec(name)))
    assert both.within(second) is both


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("lists: {a: {tools: [execut]}}", "1:21", "unknown tool 'execut' (did you mean 'execute'?)"),
        ("lists:\n  a:\n    categories: [filez]", "3:18", "unknown category 'filez'"),
        ("lists: {a: {exclude: {tools: [nothing_like_it]}}}", "1:31", "unknown tool"),
        ("lists: {a: {without_effects: [code_exection]}}", "1:31", "did you mean 'code_execution'"),
        ("lists: {a: {tool: [execute]}}", "1:13", "unknown field 'tool'"),
        ("lists: {a: {tools: execute}}", "1:20", "lists.a.tools must be a list, such as [one, two], not 'execute'"),
        ("lists: {a: {tools: [1]}}", "1:21", "lists.a.tools[0] must be a string, not 1"),
        ("lists: {a: {tools: [jira.search]}}", "1:21", "under `modules`"),
        ("lists: {a: {read_only: yes please}}", "1:24", "must be true or false, not 'yes please'"),
        ("lists: {a: {include: [b]}}", "1:23", "no list 'b'"),
        ("lists: {a: {include: [b]}, b: {include: [a]}}", "1:42", "a -> b -> a"),
        ("lists: {explore: {include: [explore]}}", "1:29", "explore -> explore"),
        ("lists: [a]", "1:8", "lists must be a mapping, not a list"),
        ("lists: {a: [b]}", "1:12", "lists.a must be a mapping with the fields: tools, categories, "),
        ("lists: {a: {tools: ['']}}", "1:21", "must be a string that is not empty"),
        ("lists: {a: {tools: [execute]}, 3: {}}", "1:32", "3 is not a name; put it in quotes"),
        ("lists:\n  a: {skills: 1}\n  b: {tool: [x]}", "2:15", "lists.a.skills must be a list"),
        ("lists:\n  a: {<<: &b {tools: [excute]}, skills: []}", "2:23", "unknown tool 'excute'"),
        ("lists: {a: {}", "1:14", "not valid YAML"),
        ("lists: {a: {}, a: {}}", "1:16", "not valid YAML"),
        ("optional: {tool: [x]}", "1:12", "unknown field 'tool'"),
    ],
)
def test_a_mistake_in_the_operators_file_is_an_error_with_its_position(
    tmp_path: Path, text: str, place: str, said: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        lists(tmp_path, text)
    assert f"allow_lists.yaml:{place}: " in str(raised.value)
    assert said in str(raised.value)


FRAGMENTS = ["lists", "optional", "mine", ":", ": ", " ", "\n", "  ", "- ", "tools", "exclude", "include", "read_only"]
FRAGMENTS += ["execute", "{", "}", "[", "]", ", ", "&a ", "*a", "<<", "!!x ", "? ", "| ", "#", "'", '"', "\t", "%", "1"]


@given(some.lists(some.sampled_from(FRAGMENTS), max_size=40).map("".join))
@settings(max_examples=40)
def test_any_file_is_either_read_or_rejected_in_one_line(tmp_path_factory: Any, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzzed_lists.yaml"
    for whole in (text, f"lists:\n  mine:\n    {text}", f"lists: {{mine: {{{text}}}}}"):
        path.write_text(whole)
        said = ""
        try:
            refuse_cycles(read_allow_lists(path, BUILT_IN))
        except ConfigError as error:
            said = str(error)
        assert not said or said.startswith(f"{path}:")
        assert "\n" not in said


def test_names_from_a_missing_pack_may_be_optional_or_only_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    optional = "optional: {tools: [todo_write]}\nlists: {a: {tools: [todo_write]}}"
    assert lists(tmp_path, optional).resolve_allow_list("a").permits(spec("todo_write"))
    lenient = lists(tmp_path, "lists: {a: {tools: [todo_wrote]}}", strict=False)
    assert "allow_lists.yaml:1:21: unknown tool 'todo_wrote'" in caplog.text
    assert not lenient.resolve_allow_list("a").permits(spec("todo_write"))


def test_the_operators_file_adds_and_overrides_lists_and_is_reloaded_after_an_edit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = lists(tmp_path, "lists: {code_gen: {tools: [replan]}}")
    first = found.resolve_allow_list("execute")
    assert names(first) == {"replan"}  # it includes code_gen
    assert found.resolve_allow_list("execute") is first
    own = tmp_path / "allow_lists.yaml"
    own.write_text("lists: {code_gen: {tools: [replan, execute]}}")
    assert names(found.resolve_allow_list("execute")) == {"replan", "execute"}
    own.write_text("lists: {code_gen: {tools: [replan, excute, scratchpad]}}")
    assert names(found.resolve_allow_list("execute")) == {"replan", "execute"}
    assert "did you mean 'execute'" in found.problem
    assert caplog.text.count("stay in use") == 1
    own.unlink()
    assert "file_system" in names(found.resolve_allow_list("execute"))
    assert found.problem == ""


def test_the_shipped_lists_apply_if_the_operators_file_is_invalid_from_the_start(tmp_path: Path) -> None:
    found = AllowLists(tmp_path / "allow_lists.yaml", lambda: BUILT_IN)
    (tmp_path / "allow_lists.yaml").write_text("lists: {mine: {tools: [excute]}}")
    assert "file_system" in names(found.resolve_allow_list("execute"))
    assert "did you mean 'execute'" in found.problem
    with pytest.raises(UnknownName, match="no allow-list 'mine'"):
        found.resolve_allow_list("mine")


def test_an_unknown_list_is_an_error_that_suggests_similar_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no allow-list 'explor'. Nearest: explore"):
        lists(tmp_path).resolve_allow_list("explor")


def test_categories_are_resolved_to_their_tools(tmp_path: Path) -> None:
    found = lists(tmp_path)
    assert found.resolve_categories(["execution", "control"]) == {"execute", "kernels", "replan", "abort_attempt"}
    assert found.resolve_categories(["*"]) == set(BUILT_IN)
    assert found.resolve_categories(["none"]) == frozenset()


@tool(category="notes", annotations=Annotations(read_only=True))
async def read_note() -> str:
    """Read the note."""
    return "milk"


@tool(category="notes")
async def write_note() -> str:
    """Write the note."""
    return "written"


@tool(defer_loading=True, category="notes", annotations=Annotations(read_only=True))
async def read_archive() -> str:
    """Read the archive of old notes."""
    return "old"


NOTES = StaticSource("notes", [read_note, write_note, read_archive])


class Learning:
    """A source that learns a skill during a turn."""

    name = "learning"

    def __init__(self) -> None:
        self.known: list[Any] = []

    async def tools(self, turn: Turn) -> list[Any]:
        return list(self.known)

    async def find(self, name: str) -> Any:
        return next((each for each in self.known if each.spec.name == name), None)

    def learn(self, name: str) -> None:
        self.known.append(replace(read_note, spec=replace(read_note.spec, name=name, origin=Origin.ACQUIRED)))


@pytest.mark.spec("ACCESS-4")
async def test_an_agent_gets_the_tools_of_its_list_and_can_call_no_others(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, sources=[NOTES], packs=False, environ={}) as engine:
        given = await engine.get_tools_for_agent("explore", log_tool_annotations=False)
        assert [each.name for each in given.specs] == ["read_archive", "read_note"] == list(given.tools)
        assert (await given.tools["read_note"]()).output == "milk"
        assert given.turn.log_tool_annotations is False
        denied = await engine.call("write_note", {}, given.turn)
        assert denied.failure is not None
        assert (denied.failure.reason, denied.audit.end) == ("denied", "refused")
        assert ("write_note", "it is not on this agent's allow-list") in [
            (each.name, each.reason) for each in given.listed.dropped
        ]
        short = await engine.get_tools_for_agent("explore", include_deferred_tools=False)
        assert list(short.tools) == ["read_note"]
        with pytest.raises(ConfigError, match="no allow-list"):
            await engine.get_tools_for_agent("exploring")


@pytest.mark.spec("ACCESS-4", "DISC-1")
async def test_discovery_finds_and_executes_only_tools_that_the_agents_list_permits(tmp_path: Path) -> None:
    async with Engine.open(tmp_path, sources=[NOTES], packs=False, environ={}) as engine:
        given = await engine.get_discovery_tools_for_agent("explore")
        assert list(given.tools) == ["describe_tool", "execute_tool", "search_tools"]
        found = await given.tools["search_tools"]()
        assert [each["name"] for each in found.output] == ["read_archive", "read_note"]
        assert (await given.tools["execute_tool"](name="read_archive", tool_args={})).output == "old"
        denied = await given.tools["execute_tool"](name="write_note", tool_args={})
        assert denied.failure is not None
        assert denied.failure.reason == "denied"
        assert not (await given.tools["describe_tool"](name="write_note")).success


@pytest.mark.spec("ACCESS-4", "ACCESS-2")
async def test_a_user_gets_the_tools_that_modules_and_permission_allow(tmp_path: Path) -> None:
    module = replace(read_note, spec=replace(read_note.spec, name="mail.read"))
    admin = replace(write_note, spec=replace(write_note.spec, name="wipe", required_permission="admin"))
    sources = [NOTES, StaticSource("more", [module, admin])]
    async with Engine.open(tmp_path, sources=sources, packs=False, environ={}) as engine:
        usual = ["read_archive", "read_note", "write_note"]
        assert list((await engine.get_tools_for_user("user", [])).tools) == usual
        assert list((await engine.get_tools_for_user("user", ["mail"])).tools) == ["mail.read", *usual]
        assert "wipe" in (await engine.get_tools_for_user("admin")).tools


async def test_a_list_also_applies_to_a_skill_learned_during_the_turn(tmp_path: Path) -> None:
    (tmp_path / "allow_lists.yaml").write_text('lists: {mine: {skills: ["good_*"]}}')
    learning = Learning()
    async with Engine.open(tmp_path, sources=[NOTES, learning], packs=False, environ={}) as engine:
        given = await engine.get_tools_for_agent("mine")
        assert not given.tools
        learning.learn("good_one")
        learning.learn("bad_one")
        assert (await engine.call("good_one", {}, given.turn)).success
        denied = await engine.call("bad_one", {}, given.turn)
        assert denied.failure is not None
        assert denied.failure.reason == "denied"
        again = await engine.list_tools(given.turn)
        assert [each.spec.name for each in again.tools] == ["good_one"]


async def test_the_configured_list_limits_every_turn_even_after_an_edit_removes_it(tmp_path: Path) -> None:
    configured = Settings.model_validate({"access": {"allow_list": "mine"}})
    own = tmp_path / "allow_lists.yaml"
    own.write_text("lists: {mine: {tools: [read_note]}}")
    async with Engine.open(tmp_path, settings=configured, sources=[NOTES], packs=False, environ={}) as engine:
        for turn in (None, Turn(), Turn(allowed=Allowed.of(["*"])), Turn(allowed=engine.resolve_allow_list("explore"))):
            assert not (await engine.call("write_note", {}, turn)).success
            assert (await engine.call("read_note", {}, turn)).success
        assert not (await engine.call("read_note", {}, Turn(allowed=Allowed.of(["write_note"])))).success
        own.write_text("lists: {}")
        assert not (await engine.call("write_note", {})).success
        own.unlink()
        assert not (await engine.call("write_note", {})).success
    with pytest.raises(ConfigError, match="no allow-list 'mine'"):
        async with Engine.open(tmp_path, settings=configured, packs=False, environ={}):
            pass


def test_an_empty_selection_contains_no_tool() -> None:
    assert not Selection().holds(spec("execute"))
    assert not Allowed().permits(spec("execute"))


def test_local_mode_can_be_configured(tmp_path: Path) -> None:
    async def permitted() -> bool:
        configured = Settings.model_validate({"access": {"local_mode": True}})
        async with Engine.open(tmp_path, settings=configured, packs=False, environ={}) as engine:
            jira = spec("jira.search")
            assert engine.resolve_allow_list("integration_jira", local_mode=False).permits(jira)
            assert "search_tools" in engine.resolve_categories(["discovery"])
            return engine.resolve_allow_list("integration_jira").permits(jira)

    assert not asyncio.run(permitted())


@pytest.mark.slow
@pytest.mark.spec("ACCESS-4")
def test_the_command_line_can_list_and_call_as_an_agent_or_a_user(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = ("--home", str(tmp_path))
    listed = here(capfd, *home, "tools", "--allow-list", "explore", "--json").last["tools"]
    names = [each["name"] for each in listed]
    reading = ["fact_check", "fetch_page", "list_lessons", "recall", "replan", "system_utility", "web_search"]
    assert names == ["abort_attempt", *reading]
    execute = ("call", "execute", "--args", '{"language": "python", "code": "6 * 7"}')
    denied = here(capfd, *home, *execute, "--allow-list", "explore")
    assert (denied.code, "not on this agent's allow-list" in denied.err) == (1, True)
    assert here(capfd, *home, *execute, "--allow-list", "execute").out == "42\n"
    unknown = here(capfd, *home, "tools", "--allow-list", "explor")
    assert (unknown.code, unknown.err.count("\n"), "Nearest: explore" in unknown.err) == (2, 1, True)
    assert here(capfd, *home, "tools", "--permission", "guest", "--json").last["tools"]
    assert here(capfd, *home, "tools", "--permission", "root").code == 2
