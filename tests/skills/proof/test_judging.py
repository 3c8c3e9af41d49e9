"""Judging runs the skill and its tests separately: what it refuses and what it accepts."""

from dataclasses import replace
from typing import Any

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import admit
from acquired_skills.proof.admission_report import report_lines, report_summary
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-7")]
QUICK = Effort(
    stub_test_s=0.5, test_s=1.0, total_s=15.0, enough=0.66, calls=0, every_gap=False
)  # asks nothing where the tests prove enough
HEAD = "import pytest\nfrom add_one import add_one\n\n\n"
SOUND = "def test_adds():\n    assert (add_one(1), add_one(5)) == (2, 6)\n"


async def refusal(box: NamespaceSandbox, offered: Proposal) -> str:
    with pytest.raises(SkillRefused) as refused:
        await admit(ParsedProposal.parse(offered), box, seed=1, effort=QUICK)
    return str(refused.value)


def skill(code: str, tests: str) -> Proposal:
    return replace(proposal(), code=code, tests=HEAD + tests)


LIES = {
    "right only where pytest is": (
        "import sys\n    return number + 1 if 'pytest' in sys.modules else 0",
        "gives `2` with its tests and `0` without them",
    ),
    "right only once": (
        "import sys\n    sys.seen = getattr(sys, 'seen', 0) + 1\n    return number + (sys.seen <= 2)",
        "only in the same process as the code",
    ),
    "reads its tests": (
        "import re, pathlib\n    text = pathlib.Path(__file__).with_name('test_add_one.py').read_text()\n"
        "    return number + (1 if 'assert' in text else 2)",
        "gives `2` with its tests and FileNotFoundError without them",
    ),
    "is equal to everything": (
        "class All(int):\n        __hash__ = None\n        def __eq__(self, other): return True\n    return All(0)",
        "test_adds passes only in the same process as the code",
    ),
}


@pytest.mark.parametrize(("body", "says"), LIES.values(), ids=LIES.keys())
async def test_code_that_is_correct_only_when_run_with_its_tests_is_refused_with_the_reason(
    box: NamespaceSandbox, body: str, says: str
) -> None:
    text = await refusal(box, proposal(body=body, tests=HEAD + SOUND))
    assert "[replay]" in text
    assert says in text


@pytest.mark.spec("SKILL-4")
@pytest.mark.parametrize(
    "line",
    [
        "assert isinstance(add_one(1), int)",
        "assert add_one(1) == add_one(1)",
        "assert add_one(1) is not None",
        "assert str(add_one(1)).lstrip('-').isdigit()",
    ],
)
async def test_a_test_that_passes_on_any_answer_of_the_same_kind_is_named(box: NamespaceSandbox, line: str) -> None:
    text = await refusal(box, proposal(tests=HEAD + SOUND + f"\n\ndef test_kind():\n    {line}\n"))
    assert "[red] test_kind" in text
    assert "test_adds" not in text


@pytest.mark.spec("SKILL-4")
async def test_a_test_that_accepts_any_exception_is_named(box: NamespaceSandbox) -> None:
    body = "if number < 0:\n        raise ValueError(number)\n    return number + 1"
    any_will_do = "\n\ndef test_raises():\n    with pytest.raises({}):\n        add_one(-1)\n"
    assert "[red] test_raises" in await refusal(
        box, proposal(body=body, tests=HEAD + SOUND + any_will_do.format("Exception"))
    )
    found = await admit(
        ParsedProposal.parse(proposal(body=body, tests=HEAD + SOUND + any_will_do.format("ValueError"))),
        box,
        seed=1,
        effort=QUICK,
    )
    assert found.tests == 2


@pytest.mark.spec("SKILL-6")
async def test_if_one_answer_satisfies_all_tests_mutants_that_only_raise_do_not_count_as_killed(
    box: NamespaceSandbox,
) -> None:
    guards = "".join(f"if {n} + {n} != {2 * n}:\n        raise ValueError(number)\n    " for n in range(3, 13))
    weak = proposal(body=guards + "return 2", tests=HEAD + "def test_adds():\n    assert add_one(1) == 2\n")
    text = await refusal(box, weak)
    assert "They would all pass if the function always returned `2`" in text


MODELS = '''
import dataclasses
import enum
from pathlib import Path

_STEP = 1


class Kind(enum.Enum):
    ODD = "odd"
    EVEN = "even"


class TooSmall(ValueError):
    """Below nothing."""


@dataclasses.dataclass
class Found:
    number: int
    kind: Kind


def add_one(number: int, seen: list[int] | None = None, path: str = "") -> Found:
    """Add one, note it, and say of which kind it is.

    Args:
        number: to add to.
        seen: notes it.
        path: file to note it in.
    """
    if number < 0:
        raise TooSmall(f"{number} is below 0")
    if seen is not None:
        seen.append(number)
    if path:
        Path(path).write_text(str(number + _STEP))
    return Found(number + _STEP, Kind.EVEN if number % 2 else Kind.ODD)
'''
MODEL_TESTS = """import add_one as module
from add_one import Found, Kind, TooSmall


def test_fields():
    assert add_one(1) == Found(2, Kind.EVEN)
    assert add_one(2).kind is Kind.ODD


def test_raises():
    with pytest.raises(TooSmall, match="-1 is below"):
        add_one(-1)


def test_changes_its_argument():
    seen = [7]
    add_one(1, seen)
    assert seen == [7, 1]


def test_writes_a_file(tmp_path):
    add_one(4, path=str(tmp_path / "noted"))
    assert (tmp_path / "noted").read_text() == "5"


def test_reaches_in(monkeypatch):
    monkeypatch.setattr(module, "_STEP", 10)
    assert add_one(1).number == 11
"""


async def test_classes_exceptions_changed_arguments_and_files_are_passed_between_boxes(
    box: NamespaceSandbox,
) -> None:
    found = await admit(ParsedProposal.parse(skill(MODELS, MODEL_TESTS)), box, seed=1, effort=QUICK)
    assert found.report["not_replayed"] == ["test_reaches_in"]
    assert found.report["replayed"] >= 5
    assert found.report["red"]["test_writes_a_file"]


async def test_tests_that_all_patch_prove_nothing_and_the_refusal_asks_for_a_plain_test(box: NamespaceSandbox) -> None:
    tests = MODEL_TESTS[: MODEL_TESTS.index("def test_fields")] + MODEL_TESTS[MODEL_TESTS.index("def test_reaches") :]
    text = await refusal(box, skill(MODELS, tests))
    assert "No test calls `add_one` with plain values" in text
    assert "test_reaches_in" in text


async def test_refusals_are_short_and_reports_are_bounded_and_tolerate_malformed_data(box: NamespaceSandbox) -> None:
    body = (
        "\n    ".join(f"if number == {n}:\n        return {n * 7}" for n in range(100, 160)) + "\n    return number + 1"
    )
    assert len(await refusal(box, proposal(body=body, tests=HEAD + SOUND))) < 1_500
    found = await admit(ParsedProposal.parse(proposal(tests=HEAD + SOUND)), box, seed=1, effort=QUICK)
    told = "\n".join(report_lines(found.report))
    for part in (
        "test_adds fails on",
        "runs in random orders",
        "calls replayed without the tests: 2",
        "mutants killed:",
        "took ",
    ):
        assert part in told
    assert report_summary(found.report).startswith("1 tests, ")
    nonsense: dict[str, Any] = {"tests": 7, "red": [], "mutants": {"killed": "all", "survived": 3}, "seconds": None}
    assert (list(report_lines(nonsense)), report_summary(nonsense)) == ([], "")
