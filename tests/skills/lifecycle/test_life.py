"""The states of a version: how its calls change them, that outages do not count, and how it is repaired."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import example, given
from hypothesis import strategies as some

from acquired_skills.lifecycle.judgement import earned_state, wilson_lower_bound
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import SkillState
from acquired_skills.store.failed_inputs import MOST_KEPT, MOST_OF_ALL, FailedInput, FailedInputs, as_tests
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.totals import Counted, SkillCall
from acquired_skills.tools.skill_source import SkillSource
from acquired_skills.tools.skill_tool import skill_tool
from builtin_tools.manage_skills import manage_skills
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.turn import Turn
from sandbox.contract import SandboxError
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import NoSandbox, context, opened_library, opened_records, proposal

pytestmark = pytest.mark.spec("SKILL-13")
PROBATION, ACTIVE, QUARANTINED = SkillState.PROBATION, SkillState.ACTIVE, SkillState.QUARANTINED
BROKEN = "return {0: 1, 1: 2, 2: 3}[number]"
REPAIRED = "return number + 1"


@pytest.mark.spec("GATE-2")
def test_a_version_with_open_questions_does_not_become_active() -> None:
    assert earned_state(PROBATION, 100, 0) is ACTIVE
    assert earned_state(PROBATION, 100, 0, proved=False) is PROBATION
    assert earned_state(PROBATION, 0, 5, proved=False) is SkillState.QUARANTINED


@given(times=some.integers(0, 500), others=some.integers(0, 500))
@example(times=0, others=46)
@example(times=0, others=47)
def test_the_bound_is_below_the_rate_and_grows_with_the_number_of_trials(times: int, others: int) -> None:
    calls = times + others
    bound = wilson_lower_bound(times, calls)
    assert 0 <= bound <= 1
    if calls:
        assert bound <= times / calls
        assert wilson_lower_bound(times + 1, calls + 1) >= bound
        assert wilson_lower_bound(times, calls + 1) <= bound


@pytest.mark.parametrize(
    ("times", "of", "bound"), [(0, 0, 0.0), (3, 3, 0.526), (7, 7, 0.721), (90, 100, 0.840), (1, 2, 0.121)]
)
def test_the_bound_is_wilsons_lower_bound(times: int, of: int, bound: float) -> None:
    assert wilson_lower_bound(times, of) == pytest.approx(bound, abs=0.001)


@pytest.mark.parametrize(
    ("before", "successes", "failures", "after"),
    [
        (PROBATION, 0, 0, PROBATION),
        (PROBATION, 6, 0, PROBATION),
        (PROBATION, 7, 0, ACTIVE),
        (PROBATION, 0, 2, PROBATION),
        (PROBATION, 0, 3, QUARANTINED),
        (PROBATION, 1, 3, PROBATION),
        (ACTIVE, 7, 2, ACTIVE),
        (ACTIVE, 7, 4, PROBATION),
        (ACTIVE, 3, 12, QUARANTINED),
        (QUARANTINED, 100, 0, QUARANTINED),
        (SkillState.DISABLED, 0, 100, SkillState.DISABLED),
    ],
)
def test_the_state_follows_from_the_calls(before: SkillState, successes: int, failures: int, after: SkillState) -> None:
    assert earned_state(before, successes, failures) is after


@pytest.mark.spec("SKILL-13")
@pytest.mark.parametrize(
    ("successes", "failures", "after"), [(0, 5, QUARANTINED), (1, 4, ACTIVE), (5, 0, ACTIVE), (0, 0, ACTIVE)]
)
def test_a_skill_that_now_fails_every_time_is_quarantined_despite_a_long_good_record(
    successes: int, failures: int, after: SkillState
) -> None:
    assert earned_state(ACTIVE, 100, failures, Counted(successes, failures)) is after


@pytest.mark.spec("SKILL-13")
def test_the_latest_calls_are_the_counted_calls_of_this_version(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        ledger = Ledger(records)
        went = [(1, True, True), *[(1, False, True)] * 3, (1, False, False), (1, False, True), (2, True, True)]
        ledger.log([SkillCall("add_one", version, "t", ok, counts) for version, ok, counts in went])
        assert ledger.latest("add_one", 1) == Counted(1, 4)
        ledger.forgive("add_one", 1)
        assert ledger.latest("add_one", 1) == Counted(1, 0)
        assert ledger.latest("add_one", 3) == Counted()


def test_the_latest_failed_inputs_are_stored_once_and_become_tests(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        kept = FailedInputs(records)
        for number in (*range(20), 19):
            kept.keep(
                "add_one", 1, FailedInput("t", {"number": number, "text": "a\n'b'"}, "KeyError: \x1b[2J\ud800", "ann")
            )
        kept.keep("add_one", 1, FailedInput("t", {"number": {1, 2}}, "no JSON", "ann"))
        kept.keep("add_one", 1, FailedInput("t", {"number": "x" * 10_000}, "too large", "ann"))
        kept.keep("add_one", 2, FailedInput("t", {"number": 99}, "of another version", "ann"))
        found = kept.of("add_one", 1, "ann")
    assert [each.arguments["number"] for each in found] == list(range(20 - MOST_KEPT + 1, 20))
    tests = as_tests("add_one", found[-1:])
    compile(tests, "tests", "exec")
    assert "assert add_one(number=19, text=\"a\\n'b'\") == ..." in tests
    assert "\x1b" not in tests


def test_failed_inputs_are_hidden_from_other_users_who_cannot_displace_them(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        kept = FailedInputs(records)
        kept.keep("add_one", 1, FailedInput("t", {"pin": 4711}, "KeyError", "ann", "x"))
        for number in range(3 * MOST_KEPT):
            kept.keep("add_one", 1, FailedInput("t", {"pin": number}, "KeyError", "bob", "x"))
        assert [each.arguments for each in kept.of("add_one", 1, "ann")] == [{"pin": 4711}]
        assert len(kept.of("add_one", 1, "bob")) == MOST_KEPT
        assert kept.of("add_one", 1, "eve") == []
        everybody = kept.of("add_one", 1, None)
        assert {(each.user, each.agent) for each in everybody} == {("ann", "x"), ("bob", "x")}
        for number in range(2 * MOST_OF_ALL):
            kept.keep("add_one", 1, FailedInput("t", {"pin": number}, "KeyError", f"user-{number}"))
        assert len(kept.of("add_one", 1, None)) == MOST_OF_ALL


@pytest.mark.asyncio(loop_scope="module")
class TestInUse:
    @pytest_asyncio.fixture(loop_scope="module")
    async def library(self, tmp_path: Path, box: NamespaceSandbox) -> AsyncIterator[SkillLibrary]:
        async with opened_library(tmp_path, box) as found:
            yield found

    async def call(self, library: SkillLibrary, box: object, folder: Path, number: object) -> object:
        tool = skill_tool(await library.get("add_one"), library)
        return await tool.run(context(library, box, folder / "workspace"), {"number": number})  # type: ignore[arg-type]

    async def state(self, library: SkillLibrary) -> SkillState:
        return (await library.get("add_one")).state

    async def test_seven_successful_calls_make_a_skill_active_in_its_folder(
        self, library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
    ) -> None:
        await library.create(proposal())
        for number in range(7):
            assert await self.state(library) is PROBATION
            await self.call(library, box, tmp_path, number)
        assert await self.state(library) is ACTIVE
        await library.folders.verify()
        assert await self.state(library) is ACTIVE

    async def test_a_failing_skill_is_quarantined_with_its_failed_inputs_until_a_repair_is_admitted(
        self, library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
    ) -> None:
        tests = "from add_one import add_one\n\n\ndef test_adds():\n    assert (add_one(0), add_one(1), add_one(2)) == (1, 2, 3)\n"
        await library.create(proposal(body=BROKEN, tests=tests))
        for number in (7, 8):
            with pytest.raises(ToolFailure) as failed:
                await self.call(library, box, tmp_path, number)
            assert "quarantined" not in str(failed.value)
        with pytest.raises(ToolFailure, match="KeyError") as failed:
            await self.call(library, box, tmp_path, 9)
        told = str(failed.value)
        assert "quarantined and no longer offered. Propose a repaired version with create_skill" in told
        for number in (7, 8, 9):
            assert f"assert add_one(number={number}) == ..." in told
        assert await self.state(library) is QUARANTINED
        assert await SkillSource(library).tools(Turn()) == ()
        assert await library.search("add one to a number") == []
        with pytest.raises(ToolFailure, match="Nothing was run") as refused:
            await self.call(library, box, tmp_path, 1)
        assert "add_one(number=9)" in str(refused.value)
        assert not refused.value.may_have_started
        more = tests + "\n\ndef test_nine():\n    assert add_one(9) == 10\n"
        await library.create(proposal(body=REPAIRED, tests=more))
        assert await self.state(library) is PROBATION
        assert await self.call(library, box, tmp_path, 9) == 10
        assert [one.version for one in await library.stats("add_one")] == [2, 1]

    async def test_failed_inputs_are_shown_only_to_their_user_and_to_admins(
        self, library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
    ) -> None:
        await library.create(proposal())
        for_all = context(library, box, tmp_path / "workspace")
        ann = replace(for_all, turn=Turn(user="ann", permission="user"))
        bob = replace(for_all, turn=Turn(user="bob", permission="user"))
        boss = replace(for_all, turn=Turn(user="boss", permission="admin"))
        tool, show = skill_tool(await library.get("add_one"), library), {"action": "show", "name": "add_one"}
        for _ in range(3):
            with pytest.raises(ToolFailure) as failed:
                await tool.run(ann, {"number": "PIN 4711"})
        assert "PIN 4711" in str(failed.value)
        quarantined = skill_tool(await library.get("add_one"), library)
        for who, sees in ((ann, True), (bob, False), (boss, True)):
            with pytest.raises(ToolFailure, match="is quarantined") as refused:
                await quarantined.run(who, {"number": 1})
            shown = await manage_skills.run(who, show)
            assert ("PIN 4711" in str(refused.value)) is sees
            assert ("PIN 4711" in shown.message) is sees
            assert (shown.value["failed_inputs"] == [{"number": "PIN 4711"}]) is sees

    async def test_enabling_a_skill_resets_its_failures(
        self, library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
    ) -> None:
        await library.create(proposal())
        for _ in range(3):
            with pytest.raises(ToolFailure):
                await self.call(library, box, tmp_path, "no number")
        assert await self.state(library) is QUARANTINED
        await library.set_state("add_one", PROBATION)
        for number in range(7):
            assert await self.call(library, box, tmp_path, number) == number + 1
        with pytest.raises(ToolFailure):
            await self.call(library, box, tmp_path, "no number")
        assert (await self.state(library)).listed

    async def test_an_outage_does_not_count_against_a_skill(self, library: SkillLibrary, tmp_path: Path) -> None:
        class Down(NoSandbox):
            async def run(self, job: object, *, on_output: object = None) -> object:
                raise SandboxError("No box today.")

        await library.create(proposal())
        for number in range(10):
            with pytest.raises(SandboxError):
                await self.call(library, Down(), tmp_path, number)
            library.log_telemetry("add_one", success=False, failure_class=FailureClass.RETRYABLE)
        assert await library.judge(await library.get("add_one")) is PROBATION
        (stats,) = await library.stats("add_one")
        assert (stats.calls, stats.failures, stats.uncounted) == (20, 0, 20)

    async def test_failures_in_two_processes_are_added(self, box: NamespaceSandbox, tmp_path: Path) -> None:
        async with opened_library(tmp_path, box) as one, opened_library(tmp_path, box) as other:
            await one.create(proposal())
            for library in (one, other, one):
                with pytest.raises(ToolFailure):
                    await self.call(library, box, tmp_path, "no number")
            assert await self.state(other) is QUARANTINED
