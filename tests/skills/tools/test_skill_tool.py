"""A skill as a tool: its code in a fresh box for every call."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio

from acquired_skills.jobs.environment import preload_for
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.skill import SkillState
from acquired_skills.tools.skill_source import SkillSource
from engine import Engine
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.source import Tool, ToolSource
from engine.contract.spec import Origin
from engine.contract.turn import Turn
from engine.turn.assembly import active_list
from sandbox.contract import SandboxError
from sandbox.namespace.backend import NamespaceSandbox
from tests.eventually import eventually
from tests.skills.parts import NoSandbox, context, opened_library, proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-12")]

SANDBOX = frozenset({"sandbox"})
TESTS_OF_DIVISION = (
    "import pytest\nfrom add_one import add_one\n\n\ndef test_divides():\n    assert add_one(2) == 0.5\n    assert add_one(4) == 0.25\n"
    "    with pytest.raises(ZeroDivisionError):\n        add_one(0)\n"
)


@pytest_asyncio.fixture(loop_scope="module")
async def library(tmp_path: Path, box: NamespaceSandbox) -> AsyncIterator[SkillLibrary]:
    async with opened_library(tmp_path / "home", box) as opened:
        yield opened


@pytest.fixture(autouse=True)
def folders(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "workspace").mkdir(exist_ok=True)


async def tool_of(library: SkillLibrary, name: str = "add_one") -> Tool:
    found = await SkillSource(library).find(name)
    assert found is not None
    return found


async def run(library: SkillLibrary, box: Any, folder: Path, arguments: Mapping[str, Any]) -> Any:
    return await (await tool_of(library)).run(context(library, box, folder / "workspace"), arguments)


async def test_a_skill_is_a_tool_like_any_other(library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path) -> None:
    await library.create(proposal(timeout_s=5))
    tool = await tool_of(library)
    assert isinstance(tool, Tool)
    assert isinstance(SkillSource(library), ToolSource)
    assert (tool.spec.origin, tool.spec.version, tool.spec.name) == (Origin.ACQUIRED, "1", "add_one")
    assert tool.spec.timeout_s > 5
    assert await run(library, box, tmp_path, {"number": 41}) == 42
    (stats,) = await library.stats("add_one")
    assert (stats.calls, stats.successes) == (1, 1)
    assert stats.mean_ms
    assert await SkillSource(library).find("nobody") is None


async def test_an_exception_of_the_code_is_reported_and_counted(
    library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
) -> None:
    body = "if number < 0:\n        raise ValueError(f'{number} is below zero')\n    return number + 1"
    tests = (
        "import pytest\nfrom add_one import add_one\n\n\n@pytest.mark.parametrize('number', [0, 1])\n"
        "def test_adds(number):\n    assert add_one(number) == number + 1\n\n\n"
        "def test_below_zero():\n    with pytest.raises(ValueError):\n        add_one(-1)\n"
    )
    await library.create(proposal(body=body, tests=tests))
    with pytest.raises(ToolFailure, match="-3 is below zero") as failed:
        await run(library, box, tmp_path, {"number": -3})
    assert failed.value.failure_class is FailureClass.DIAGNOSTIC
    assert "add_one.py" in str(failed.value)
    (stats,) = await library.stats("add_one")
    assert (stats.calls, stats.failures) == (1, 1)


async def test_a_runaway_skill_is_killed_at_its_own_time_limit(
    library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
) -> None:
    tests = "from add_one import add_one\n\n\ndef test_adds():\n    assert [add_one(1), add_one(100)] == [2, 101]\n"
    body = "while number == 101: pass\n    return number + 1"
    await library.create(proposal(body=body, tests=tests, timeout_s=0.5))
    with pytest.raises(ToolFailure) as failed:
        await run(library, box, tmp_path, {"number": 101})
    assert failed.value.end in ("timeout", "cpu")


async def test_files_of_the_workspace_are_read_and_written_directly(
    library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
) -> None:
    code = (
        'import pathlib\n\n\ndef add_one(path: str) -> str:\n    """Copy a file, longer by one."""\n'
        "    text = pathlib.Path(path).read_text() + '1'\n    pathlib.Path('copy.txt').write_text(text)\n    return text\n"
    )
    tests = (
        "from add_one import add_one\n\n\ndef test_copy(tmp_path, monkeypatch):\n    monkeypatch.chdir(tmp_path)\n"
        "    (tmp_path / 'x.txt').write_text('0')\n    assert add_one('x.txt') == '01'\n"
        "    assert (tmp_path / 'copy.txt').read_text() == '01'\n"
    )
    await library.create(proposal(code=code, tests=tests))
    (tmp_path / "workspace" / "data.txt").write_text("abc")
    assert await run(library, box, tmp_path, {"path": "data.txt"}) == "abc1"
    assert {path.name for path in (tmp_path / "workspace").iterdir()} == {"data.txt", "copy.txt"}
    assert (tmp_path / "workspace" / "copy.txt").read_text() == "abc1"


async def test_rich_types_are_converted_in_the_box_both_ways(
    library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
) -> None:
    code = (
        "import enum\nfrom dataclasses import dataclass\nfrom datetime import date, timedelta\n\n\n"
        "class Step(enum.Enum):\n    DAY = 'day'\n    WEEK = 'week'\n\n\n@dataclass\nclass Span:\n    first: date\n    last: date\n\n\n"
        'def add_one(day: date, step: Step = Step.DAY) -> Span:\n    """Add one step to a day.\n\n    Args:\n        day: to start at.\n    """\n'
        "    return Span(day, day + timedelta(days=1 if step is Step.DAY else 7))\n"
    )
    tests = (
        "from datetime import date\nfrom add_one import Span, Step, add_one\n\n\ndef test_day():\n"
        "    assert add_one(date(2026, 1, 31)) == Span(date(2026, 1, 31), date(2026, 2, 1))\n\n\ndef test_week():\n"
        "    assert add_one(date(2026, 1, 1), Step.WEEK).last == date(2026, 1, 8)\n"
    )
    made = await library.create(proposal(code=code, tests=tests))
    assert not made.plain
    given = {"day": "2026-02-28", "step": "week"}
    assert await run(library, box, tmp_path, given) == {"first": "2026-02-28", "last": "2026-03-07"}


async def test_instances_of_own_classes_and_arrays_are_converted_in_the_box_both_ways(
    library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
) -> None:
    code = (
        "import numpy as np\n\n\nclass Node:\n    def __init__(self, value, next=None):\n"
        "        self.value = value\n        self.next = next\n\n\n"
        'def add_one(node: Node, steps: np.ndarray) -> Node:\n    """Add the sum of the steps to every node of a list.\n\n'
        '    Args:\n        node: the first node.\n        steps: the steps.\n    """\n'
        "    rest = None if node.next is None else add_one(node.next, steps)\n"
        "    return Node(node.value + steps.sum(), rest)\n"
    )
    tests = (
        "import numpy as np\nfrom add_one import Node, add_one\n\n\ndef test_two():\n"
        "    found = add_one(Node(1, Node(5)), np.array([1, 2]))\n"
        "    assert (found.value, found.next.value, found.next.next) == (4, 8, None)\n"
    )
    made = await library.create(proposal(code=code, tests=tests))
    assert not made.plain
    given = {"node": {"value": 1, "next": {"value": 2}}, "steps": [3]}
    added = {"value": 4, "next": {"value": 5, "next": None}}
    assert await run(library, box, tmp_path, given) == added
    (tmp_path / "workspace").mkdir(exist_ok=True)
    np.save(tmp_path / "workspace" / "steps.npy", np.array([1, 2]))
    assert await run(library, box, tmp_path, {**given, "steps": "steps.npy"}) == added


