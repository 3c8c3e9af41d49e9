"""`knackbox bench code`: both ways of a few tasks, with real modules, servers and boxes."""

import re

import pytest

from bench.programs.command import solve
from bench.programs.model import PROGRAM, SINGLE, StepwiseProgram
from bench.programs.operations import operations, perform
from bench.programs.records import MODULES, tables
from bench.programs.tasks import TASKS

pytestmark = pytest.mark.spec("CODE-5")

FILE_TOOL = "file_system"


@pytest.mark.timeout(240)
async def test_one_program_gives_the_answers_of_single_calls_with_a_fraction_of_the_tokens() -> None:
    rows = await solve(TASKS[:2])  # raises if an answer is wrong
    single, program = (row for row in rows if row["what"] == "tasks")
    assert (single["way"], single["tools"], program["way"], program["tools"]) == (SINGLE, 109, PROGRAM, 3)
    assert program["input"] < 0.2 * single["input"]
    assert program["new_input"] < single["new_input"]
    assert program["requests"] < single["requests"]
    assert len(rows) == 6


def test_every_program_uses_only_tools_that_are_offered() -> None:
    offered = {f"{module}_{each.name}" for module in MODULES for each in operations(module)}
    assert len(offered) == 84
    for task in TASKS:
        assert set(re.findall(r"tools\.(\w+)", task.program)) <= {*offered, FILE_TOOL}


def test_a_program_hands_out_its_calls_one_by_one_and_then_its_answer() -> None:
    steps = StepwiseProgram("answer = tools.double(x=2) + tools.double(x=tools.double(x=1))")
    for _ in range(3):
        name, given = steps.next()
        assert name == "double"
        steps.give(2 * given["x"])
    assert steps.next() == ("", 8)


def test_a_program_that_fails_ends_with_the_reason_as_its_answer() -> None:
    assert StepwiseProgram("answer = missing").next()[1].startswith("NameError")


def test_operations_read_pages_and_change_only_their_own_records() -> None:
    mine, others = tables(), tables()
    crm = {each.name: each for each in operations("crm")}
    first = perform(mine, crm["list_customers"], {})["rows"]
    second = perform(mine, crm["list_customers"], {"offset": len(first)})["rows"]
    assert [row["id"] for row in first + second] == list(range(1, 21))
    assert perform(mine, crm["update_deal"], {"id": 1, "field": "amount", "value": "7"})["amount"] == 7
    assert perform(mine, crm["create_note"], {"fields": {"name": "Visit"}})["id"] == 21
    assert perform(mine, crm["delete_note"], {"id": 21})["name"] == "Visit"
    with pytest.raises(LookupError, match="no record 21"):
        perform(mine, crm["get_note"], {"id": 21})
    assert perform(others, crm["count_deals"], {"field": "amount", "value": "7"})["count"] >= 0
    assert others == tables()
