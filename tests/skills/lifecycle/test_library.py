"""The life cycle of a skill, with a real home, store, index and box."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.model.skill import SkillDamaged, SkillMissing, SkillState
from acquired_skills.tools.skill_source import SkillSource
from engine.contract.failure import FailureClass
from engine.contract.turn import Turn
from sandbox.namespace.backend import NamespaceSandbox
from tests.eventually import eventually
from tests.skills.parts import opened_library, proposal
from tests.stores.processes import other

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHELF = {
    "roman_numeral": "Writes a whole number as a Roman numeral.",
    "celsius": "Converts a temperature from Fahrenheit to Celsius.",
    "word_count": "Counts how many words a text has.",
}


@pytest_asyncio.fixture(loop_scope="module")
async def library(tmp_path: Path, box: NamespaceSandbox) -> AsyncIterator[SkillLibrary]:
    async with opened_library(tmp_path, box, retrieve=1) as opened:
        yield opened


def shelf(name: str) -> Proposal:
    return proposal(name, description=SHELF[name])


async def names(library: SkillLibrary, query: str | None = None) -> list[str]:
    return [tool.spec.name for tool in await SkillSource(library).tools(Turn(query=query))]


@pytest.mark.spec("SKILL-1", "LIST-3", "LIST-4", "SKILL-14")
async def test_a_new_skill_is_listed_and_found_by_meaning(library: SkillLibrary) -> None:
    assert await names(library, "temperature") == []
    for name in SHELF:
        made = await library.create(shelf(name))
        assert (made.version, made.state) == (1, SkillState.PROBATION)
    assert await names(library) == sorted(SHELF)
    assert await names(library, "how warm is 100 F in centigrade degrees") == ["celsius"]
    assert await names(library, "ancient latin digits for a number") == ["roman_numeral"]
    assert await names(library, "use word_count please") == ["word_count"]
    assert await names(library, "  ") == sorted(SHELF)


@pytest.mark.spec("LIST-4", "LIST-3", "SKILL-11")
async def test_a_disabled_or_deleted_skill_leaves_the_list_and_the_index_and_comes_back(library: SkillLibrary) -> None:
    await library.create(shelf("celsius"))
    query = "Fahrenheit to Celsius"
    assert await names(library, query) == ["celsius"]
    await library.set_state("celsius", SkillState.DISABLED)
    assert await names(library) == []
    assert await names(library, query) == []
    assert [one.state for one in await library.skills()] == [SkillState.DISABLED]
    await library.set_state("celsius", SkillState.PROBATION)
    assert await names(library, query) == ["celsius"]
    await library.delete("celsius")
    assert await names(library, query) == []
    assert await library.skills() == []
    with pytest.raises(SkillMissing, match="There are no skills yet"):
        await library.get("celsius")
    await library.restore("celsius")
    assert await names(library, query) == ["celsius"]


@pytest.mark.spec("LIST-4")
async def test_the_list_is_the_same_object_until_something_changes(library: SkillLibrary) -> None:
    source = SkillSource(library)
    await library.create(shelf("celsius"))
    first = await source.tools(Turn())
    assert await source.tools(Turn()) is first
    await library.create(shelf("word_count"))
    second = await source.tools(Turn())
    assert [tool.spec.name for tool in second] == ["celsius", "word_count"]
    assert second[0] is first[0]


async def test_a_refused_proposal_leaves_nothing_behind(library: SkillLibrary, tmp_path: Path) -> None:
    with pytest.raises(SkillRefused):
        await library.create(proposal(tests="from add_one import add_one\n\ndef test_x():\n    assert True\n"))
    with pytest.raises(SkillRefused, match="built-in tool"):
        await library.create(proposal("file_system"))
    assert await library.skills() == []
    assert [path.name for path in (tmp_path / "acquired_skills").iterdir() if not path.name.startswith(".")] == []


@pytest.mark.spec("SKILL-9")
async def test_a_second_version_keeps_the_first_and_can_be_rolled_back(library: SkillLibrary) -> None:
    await library.create(proposal())
    with pytest.raises(SkillRefused, match="identical to version 1"):
        await library.create(proposal())
    tests = "from add_one import add_one\n\ndef test_two():\n    assert add_one(1) == 3\n"
    with pytest.raises(SkillRefused, match="a test of the earlier version"):
        await library.create(proposal(body="return number + 2", tests=tests))
    second = await library.create(proposal(body="return number + 2", tests=tests, breaking=True))
    assert second.version == 2
    assert [one.version for one in await library.history("add_one")] == [1, 2]
    back = await library.rollback("add_one")
    assert back.version == 3
    assert await library.code(back) == proposal().code.encode()
    assert await library.code(second) != await library.code(back)
    with pytest.raises(SkillMissing, match="Earlier versions: 1, 2"):
        await library.rollback("add_one", 9)


@pytest.mark.spec("SKILL-9")
async def test_a_rollback_to_a_changed_version_is_refused(library: SkillLibrary, tmp_path: Path) -> None:
    await library.create(proposal())
    await library.create(proposal(description="Adds one to a whole number, said in other words."))
    code = next((tmp_path / "acquired_skills" / "add-one" / "versions" / "1").rglob("add_one.py"))
    code.unlink()  # versions share the file through hard links
    code.write_text(proposal(body="return number + 666").code)
    with pytest.raises(SkillDamaged, match="changed after it was admitted as version 1"):
        await library.rollback("add_one")
    assert (await library.get("add_one")).version == 2


@pytest.mark.spec("STATE-1")
async def test_two_concurrent_proposals_of_one_name_each_become_a_version_or_are_refused(
    library: SkillLibrary,
) -> None:
    offers = [proposal(description=f"Adds one to a whole number, in way {i}.") for i in range(3)]
    answers = await asyncio.gather(*(library.create(one) for one in offers), return_exceptions=True)
    made = [one for one in answers if not isinstance(one, BaseException)]
    refused = [str(one) for one in answers if isinstance(one, BaseException)]
    assert len(made) == 1
    assert all("was changed by another process in the meantime" in text for text in refused)
    assert [one.version for one in await library.history("add_one")] == [1]


@pytest.mark.spec("SKILL-10")
async def test_a_lost_database_and_index_are_rebuilt_from_the_folders(tmp_path: Path, box: NamespaceSandbox) -> None:
    async with opened_library(tmp_path, box) as first:
        for name in ("celsius", "word_count"):
            await first.create(shelf(name))
        await first.set_state("word_count", SkillState.DISABLED)
        assert len(await first.search("anything")) == 1
    for path in [*tmp_path.glob("records.db*")]:
        path.unlink()
    (tmp_path / "skill_index.db").rename(tmp_path / "lost")
    async with opened_library(tmp_path, box) as second:
        assert [found.skill.name for found in await second.search("how warm is it in Celsius")] == ["celsius"]
        report, indexed = await second.reindex()
        assert (report.known, indexed) == (2, 1)


def another_process(pipe: "Connection[Any, Any]", home: Path) -> None:
    async def work() -> None:
        async with NamespaceSandbox() as box, opened_library(home, box) as library:
            pipe.send([one.name for one in await library.skills()])
            while (order := pipe.recv()) is not None:
                action, name = order
                if action == "create":
                    await library.create(shelf(name))
                elif action == "delete":
                    await library.delete(name)
                pipe.send((await names(library), await names(library, SHELF["celsius"])))

    asyncio.run(work())


async def soon(library: SkillLibrary, expected: list[str]) -> None:
    """Wait until the list is as expected. The deadline is much longer than the second that STATE-1 allows."""

    async def as_expected() -> bool:
        return await names(library) == expected

    await eventually(as_expected)


@pytest.mark.spec("STATE-1")
async def test_another_process_sees_new_and_deleted_skills(tmp_path: Path, box: NamespaceSandbox) -> None:
    async with opened_library(tmp_path, box) as here:
        assert await names(here, "warm") == []  # opens the index before there are any skills
        with other(another_process, tmp_path) as there:
            assert there.hear() == []
            await here.create(shelf("celsius"))
            assert there.ask(("look", "")) == (["celsius"], ["celsius"])
            assert there.ask(("create", "word_count"))[0] == ["celsius", "word_count"]
            await soon(here, ["celsius", "word_count"])
            assert "word_count" in await names(here, "how many words are in this text")
            there.ask(("delete", "celsius"))
            await soon(here, ["word_count"])
            assert await names(here, SHELF["celsius"]) == ["word_count"]
            there.pipe.send(None)
            assert there.end() == 0


@pytest.mark.spec("SKILL-12")
async def test_telemetry_counts_each_version_but_not_failures_that_are_not_the_skills_fault(
    library: SkillLibrary,
) -> None:
    await library.create(proposal())
    library.log_telemetry("add_one", success=True, latency_ms=10)
    library.log_telemetry("add_one", success=True, latency_ms=20)
    library.log_telemetry("add_one", success=False, failure_class=FailureClass.DIAGNOSTIC)
    library.log_telemetry("add_one", success=False, failure_class=FailureClass.RETRYABLE)
    library.log_telemetry("nobody", success=False)
    (found,) = await library.stats("add_one")
    assert (found.version, found.calls, found.successes, found.failures, found.uncounted) == (1, 4, 2, 1, 1)
    assert found.mean_ms == pytest.approx(15)
    assert await library.stats("nobody") == []


@pytest.mark.spec("SKILL-12")
async def test_telemetry_is_kept_after_the_process_ends(tmp_path: Path, box: NamespaceSandbox) -> None:
    async with opened_library(tmp_path, box) as first:
        await first.create(proposal())
        first.log_telemetry("add_one", success=True, latency_ms=1)
    async with opened_library(tmp_path) as second:
        assert [one.calls for one in await second.stats()] == [1]


async def test_a_failing_skill_ranks_below_a_working_one(tmp_path: Path, box: NamespaceSandbox) -> None:
    async with opened_library(tmp_path, box) as library:
        same = {"description": "Adds one to a whole number.", "examples": ("what comes after seven",)}
        for name in ("adder_first", "adder_other"):
            await library.create(replace(proposal(name), **same))  # type: ignore[arg-type]
        query = "what comes after seven"
        assert [one.skill.name for one in await library.search(query)] == ["adder_first", "adder_other"]
        for _ in range(20):
            library.log_telemetry("adder_first", success=False)
        assert [one.skill.name for one in await library.search(query)] == ["adder_other", "adder_first"]
