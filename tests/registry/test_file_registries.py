"""Tools, prompts and agents in files of the home, for every process on it. (REG-5, REG-7, REG-8)"""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.app.turns import turn_of
from engine.contract.agent import AgentSpec, PolicyOverrides
from engine.contract.allowed import Allowed
from engine.contract.prompt import PromptSpec
from engine.contract.spec import Annotations, Tag, ToolSpec
from engine.contract.turn import Turn
from engine.registry.decorate import tool
from engine.registry.envelope import read_tool, write_tool
from engine.registry.file_registry import Corrupt, parse
from engine.registry.static import RegistryError, StaticSource
from tests.eventually import eventually
from tests.registry.parts import HERE, adder, engine, on_disk, published

ENVELOPE = {
    "spec_id",
    "version",
    "caps_required",
    "params_schema",
    "side_effects",
    "safety_class",
    "timeout_ms",
    "idempotency_key_fields",
    "adapter_path",
    "meta",
}


def listed(found):
    return [each.spec.name for each in found.tools]


@pytest.mark.spec("REG-5", "REG-8")
async def test_a_registered_item_is_stored_published_and_loaded_at_the_next_start(tmp_path):
    prompt = PromptSpec("hi", "Hello {name}", ("name",), locale="en", tags=("greeting",), desc="Greets.")
    agent = AgentSpec("careful", "Careful", allowed_tools=("add",), memory_spaces=("notes/*",), caps=("sums",))
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder(category="search", owner="somebody"))
        await one.registries.register_prompt(prompt)
        await one.registries.register_agent(agent)
        assert [published(one, subject) for subject in ("tools", "prompts", "agents")] == [
            [("upsert", "add")],
            [("upsert", "hi")],
            [("upsert", "careful")],
        ]
        payload = dict(one.events.read()[0].payload)
        assert payload.pop("ts")
        assert payload == {
            "type": "REGISTRY_UPDATED",
            "space_id": "default",
            "subject": "tools",
            "event": "upsert",
            "item_id": "add",
        }
    assert on_disk(tmp_path)["items"]["add"].keys() == ENVELOPE
    async with engine(tmp_path) as one:
        assert (await one.call("add", {"a": 1, "b": 2})).output == 3
        spec = await one.registry.get_metadata("add")
        assert (spec.annotations, dict(spec.meta)) == (Annotations(read_only=True), {"owner": "somebody"})
        assert await one.registries.prompt("hi") == prompt
        assert await one.registries.agent("careful") == agent
        assert len(published(one)) == 1  # nothing is published twice


@pytest.mark.spec("REG-5")
@given(
    st.builds(
        ToolSpec,
        name=st.just("a-tool"),
        id=st.sampled_from(["", "acme.tool"]),
        description=st.text(min_size=1, max_size=30).filter(lambda text: text.strip()),
        version=st.sampled_from(["1", "2.0"]),
        category=st.sampled_from(["general", "search", "terminal"]),
        annotations=st.builds(Annotations, st.booleans(), st.booleans()),
        tier=st.sampled_from(["low", "high"]),
        timeout_s=st.sampled_from([0.5, 30.0]),
        caps_required=st.sampled_from([(), ("x", "y")]),
        aliases=st.sampled_from([(), ("other",)]),
        daily_limit=st.integers(0, 5),
        tag=st.sampled_from([None, Tag("SUM", arg_groups=("raw",))]),
        meta=st.dictionaries(st.sampled_from(["owner", "risk_arguments"]), st.text(max_size=5)),
        adapter_path=st.just("a.b:c"),
        returns=st.sampled_from([None, {"type": "integer"}]),
    )
)
def test_a_spec_is_unchanged_after_it_is_written_and_read(spec):
    assert read_tool(json.loads(json.dumps(write_tool(spec)))) == spec