async def test_a_plain_signature_that_returns_a_set_is_converted_too(
    library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
) -> None:
    tests = "from add_one import add_one\n\n\ndef test_x():\n    assert add_one(1) == {2}\n"
    made = await library.create(proposal(body="return {number + 1}", tests=tests))
    assert not made.plain
    assert await run(library, box, tmp_path, {"number": 1}) == [2]


@pytest.mark.spec("SKILL-18")
async def test_a_result_that_does_not_fit_the_return_annotation_counts_as_a_failure(
    library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
) -> None:
    code = (
        'import json\n\n\ndef add_one(text: str) -> dict[str, int]:\n    """Read numbers."""\n'
        "    print('reading')\n    return json.loads(text)\n"
    )
    tests = "from add_one import add_one\n\n\ndef test_reads():\n    assert add_one('{\"a\": 3}') == {'a': 3}\n"
    made = await library.create(proposal(code=code, tests=tests))
    numbers = {"type": "object", "additionalProperties": {"type": "integer"}}
    assert (made.returns, (await tool_of(library)).spec.returns) == (numbers, numbers)
    assert (await run(library, box, tmp_path, {"text": '{"b": 4}'})) == {"b": 4}
    with pytest.raises(ToolFailure, match='`b`: given "x", expected integer') as failed:
        await run(library, box, tmp_path, {"text": '{"b": "x"}'})
    assert (failed.value.failure_class, failed.value.reason) == (FailureClass.DIAGNOSTIC, "output_misfit")
    assert "It printed:\nreading" in str(failed.value)
    (stats,) = await library.stats("add_one")
    assert (stats.successes, stats.failures) == (1, 1)


