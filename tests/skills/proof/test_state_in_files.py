"""Skills that store state in files of their working folder."""

from pathlib import Path

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.prediction import parse_predictions
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.tools.skill_tool import skill_tool
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import context, opened_library

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-21")]

CODE = '''
import json
from pathlib import Path


def count_visits(name: str) -> int:
    """Count a visit and return how many there were.

    Args:
        name: of the visitor.
    """
    path = Path("visits.json")
    counts = json.loads(path.read_text()) if path.exists() else {}
    counts[name] = counts.get(name, 0) + 1
    path.write_text(json.dumps(counts))
    return counts[name]
'''
HEAD = "import json\nfrom pathlib import Path\nfrom count_visits import count_visits\n\n"
TESTS = f"""{HEAD}
def test_counts():
    assert count_visits("a") == 1
    assert count_visits("a") == 2
    assert count_visits("b") == 1
    assert count_visits("a") == 3


def test_begins_with_nothing():
    assert count_visits("a") == 1
    assert json.loads(Path("visits.json").read_text()) == {{"a": 1}}
"""


async def refusal(box: NamespaceSandbox, home: Path, code: str, tests: str, **more: object) -> str:
    offered = Proposal("count_visits", "Counts how often somebody came.", code, tests, **more)  # type: ignore[arg-type]
    async with opened_library(home, box, effort=Effort()) as library:
        with pytest.raises(SkillRefused) as refused:
            await library.create(offered)
    return str(refused.value)


async def test_a_counter_is_admitted_and_stores_its_count_in_the_workspace(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    async with opened_library(tmp_path, box, effort=Effort()) as library:
        skill = await library.create(Proposal("count_visits", "Counts how often somebody came.", CODE, TESTS))
        tool = skill_tool(skill, library)
        ctx = context(library, box, tmp_path / "work")
        assert [await tool.run(ctx, {"name": name}) for name in ("ann", "ann", "bob", "ann")] == [1, 2, 1, 3]


async def test_each_question_is_about_a_call_in_an_empty_folder(box: NamespaceSandbox, tmp_path: Path) -> None:
    weak = f'{HEAD}def test_counts():\n    assert count_visits("a") == 1\n'
    said = await refusal(box, tmp_path, CODE, weak)
    assert '{"arguments": {"name": ' in said
    wrong = parse_predictions([{"arguments": {"name": "a"}, "result": 1}, {"arguments": {"name": "A"}, "result": 2}])
    said = await refusal(box, tmp_path, CODE, weak, expected=wrong)
    assert "You expect `2` from `count_visits(name='A')`" in said
    assert "`count_visits(name='a')`" not in said


async def test_a_test_that_needs_the_files_of_another_is_refused_with_both_names(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    tests = f'{HEAD}def test_one():\n    assert count_visits("a") == 1\n\ndef test_two():\n    assert count_visits("a") == 2\n'
    said = await refusal(box, tmp_path, CODE, tests)
    assert "test_two fails alone, but passes when it finds the files that test_one leaves" in said
    assert "Each test begins in an empty folder" in said


async def test_state_in_a_variable_is_refused(box: NamespaceSandbox, tmp_path: Path) -> None:
    code = CODE.replace("json.loads(path.read_text()) if path.exists() else {}", "KEPT").replace(
        "def count", "KEPT = {}\n\n\ndef count"
    )
    assert "These tests share state" in await refusal(box, tmp_path, code, TESTS)


@pytest.mark.parametrize("place", ["/tmp", "~"])
async def test_files_outside_the_working_folder_are_named(box: NamespaceSandbox, tmp_path: Path, place: str) -> None:
    code = CODE.replace('Path("visits.json")', f'Path("{place}/visits.json").expanduser()')
    tests = TESTS.replace('    assert json.loads(Path("visits.json").read_text()) == {"a": 1}\n', "")
    said = await refusal(box, tmp_path, code, tests)
    assert "Files were left outside the working folder" in said
    assert "/visits.json. Only that folder is emptied" in said