@pytest.mark.spec("REG-5")
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"spec_id": "../x"}, "spec_id"),
        ({"timeout_ms": 0}, "timeout_ms"),
        ({"timeout_ms": "soon"}, "timeout_ms"),
        ({"safety_class": "NONE"}, "safety_class"),
        ({"params_schema": {"type": "nonsense"}}, "params_schema"),
        ({"params_schema": {"type": "array"}}, "must be the schema of an object"),
        ({"adapter_path": None}, "adapter_path"),
        ({"origin": "static"}, "origin"),
        ({"meta": {"name": "has space"}}, "meta.name"),
        ({"meta": {"cooldown_seconds": -1}}, "meta.cooldown_seconds"),
        ({"meta": {"annotations": {"destructve": True}}}, "meta.annotations.destructve: no such field"),
        ({"meta": {"tag": {"tag_prefix": "X", "strip": True}}}, "meta.tag.strip: no such field"),
        ({"meta": []}, "meta"),
        ({"params_schema": {"maximum": float("inf")}}, "params_schema"),
        ({"meta": {"tag": {"tag_prefix": "SUM", "arg_pattern": "("}}}, "add: "),
        ({"meta": {"tag": {"tag_prefix": "a:b"}}}, "prefix"),
        ({"meta": {"tag": {"tag_prefix": "SUM", "arg_groups": []}}}, "add: "),
        ({"meta": {"description": "x" * 20_001}}, "meta.description"),
    ],
)
async def test_an_invalid_envelope_is_rejected_and_nothing_is_written(tmp_path, change, why):
    async with engine(tmp_path) as one:
        with pytest.raises(RegistryError, match=why):
            await one.registries.register_tool(adder() | change)
        assert not (tmp_path / "registries" / "tools.json").exists()
        assert published(one) == []
        with pytest.raises(RegistryError, match="no such field"):
            await one.registries.register_agent({"spec_id": "a", "power": 9})
        with pytest.raises(RegistryError, match=r"policy_overrides.band_flor: no such field"):
            await one.registries.register_agent({"spec_id": "a", "policy_overrides": {"band_flor": "RED"}})
        with pytest.raises(RegistryError, match="band_floor"):
            await one.registries.register_agent({"spec_id": "a", "policy_overrides": {"band_floor": "PURPLE"}})
        with pytest.raises(RegistryError, match="only variables may be in braces"):
            await one.registries.register_prompt({"spec_id": "p", "template": "{a.b}"})


@pytest.mark.spec("REG-1", "REG-5")
async def test_a_tool_cannot_be_registered_under_a_taken_name(tmp_path):
    @tool(aliases=("go",))
    async def run() -> None:
        """Run."""

    async with engine(tmp_path, sources=[StaticSource("mine", [run])]) as one:
        await one.registries.register_tool(adder(aliases=["plus"]))
        await one.registries.register_tool(adder(aliases=["plus", "sum"]))  # its own
        for taken in (adder("run"), adder("go"), adder("x", aliases=["go"]), adder("plus"), adder("x", name="add")):
            with pytest.raises(RegistryError, match=r"claimed|is used by add"):
                await one.registries.register_tool(taken)
        assert {"add", "plus", "sum", "run", "go"} <= one.registry.static_names()  # nor may a skill
        with pytest.raises(RegistryError, match="claimed"):
            await one.registry.register(tool(name="plus")(_nothing))


async def _nothing() -> None:
    """Nothing."""


@pytest.mark.spec("REG-1", "REG-5", "REG-8")
async def test_disabling_and_deleting_apply_to_all_processes_and_are_published(tmp_path):
    async with engine(tmp_path) as one, engine(tmp_path) as other:
        await one.registries.register_tool(adder())
        await one.registries.register_tool(adder("minus"))
        await other.list_tools()
        await other.registry.disable("add")
        assert listed(await one.list_tools()) == ["minus"]
        await other.registry.delete("minus")
        assert listed(await one.list_tools()) == []
        await one.registry.enable("add")
        assert listed(await other.list_tools()) == ["add"]
        expected = [("upsert", "add"), ("upsert", "minus"), ("disable", "add"), ("delete", "minus"), ("upsert", "add")]
        assert published(one) == expected
        await one.registry.disable("add")
        await one.registry.delete("add")
        assert on_disk(tmp_path) == {"items": {}, "disabled": {}}
    async with engine(tmp_path) as again:
        assert published(again) == [*expected, ("disable", "add"), ("delete", "add")]