@pytest.mark.spec("SKILL-18")
async def test_an_annotation_that_the_tests_contradict_gives_no_output_schema(
    library: SkillLibrary, box: NamespaceSandbox, tmp_path: Path
) -> None:
    code = 'def add_one(number: int) -> int:\n    """Add one."""\n    return str(number + 1)\n'
    tests = "from add_one import add_one\n\n\ndef test_adds():\n    assert add_one(1) == '2'\n"
    made = await library.create(proposal(code=code, tests=tests))
    assert made.returns is None
    assert await run(library, box, tmp_path, {"number": 1}) == "2"


async def test_a_disabled_skill_says_so_and_is_not_run(library: SkillLibrary, tmp_path: Path) -> None:
    await library.create(proposal())
    await library.set_state("add_one", SkillState.DISABLED)
    with pytest.raises(ToolFailure, match="is disabled") as failed:
        await run(library, NoSandbox(), tmp_path, {"number": 1})
    assert not failed.value.may_have_started


async def test_code_that_was_changed_by_hand_is_not_run(library: SkillLibrary, tmp_path: Path) -> None:
    await library.create(proposal())
    listed = await tool_of(library)
    (tmp_path / "home" / "acquired_skills" / "add-one" / "scripts" / "add_one.py").write_text("import os")
    with pytest.raises(ToolFailure, match="was changed after it was admitted") as failed:
        await listed.run(context(library, NoSandbox(), tmp_path / "workspace"), {"number": 1})
    assert failed.value.failure_class is FailureClass.FATAL
    assert await SkillSource(library).find("add_one") is None, "it is set aside when it is looked for next"


async def test_a_box_that_could_not_run_does_not_count_against_the_skill(library: SkillLibrary, tmp_path: Path) -> None:
    class Broken(NoSandbox):
        async def run(self, job: Any, *, on_output: Any = None) -> Any:
            raise SandboxError("No box today.")

    await library.create(proposal())
    with pytest.raises(SandboxError):
        await run(library, Broken(), tmp_path, {"number": 1})
    (stats,) = await library.stats("add_one")
    assert (stats.calls, stats.failures, stats.uncounted) == (1, 0, 1)


async def test_one_template_serves_skills_that_import_the_same_heavy_library() -> None:
    assert preload_for(("json", "numpy")) == ("numpy",)
    assert preload_for(("numpy", "pandas")) == ("pandas",)
    assert preload_for(("json",)) == ()


@pytest.mark.spec("SKILL-14")
async def test_requests_for_which_a_skill_succeeded_help_to_find_it(tmp_path: Path, box: NamespaceSandbox) -> None:
    failing, asked = "Viktor jagt zwölf Boxkämpfer", "the weather in Rome, please"
    async with Engine.open(tmp_path, environ={}, sandbox=box) as engine:
        library = engine.need(SkillLibrary)
        await library.create(proposal(body="return 1 / number", tests=TESTS_OF_DIVISION))
        assert not (await engine.call("add_one", {"number": 0}, Turn(query=failing))).success
        assert (await engine.call("add_one", {"number": 2}, Turn(query=asked))).output == 0.5

        async def nearest(query: str) -> float:
            (found,) = await library.search(query, fits=0)
            return found.similarity

        async def is_learned() -> bool:
            return await nearest(asked) > 0.99

        await eventually(is_learned)
        assert await nearest(failing) < 0.5
        tools = await SkillSource(library).tools(Turn(query=asked))
        assert "Rome" not in str([tool.spec for tool in tools])  # requests are never shown


@pytest.mark.spec("SKILL-14", "LIST-3")
async def test_a_list_says_when_no_skill_fits(library: SkillLibrary, box: NamespaceSandbox) -> None:
    await library.create(proposal())
    library.fits = 0.15
    source = SkillSource(library)
    for_nothing = await active_list([source], Turn(query="good morning"), SANDBOX)
    assert for_nothing.tools == ()
    (dropped,) = for_nothing.dropped
    assert dropped.name == "acquired skills"
    assert "nothing fits" in dropped.reason
    fitting = await active_list([source], Turn(query="add one to a whole number"), SANDBOX)
    assert [tool.spec.name for tool in fitting.tools] == ["add_one"]
    assert fitting.dropped == ()
