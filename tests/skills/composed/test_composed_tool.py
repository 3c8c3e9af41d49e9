"""A composed skill as one tool. Its steps are ordinary calls, and a resumed run does not repeat finished steps."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.composed.admission import Composer
from acquired_skills.composed.runs import ComposedCall, KeptRuns, RunMissing
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import SkillError, SkillKind
from acquired_skills.portable.exporting import files_of, zipped
from acquired_skills.portable.importing import ImportResult, import_skills
from acquired_skills.store.skill_file import parse, render
from engine import Engine
from engine.app.people import People
from engine.contract.allowed import Allowed
from engine.contract.context import CallContext
from engine.contract.failure import FailureClass
from engine.contract.result import ToolCall
from engine.contract.spec import Origin
from engine.contract.turn import Turn
from engine.dispatch.inner_calls import InnerCalls
from engine.policy.approval import ApprovalAnswer, ApprovalRequest
from engine.registry.decorate import tool
from engine.registry.static import StaticSource
from tests.skills.composed.parts import FETCH, PAGE, SEND, TELL, TELL_CASE, TOOLS, compose, opened, sent
from tests.skills.composed.victim import CASE, PIPELINE, hold_on
from tests.skills.parts import ADD_ONE_TESTS
from tests.skills.parts import proposal as code_proposal

pytestmark = [pytest.mark.asyncio, pytest.mark.spec("SKILL-16")]
ASK = {"url": "u", "to": "bob"}


async def taught(engine: Engine, *args: Any, **more: Any) -> None:
    result = await compose(engine, *(args or (TELL, [TELL_CASE])), **more)
    assert result.success, result.error


async def calls(engine: Engine) -> list[tuple[str, str, str]]:
    return [(row["call_id"], row["tool"], row["end"]) for row in reversed(await engine.audit())]


async def test_a_composed_skill_is_listed_last_and_each_of_its_steps_is_recorded_under_its_call(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await taught(engine)
        specs = await engine.get_active_tool_definitions()
        assert (specs[-1].name, specs[-1].origin) == ("tell_about", Origin.COMPOSED)
        assert (specs[-1].required_permission, specs[-1].side_effects) == ("admin", ("message_sent",))
        result = await engine.call("tell_about", ASK, call_id="c1")
        assert result.output == {"title": "Page u", "told": "bob"}
        assert sent(tmp_path) == ["bob: See Page u"]
        assert (await calls(engine))[1:] == [
            ("c1/fetch", "read_page", "ok"),
            ("c1/send", "send_note", "ok"),
            ("c1", "tell_about", "ok"),
        ]
        library = engine.need(SkillLibrary)
        skill = await library.get("tell_about")
        assert (skill.kind, skill.calls) == (SkillKind.COMPOSED, ("read_page", "send_note"))
        assert parse(render(skill), "SKILL.md") == skill
        folder = tmp_path / "acquired_skills" / "tell-about"
        assert (folder / "scripts" / "tell_about.json").is_file()
        assert (folder / "tests" / "tell_about.json").is_file()
        assert (await library.folders.verify()).known == 1
        assert [one.successes for one in await library.stats("tell_about")] == [1]
    async with opened(tmp_path) as engine:
        asked = Turn(query="let bob know of that page")
        assert (await engine.call("tell_about", ASK, asked)).success
    async with opened(tmp_path) as engine:  # a similar request finds it
        found = await engine.need(SkillLibrary).search("let bob know of that page")
        assert [one.skill.name for one in found] == ["tell_about"]


async def test_a_composed_skill_cannot_bypass_a_policy(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await taught(engine)
        for turn in (
            Turn(permission="user"),
            Turn(allowed=Allowed.of(["tell_about"])),
            Turn(allowed=Allowed.of(["tell_about", "read_page"])),
        ):
            result = await engine.call("tell_about", ASK, turn)
            assert not result.success
            assert "may not be called" in result.error
        await engine.registry.disable("send_note")
        assert "send_note" in (await engine.call("tell_about", {**ASK, "to": "eve"})).error
        assert sent(tmp_path) == []
        await engine.registry.enable("send_note")
        stats = (await engine.need(SkillLibrary).stats("tell_about"))[0]
        assert (stats.failures, stats.uncounted) == (0, 3)  # a refusal by a policy does not count against a skill


async def test_a_failure_names_the_step_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await taught(engine)
        closed = tmp_path / "workspace" / "closed"
        closed.touch()
        failed = await engine.call("tell_about", ASK, call_id="first")
        assert failed.failure is not None
        assert (failed.failure.failure_class, failed.failure.reason) == (FailureClass.FATAL, "step_failed")
        assert "step `send` (call of `send_note`, FATAL" in failed.error
        run = failed.error.split('{"run": "')[1].split('"')[0]
        closed.unlink()
        for wrong in ({**ASK, "to": "eve", "resume": {"run": run}}, {**ASK, "resume": {"run": "nobody's"}}):
            assert "cannot resume" in (await engine.call("tell_about", wrong)).error
        other = await engine.call("tell_about", {**ASK, "resume": {"run": run}}, Turn(user="eve"))
        assert "cannot resume" in other.error
        assert sent(tmp_path) == []
        done = await engine.call("tell_about", {**ASK, "resume": {"run": run}}, call_id="second")
        assert done.success, done.error
        assert [name for name, _, _ in await calls(engine) if name.startswith("second")] == ["second/send", "second"]
        assert sent(tmp_path) == ["bob: See Page u"]
        assert "cannot resume" in (await engine.call("tell_about", {**ASK, "resume": {"run": run}})).error


async def test_a_step_that_may_have_run_is_repeated_only_on_request(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await taught(engine)
        broken = tmp_path / "workspace" / "broken"
        broken.touch()
        assert not (await engine.call("tell_about", ASK)).success
        broken.unlink()
        unsure = await engine.call("tell_about", {**ASK, "resume": {}})
        assert "it is unknown whether that call succeeded" in unsure.error
        assert sent(tmp_path) == []
        assert (await engine.call("tell_about", {**ASK, "resume": {"repeat": True}})).success
        assert sent(tmp_path) == ["bob: See Page u"]


class Person:
    def __init__(self) -> None:
        self.says = False
        self.asked: list[tuple[str, Any]] = []

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        self.asked.append((request.tool.name, request.arguments))
        return ApprovalAnswer(self.says, request.digest)


async def test_a_step_that_needs_confirmation_asks_for_it_and_the_run_can_be_resumed(tmp_path: Path) -> None:
    burn = {"name": "burn", "call": "burn_notes", "inputs": {"count": {"from": "/arguments/count"}}}
    pipeline = {"steps": [SEND | {"inputs": {"to": "a", "text": "b"}}, burn], "output": {"from": "/burn"}}
    case = {"arguments": {"count": 2}, "steps": {"send": 1, "burn": 5}, "expect": 5}
    case["asked"] = {"send": {"to": "a", "text": "b"}, "burn": {"count": 2}}
    person = Person()
    people = People(approver=person)
    async with opened(tmp_path, people, KNACKBOX_POLICY_APPROVAL="confirmation") as engine:
        await taught(engine, pipeline, [case], name="send_and_burn")
        assert (await engine.call("send_and_burn", {"count": 2})).error.count("burn_notes was not run") == 1
        assert person.asked == [("burn_notes", {"count": 2})]
        assert sent(tmp_path) == ["a: b"]
        person.says = True
        assert (await engine.call("send_and_burn", {"count": 2, "resume": {}})).output == 2
        assert sent(tmp_path) == []


async def test_skills_really_run_in_cases_and_versions_can_be_rolled_back(tmp_path: Path) -> None:
    twice = {
        "steps": [
            {"name": "one", "call": "add_one", "inputs": {"number": {"from": "/arguments/number"}}},
            {"name": "two", "call": "add_one", "inputs": {"number": {"from": "/one"}}},
        ],
        "output": {"from": "/two"},
    }
    async with opened(tmp_path) as engine:
        library = engine.need(SkillLibrary)
        await library.create(code_proposal(tests=ADD_ONE_TESTS))
        wrong = await compose(engine, twice, [{"arguments": {"number": 1}, "expect": 4}], name="add_two")
        assert "it returns '3', but '4' is expected" in wrong.error
        await taught(engine, twice, [{"arguments": {"number": 1}, "expect": 3}], name="add_two")
        assert (await engine.call("add_two", {"number": 40})).output == 42
        by_ten = {"arguments": {"number": 1}, "steps": {"two": 30}, "asked": {"two": {"number": 2}}, "expect": 30}
        again = await compose(
            engine, {**twice, "output": [{"from": "/two"}]}, [{**by_ten, "expect": [30]}], name="add_two"
        )
        assert "Case 1 of the earlier version" in again.error
        await taught(
            engine, {**twice, "output": [{"from": "/two"}]}, [{**by_ten, "expect": [30]}], name="add_two", breaking=True
        )
        assert (await engine.call("add_two", {"number": 40})).output == [42]
        await library.rollback("add_two")
        assert (await engine.call("add_two", {"number": 40})).output == 42
        mixed = await engine.call(
            "create_skill", {"name": "add_two", "description": "Adds two to it.", "code": "def", "tests": ""}
        )
        assert not mixed.success


async def test_no_rollback_makes_a_skill_call_itself(tmp_path: Path) -> None:
    def calling(tool: str) -> tuple[Any, Any]:
        step = {"name": "fetch", "call": tool, "inputs": {"url": {"from": "/arguments/url"}}}
        case = {"arguments": {"url": "u"}, "steps": {"fetch": PAGE}, "asked": {"fetch": {"url": "u"}}, "expect": PAGE}
        return {"steps": [step], "output": {"from": "/fetch"}}, [case]

    async with opened(tmp_path) as engine:
        library = engine.need(SkillLibrary)
        await taught(engine, *calling("read_page"), name="inner_reader")
        await taught(engine, *calling("inner_reader"), name="outer_reader")
        refused = await compose(engine, *calling("outer_reader"), name="inner_reader", breaking=True)
        assert "The skill would call itself: inner_reader -> outer_reader -> inner_reader" in refused.error
        assert (await engine.call("outer_reader", {"url": "u"})).output["title"] == "Page u"
        # The same in the other order, and then with a rollback.
        await taught(engine, *calling("read_page"), name="outer_reader", breaking=True)
        await taught(engine, *calling("outer_reader"), name="inner_reader", breaking=True)
        with pytest.raises(SkillError, match="would call itself"):
            await library.rollback("outer_reader", 1)
        await library.delete("outer_reader")
        assert "the tool `outer_reader` no longer exists" in (await engine.call("inner_reader", {"url": "u"})).error
        await library.restore("outer_reader")
        assert (await engine.call("inner_reader", {"url": "u"})).success


async def test_a_failing_composed_skill_is_quarantined_like_any_other(tmp_path: Path) -> None:
    wrong = {"steps": [FETCH], "output": {"from": "/fetch/author"}}
    case = {
        "arguments": {"url": "u"},
        "steps": {"fetch": {"author": "x"}},
        "asked": {"fetch": {"url": "u"}},
        "expect": "x",
    }
    async with opened(tmp_path) as engine:
        await taught(engine, wrong, [case])
        for number in range(3):
            failed = await engine.call("tell_about", {"url": f"u{number}"})
            assert "/fetch/author does not exist" in failed.error
        assert "quarantined" in failed.error
        assert "tell_about" not in [spec.name for spec in await engine.get_active_tool_definitions()]
        assert "nothing was run" in (await engine.call("tell_about", {"url": "u"})).error
        await taught(engine, wrong, [case])  # the same pipeline as a new version starts without failures
        assert (await engine.need(SkillLibrary).get("tell_about")).version == 2


async def test_a_failure_of_a_steps_tool_counts_only_against_that_tool(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await taught(engine)
        (tmp_path / "workspace" / "closed").touch()
        for number in range(4):
            failed = await engine.call("tell_about", {**ASK, "url": f"u{number}"})
            assert "the post office is closed" in failed.error
            assert failed.error.count("Do not repeat this call") == 1
        library = engine.need(SkillLibrary)
        stats = (await library.stats("tell_about"))[0]
        assert (stats.failures, stats.uncounted) == (0, 4)
        assert (await library.get("tell_about")).state.listed


async def test_invalid_arguments_of_a_step_count_against_the_composed_skill(tmp_path: Path) -> None:
    inputs = {**SEND["inputs"], "text": {"from": "/fetch/links"}}  # a list, which only the call itself rejects
    wrong = {"steps": [FETCH, {**SEND, "inputs": inputs}], "output": {"from": "/send/sent"}}
    case = {**TELL_CASE, "steps": {"fetch": {"links": "See"}, "send": {"sent": "ann"}}, "expect": "ann"}
    case["asked"] = {"fetch": {"url": "https://bread.example"}, "send": {"to": "ann", "text": "See"}}
    async with opened(tmp_path) as engine:
        await taught(engine, wrong, [case])
        assert "invalid arguments" in (await engine.call("tell_about", ASK)).error
        assert (await engine.need(SkillLibrary).stats("tell_about"))[0].failures == 1


async def test_the_provenance_of_a_composed_skill_names_the_tool_and_the_call(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await taught(engine, call_id="c7")
        skill = await engine.need(SkillLibrary).get("tell_about")
        assert (skill.provenance["by"], skill.provenance["call"]) == ("compose_skill", "c7")


async def test_an_exported_pipeline_is_imported_and_proved_with_the_existing_tools(tmp_path: Path) -> None:
    here, there, bare = (tmp_path / name for name in ("here", "there", "bare"))
    file = tmp_path / "skill.zip"
    async with opened(here) as engine:
        await taught(engine)
        library = engine.need(SkillLibrary)
        files = await asyncio.to_thread(files_of, library.store, library.instructions, "tell_about")
        file.write_bytes(zipped({"tell-about": files}))
    async with opened(there) as engine:
        brought = [await arrive(engine, file) for _ in range(2)]
        assert [one.outcome for one in brought] == ["admitted", "already"]
        assert (await engine.need(SkillLibrary).get("tell_about")).provenance["by"] == "import"
        assert (await engine.call("tell_about", ASK)).success
    async with Engine.open(home=bare) as engine:
        refused = await arrive(engine, file)
        assert (refused.outcome, "read_page" in refused.text) == ("refused", True)
        assert await engine.need(SkillLibrary).skills() == []


async def arrive(engine: Engine, file: Path) -> ImportResult:
    library = engine.need(SkillLibrary)
    composer = Composer(library, engine.need(InnerCalls), engine.sandbox, Turn())
    (one,) = await import_skills(file, library, composer=composer, provenance={"by": "import"})
    return one


async def test_stored_runs_are_limited_in_size_and_number_per_user(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        runs = engine.need(KeptRuns)
        first = runs.begin(ComposedCall("ann", "s", 1, {"n": 0}))
        runs.finished(first, "big", "x" * (5 << 20))
        runs.stop(first)
        again = runs.resume(first.id, ComposedCall("ann", "s", 1, {"n": 0}))
        assert (again.finished, again.unsure) == ({}, {"big"})
        with pytest.raises(RunMissing, match="the run is still in progress"):
            runs.resume(first.id, ComposedCall("ann", "s", 1, {"n": 0}))
        runs.stop(again)
        for number in range(50):
            runs.stop(runs.begin(ComposedCall("ann", "s", 1, {"n": number + 1})))
        with pytest.raises(RunMissing, match="you have no run"):
            runs.resume(first.id, ComposedCall("ann", "s", 1, {"n": 0}))


async def test_a_cancelled_call_stops_its_step_and_can_be_resumed(tmp_path: Path) -> None:
    async with Engine.open(home=tmp_path, sources=[StaticSource("post", (*TOOLS, hold_on))]) as engine:
        await taught(engine, PIPELINE, [CASE], name="note_and_hold")
        holding = asyncio.Event()
        told = engine.call("note_and_hold", {"text": "hi"}, call_id="held", progress=lambda *_: holding.set())
        call = asyncio.create_task(told)
        async with asyncio.timeout(10):
            await holding.wait()
            assert engine.cancel("held")
            assert (await call).audit.end == "killed"
        assert [end for name, _, end in await calls(engine) if name == "held/hold"] == ["killed"]
        (tmp_path / "workspace" / "let_go").touch()
        assert "it is unknown" in (await engine.call("note_and_hold", {"text": "hi", "resume": {}})).error
        done = await engine.call("note_and_hold", {"text": "hi", "resume": {"repeat": True}})
        assert done.output == "let go", done.error
        assert sent(tmp_path) == ["ann: hi"]


@tool(category="notes")
async def ask_again(ctx: CallContext) -> str:
    """Call this tool again."""
    return (await ctx.need(InnerCalls).call(ctx, ToolCall("ask_again", {}, "deeper"))).text


async def test_nested_calls_are_limited(tmp_path: Path) -> None:
    async with Engine.open(home=tmp_path, sources=[StaticSource("deep", (ask_again,))]) as engine:
        result = await engine.call("ask_again", {}, call_id="top")
        assert "nested more than 8 deep" in result.text
        assert len(await calls(engine)) == 9


async def test_an_agent_cannot_resume_to_read_the_output_of_a_tool_that_it_may_not_call(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as engine:
        await taught(engine)
        closed = tmp_path / "workspace" / "closed"
        closed.touch()
        failed = await engine.call("tell_about", ASK)
        closed.unlink()
        for allowed in (["tell_about", "send_note"], ["tell_about"]):
            narrow = Turn(allowed=Allowed.of(allowed))
            result = await engine.call("tell_about", {**ASK, "resume": {}}, narrow)
            assert "read_page may not be called" in result.error
            assert "Page u" not in f"{result.output}{result.error}"
        assert sent(tmp_path) == []
        run = failed.error.split('{"run": "')[1].split('"')[0]
        assert (await engine.call("tell_about", {**ASK, "resume": {"run": run}})).success


@pytest.mark.spec("SKILL-17")
async def test_the_provenance_of_a_composed_skill_names_its_user(tmp_path: Path) -> None:
    async with opened(tmp_path) as engine:
        await taught(engine)
        origin = (await engine.need(SkillLibrary).get("tell_about")).provenance
        assert (origin["by"], origin["user"]) == ("compose_skill", Turn().user)