@pytest.mark.spec("REG-5")
async def test_a_running_engine_can_call_a_tool_registered_by_another_process_without_listing_first(tmp_path):
    async with engine(tmp_path) as one, engine(tmp_path) as other:
        assert not (await one.call("add", {"a": 1, "b": 2})).success
        await other.registries.register_tool(adder())

        async def callable_here() -> bool:
            return (await one.call("add", {"a": 1, "b": 2})).success

        await eventually(callable_here)


@pytest.mark.spec("REG-5")
@pytest.mark.parametrize(
    "damage",
    [b"", b"{", b'{"items": {"a": ', b"\xff\xfe", b"[]", b'{"items": []}', b'{"items": {}, "disabled": {"a": 1}}',
     b'{"items": {"a": NaN}}', b'{"items": {"a": 1e999}}', b'{"items": {}, "items": {}}', b"[" * 100_000],
)  # fmt: skip
async def test_a_damaged_file_is_renamed_and_the_other_files_are_loaded(tmp_path, damage):
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder())
        await one.registries.register_prompt(PromptSpec("hi", "Hello"))
        (tmp_path / "registries" / "tools.json").write_bytes(damage)
        assert listed(await one.list_tools()) == []
        assert (await one.registries.prompt("hi")).template == "Hello"
        aside = [path for path in (tmp_path / "registries").iterdir() if "corrupt" in path.name]
        assert [path.read_bytes() for path in aside] == [damage]
        (problem,) = await one.registries.problems()
        assert aside[0].name in str(problem)
    async with engine(tmp_path) as one:  # still said, and the loss is published
        assert len(await one.registries.problems()) == 1
        assert published(one) == [("upsert", "add"), ("delete", "add")]
        await one.registries.register_tool(adder())
        assert listed(await one.list_tools()) == ["add"]


@pytest.mark.spec("REG-5")
async def test_the_reason_for_setting_a_file_aside_is_logged_once_and_its_name_is_listed(tmp_path, caplog):
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder())
    (tmp_path / "registries" / "tools.json").write_text('{"items": {"add": }}')
    for times in (1, 0):
        caplog.clear()
        async with engine(tmp_path) as one:
            await one.list_tools()
            (problem,) = await one.registries.problems()
        assert "tools.json.corrupt-" in str(problem)
        assert caplog.text.count("line 1 column 19") == times
        assert caplog.text.count("tools.json.corrupt-") == times


@pytest.mark.spec("REG-5")
async def test_every_accepted_value_gives_a_readable_file(tmp_path):
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder())
        refused = 0
        deep: dict[str, object] = {}
        for depth in range(40):  # at some depth an entry alone is well, and in its file, deeper by two, is not
            deep = {"properties": {"a": deep}}
            try:
                await one.registries.register_tool(adder(f"deep{depth}") | {"params_schema": deep})
            except RegistryError:
                refused += 1
            assert parse((tmp_path / "registries" / "tools.json").read_bytes())
        assert refused
        for schema in ({"maximum": 10**200}, {"title": "\ud800"}):
            with pytest.raises(RegistryError):
                await one.registries.register_tool(adder("odd") | {"params_schema": schema})
        assert "add" in listed(await one.list_tools())


@pytest.mark.spec("REG-5", "TAG-1")
async def test_a_tag_prefix_belongs_to_only_one_tool_of_the_file(tmp_path):
    one_group = {"tag_prefix": "SUM", "arg_groups": ["a"]}
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder(tag=one_group))
        with pytest.raises(RegistryError, match="'SUM:' is used by add"):
            await one.registries.register_tool(adder("plus", tag=one_group))


@pytest.mark.spec("REG-5")
async def test_several_entries_are_registered_all_or_none(tmp_path):
    async with engine(tmp_path) as one:
        bad = [
            ([adder(), {"spec_id": "bad"}], r"entry 3 \(bad\): adapter_path"),
            ([adder(), adder()], r"entry 3 \(add\): duplicate id"),
            ([adder(), adder("other", aliases=["add"])], "is used by add|is used by other"),
        ]
        for tools, why in bad:
            with pytest.raises(RegistryError, match=why):
                await one.registries.register_all([("agents", {"spec_id": "a"}), *(("tools", each) for each in tools)])
            assert published(one) == published(one, "agents") == []
        assert await one.registries.register_all([("agents", {"spec_id": "a"}), ("tools", adder())]) == ["a", "add"]
        assert (published(one), published(one, "agents")) == ([("upsert", "add")], [("upsert", "a")])


