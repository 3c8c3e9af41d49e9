"""Results that users correct become cases that the next version must satisfy (SKILL-13)."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from acquired_skills.lifecycle.corrections import same_value
from acquired_skills.model.skill import SkillError
from acquired_skills.store.corrected_calls import MOST_KEPT, CorrectedCall, CorrectedCalls
from engine import Engine
from engine.contract.result import ToolResult
from sandbox.namespace.backend import NamespaceSandbox
from tests.interfaces.cli import here
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS, opened_records, proposal

pytestmark = pytest.mark.spec("SKILL-13")
ON_THE_BOX = pytest.mark.asyncio(loop_scope="module")
WRONG = "return number + 1 if number < 10 else number + 2"
RIGHT = "return number + 1 if number >= 0 else 0 // 0"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory, box: NamespaceSandbox) -> AsyncIterator[Engine]:
    environ = {**ENVIRON_WITHOUT_MUTANTS, "KNACKBOX_SKILLS_COMPARED": "0"}
    async with Engine.open(tmp_path_factory.mktemp("home"), sandbox=box, environ=environ) as opened:
        yield opened


async def create(engine: Engine, name: str, body: str, **more: Any) -> ToolResult:
    offered = proposal(name, body)
    given = {"name": name, "description": offered.description, "code": offered.code, "tests": offered.tests}
    return await engine.call("create_skill", {**given, **more})


async def correct(engine: Engine, name: str, **case: Any) -> ToolResult:
    return await engine.call("manage_skills", {"action": "correct", "name": name, "case": case})


@ON_THE_BOX
@pytest.mark.spec("SKILL-9", "SKILL-11")
async def test_the_next_version_must_return_corrected_results_which_its_author_sees(engine: Engine) -> None:
    assert (await create(engine, "add_one", WRONG)).success
    corrected = await correct(engine, "add_one", arguments={"number": 20}, expect=21)
    assert "`add_one(number=20)` returns 22. The next version must give the right result" in corrected.text
    raising = await correct(engine, "add_one", arguments={"number": -1}, raises="ZeroDivisionError")
    assert "returns 0" in raising.text
    shown = (await engine.call("manage_skills", {"action": "show", "name": "add_one"})).text
    assert "assert add_one(number=20) == 21" in shown
    assert "with pytest.raises(ZeroDivisionError):\n        add_one(number=-1)" in shown
    refused = await create(engine, "add_one", f"{WRONG} + number - number")
    assert not refused.success
    assert "`add_one(number=20)` returns 22, but the correct result is 21, as local reported" in refused.error
    assert "the correct result is ZeroDivisionError" in refused.error
    repaired = await create(engine, "add_one", RIGHT)
    assert (repaired.success, repaired.output["version"]) == (True, 2), repaired.error
    again = await create(engine, "add_one", WRONG)
    assert not again.success  # a correction applies to every later version
    other = await create(engine, "add_one", WRONG, breaking=True)
    assert (other.success, other.output["version"]) == (True, 3), other.error
    assert "== 21" not in (await engine.call("manage_skills", {"action": "show", "name": "add_one"})).text


@ON_THE_BOX
@pytest.mark.spec("SKILL-9")
async def test_a_version_with_a_corrected_result_is_not_restored(engine: Engine) -> None:
    assert (await create(engine, "add_less", WRONG.replace("add_one", "add_less"))).success
    assert (await correct(engine, "add_less", arguments={"number": 20}, expect=21)).success
    assert (await create(engine, "add_less", RIGHT.replace("add_one", "add_less"))).success
    refused = await engine.call("manage_skills", {"action": "rollback", "name": "add_less"})
    assert not refused.success
    assert "Version 1 of `add_less` was not restored: `add_less(number=20)` returns 22, but the correct" in refused.text
    assert (await engine.call("add_less", {"number": 20})).output == 21


@ON_THE_BOX
async def test_a_wrong_result_counts_as_a_failure_once_and_a_right_one_does_not(engine: Engine) -> None:
    assert (await create(engine, "add_more", WRONG.replace("add_one", "add_more"))).success
    for _ in range(2):
        assert (await correct(engine, "add_more", arguments={"number": 30}, expect=31)).success
    right = await correct(engine, "add_more", arguments={"number": 1}, expect=2.0)
    assert "gives that result already" in right.text
    (stats,) = (await engine.call("manage_skills", {"action": "stats", "name": "add_more"})).output
    assert (stats["failures"], stats["successes"]) == (1, 0)
    for number in (31, 32):
        last = await correct(engine, "add_more", arguments={"number": number}, expect=number + 1)
    assert last.output["state"] == "quarantined"
    told = (await engine.call("add_more", {"number": 1})).error
    assert "assert add_more(number=30) == 31" in told


@ON_THE_BOX
async def test_an_invalid_correction_is_refused_with_the_reason(engine: Engine) -> None:
    assert (await create(engine, "add_file", "return int(open('n').read()) if number > 5 else number + 1")).success
    for case, said in (
        ({"arguments": {"number": 6}, "expect": 7}, "`add_file` reads files"),
        ({"arguments": {"nummer": 6}, "expect": 7}, "do not fit the parameters"),
        ({"arguments": {"number": 6}, "raises": "os.system('x')"}, "is not the type of an exception"),
        ({"arguments": {"number": 6}, "expect": 1, "raises": "KeyError"}, "correct needs `case`"),
    ):
        refused = await correct(engine, "add_file", **case)
        assert (refused.success, said in refused.error) == (False, True), refused.error
    unknown = await correct(engine, "add_file", arguments={"number": 4})
    assert unknown.success
    shown = (await engine.call("manage_skills", {"action": "show", "name": "add_file"})).text
    assert "def test_failed_1():  # reported as wrong\n    assert add_file(number=4) == ..." in shown


def test_a_correction_replaces_an_earlier_one_of_the_same_call_and_their_number_is_limited(tmp_path: Path) -> None:
    with opened_records(tmp_path) as records:
        kept = CorrectedCalls(records)
        assert kept.keep("add_one", CorrectedCall({"a": 1, "b": 2}, None)) is True
        assert kept.keep("add_one", CorrectedCall({"b": 2, "a": 1}, None)) is False
        assert kept.keep("add_one", CorrectedCall({"b": 2, "a": 1}, raises="KeyError")) is True
        assert [one.right for one in kept.of("add_one")] == ["KeyError"]
        for number in range(MOST_KEPT - 1):
            kept.keep("add_one", CorrectedCall({"a": number}, number))
        with pytest.raises(SkillError, match="withdraw"):
            kept.keep("add_one", CorrectedCall({"a": "one too many"}, 1))
        with pytest.raises(SkillError, match="JSON"):
            kept.keep("add_two", CorrectedCall({"a": float("nan")}, 1))
        assert (kept.withdraw("add_one", {"a": 3}), len(kept.of("add_one"))) == (1, MOST_KEPT - 1)
        assert (kept.withdraw("add_one"), kept.of("add_one")) == (MOST_KEPT - 1, [])


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [(1, 1.0, True), (1, True, False), (0.1 + 0.2, 0.3, True), ([1, {"a": None}], [1, {"a": None}], True), ([1, 2], [2, 1], False), ("1", 1, False)],
)  # fmt: skip
def test_values_are_compared_as_json(one: Any, other: Any, same: bool) -> None:
    assert same_value(one, other) is same_value(other, one) is same


@pytest.mark.spec("FACE-1")
def test_a_person_corrects_a_result_and_withdraws_the_correction(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNACKBOX_SKILLS_MUTANTS_KILLED", "0")
    offered, home = proposal(body=WRONG), ("--home", str(tmp_path / "data"), "skills")
    (tmp_path / "add_one.py").write_text(offered.code)
    (tmp_path / "tests.py").write_text(offered.tests)
    files = (str(tmp_path / "add_one.py"), "--tests", str(tmp_path / "tests.py"))
    assert here(capfd, *home, "add", *files, "-d", offered.description).code == 0
    assert "returns 22" in here(capfd, *home, "correct", "add_one", '{"number": 20}', "21").out
    assert "== 21" in here(capfd, *home, "show", "add_one").out
    assert here(capfd, *home, "correct", "add_one", '{"number": 20}', "--withdraw", "--json").last["withdrawn"] == 1
    assert "== 21" not in here(capfd, *home, "show", "add_one").out
    assert here(capfd, *home, "correct", "add_one", '{"number": 20}').code == 2