@pytest.mark.spec("REG-7")
async def test_an_agent_that_refers_to_missing_items_is_registered_with_a_warning(tmp_path, caplog):
    agent = AgentSpec("smith", allowed_tools=("add", "later", "jira.*"), default_prompt_id="voice")
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder())
        await one.registries.register_agent(agent)
        assert [each.getMessage() for each in caplog.records if "smith" in each.getMessage()] == [
            "smith: there is no prompt voice yet.",
            "smith: there is no tool with the id or name later yet.",
        ]
        with pytest.raises(RegistryError, match="no prompt 'voice'"):
            await one.registries.instructions("smith")
        await one.registries.register_prompt(PromptSpec("voice", "Be terse, {name}."))
        assert await one.registries.instructions("smith") == "Be terse, {name}."


@pytest.mark.spec("REG-5")
async def test_an_error_about_an_entry_does_not_repeat_the_entry(tmp_path):
    async with engine(tmp_path) as one:
        for register, given_ in (
            (one.registries.register_prompt, {"spec_id": "p", "template": "{a}" + "x" * 5000, "variables": ["b"]}),
            (one.registries.register_prompt, {"spec_id": "p", "desc": "x" * 5000}),
            (one.registries.register_tool, {"spec_id": "p", "params_schema": {"x": "x" * 5000}}),
        ):
            with pytest.raises(RegistryError) as refused:
                await register(given_)
            assert "xxx" not in str(refused.value)
            assert not str(refused.value).startswith("spec_id")


@pytest.mark.spec("REG-1", "REG-5")
@pytest.mark.parametrize("running", [True, False])
async def test_disabled_items_stay_disabled_when_the_file_is_damaged(tmp_path, running):
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder())
        await one.registry.disable("add")
        await one.registry.disable("search_tools")
        if running:
            (tmp_path / "registries" / "tools.json").write_bytes(b"{")
            await one.list_tools()
            assert not (await one.call("search_tools", {})).success
            assert on_disk(tmp_path)["disabled"].keys() == {"add", "search_tools"}
    (tmp_path / "registries" / "tools.json").write_bytes(b"{")
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder())
        for name, arguments in (("search_tools", {}), ("add", {"a": 1, "b": 2})):
            refused = await one.call(name, arguments)
            assert refused.failure is not None
            assert refused.failure.reason == "disabled"


@pytest.mark.spec("REG-1")
async def test_a_disabled_tool_stays_disabled_under_another_name(tmp_path):
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder("acme.add"))
        await one.registry.disable("acme_add")
        assert not (await one.call("acme_add", {"a": 1, "b": 2})).success
        await one.registries.register_tool(adder("acme.add", name="plus"))
        assert not (await one.call("plus", {"a": 1, "b": 2})).success
        assert published(one) == [
            ("upsert", "acme.add"),
            ("disable", "acme.add"),
            ("upsert", "acme.add"),
            ("disable", "acme.add"),
        ]
        await one.registry.enable("acme.add")
        assert (await one.call("plus", {"a": 1, "b": 2})).success


@pytest.mark.spec("REG-5")
async def test_an_invalid_entry_is_skipped_reported_and_kept_in_the_file(tmp_path):
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder())
        document = on_disk(tmp_path)
        document["items"] |= {
            "bad": {"spec_id": "bad"},
            "no": 7,
            "other": adder("x"),
            "twin": adder("twin", aliases=["add"]),
        }
        (tmp_path / "registries" / "tools.json").write_text(json.dumps(document))
        assert listed(await one.list_tools()) == ["add"]
        problems = {each.item_id: str(each) for each in await one.registries.problems()}
        assert problems.keys() == {"bad", "no", "other", "twin"}
        assert "adapter_path" in problems["bad"]
        assert all("tools.json" in each for each in problems.values())
        await one.registries.register_tool(adder("more"))
        assert on_disk(tmp_path)["items"].keys() == {"add", "more", *problems}


@given(
    st.binary(max_size=60)
    | st.recursive(
        st.none() | st.text(max_size=3),
        lambda x: st.dictionaries(st.sampled_from(["items", "disabled", "a"]), x),
        max_leaves=5,
    ).map(lambda v: json.dumps(v).encode())
)
@pytest.mark.spec("REG-5")
def test_any_file_is_either_parsed_or_reported_as_corrupt(data):
    try:
        document = parse(data)
    except Corrupt:
        return
    assert parse(document.as_json()) == document


@pytest.mark.spec("REG-8")
async def test_a_change_that_a_killed_writer_did_not_publish_is_published_at_the_next_start(tmp_path):
    async with engine(tmp_path) as one:
        await one.registries.register_tool(adder())
        await one.registries.register_tool(adder("minus"))
        await one.registry.disable("minus")
        before = published(one)
    document = on_disk(tmp_path)
    del document["items"]["add"]
    document["items"]["third"] = adder("third")
    document["disabled"] = {"execute_tool": "2026-01-01"}
    (tmp_path / "registries" / "tools.json").write_text(json.dumps(document))
    async with engine(tmp_path) as one:
        assert sorted(published(one)[len(before) :]) == [
            ("delete", "add"),
            ("disable", "execute_tool"),
            ("upsert", "minus"),
            ("upsert", "third"),
        ]
        await one.registry.enable("execute_tool")
        assert published(one)[-1] == ("upsert", "execute_tool")
        total = len(published(one))
    async with engine(tmp_path) as one:
        assert len(published(one)) == total


@pytest.mark.spec("REG-7")
async def test_a_registered_agent_can_call_only_its_allowed_tools(tmp_path):
    @tool(caps_required=("keys",))
    async def unlock() -> str:
        """Unlock."""
        return "open"

    @tool(safety_class="HIGH")
    async def launch() -> str:
        """Launch."""
        return "up"

    agent = AgentSpec(
        "smith",
        allowed_tools=("unlock", "launch", "whose"),
        caps=("keys",),
        policy_overrides=PolicyOverrides(band_floor="AMBER"),
    )
    async with engine(tmp_path, sources=[StaticSource("mine", [unlock, launch])]) as one:
        await one.registries.register_tool(adder())
        await one.registries.register_tool({"spec_id": "whose", "adapter_path": f"{HERE}:whose"})
        await one.registries.register_agent(agent)
        turn = await one.turn_of("smith")
        assert (await one.call("unlock", {}, turn)).output == "open"
        assert not (await one.call("unlock", {})).success
        assert "band is AMBER" in (await one.call("launch", {}, turn)).error
        assert "allow-list" in (await one.call("add", {"a": 1, "b": 2}, turn)).error
        assert (await one.call("whose", {}, turn)).output == "hello smith"
        assert listed(await one.list_tools(turn)) == ["unlock", "whose"]
        await one.registries.register_agent({"spec_id": "nobody", "allowed_tools": []})
        assert listed(await one.list_tools(await one.turn_of("nobody"))) == []
        await asyncio.to_thread(one.registries.agents.set_disabled, "smith", True)
        with pytest.raises(RegistryError, match="disabled since"):
            await one.turn_of("smith")
        with pytest.raises(RegistryError, match="no agent 'jones'"):
            await one.turn_of("jones")


BANDS = ("RED", "AMBER", "GREEN")


@pytest.mark.spec("REG-7")
@given(
    st.sampled_from(BANDS),
    st.sampled_from(BANDS),
    st.none() | st.frozensets(st.sampled_from("abc")),
    st.none() | st.frozensets(st.sampled_from("abc")),
)
def test_the_entry_of_an_agent_can_only_restrict_a_turn(band, floor, allowed, own):
    agent = AgentSpec("a", allowed_tools=None if own is None else tuple(own), policy_overrides=PolicyOverrides(floor))
    made = turn_of(agent, Turn(band=band, allowed=None if allowed is None else Allowed.of(allowed)))
    assert BANDS.index(made.band) == min(BANDS.index(band), BANDS.index(floor))
    for name in "abc":
        permitted = made.allowed is None or made.allowed.permits(ToolSpec(name, "Does."))
        assert permitted == ((allowed is None or name in allowed) and (own is None or name in own))
