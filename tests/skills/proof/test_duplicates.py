"""Duplicates are refused. The calls of a new skill's tests are made to similar existing skills."""

from dataclasses import replace
from pathlib import Path

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import admit
from acquired_skills.proof.duplicates import Neighbour
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import opened_library, proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-8")]
QUICK = Effort(
    stub_test_s=0.5, test_s=1.0, total_s=20.0, duplicates_s=2.0, enough=0.66, calls=0, every_gap=False
)  # asks nothing where the tests prove enough

MORE = "from {name} import {name}\n\n\ndef test_adds():\n    assert {name}(1) == 2\n\n\ndef test_ends():\n    assert {name}(-5) == 0\n"
CLAMPED = "return max(number + 1, 0)"


def clamped(name: str) -> Proposal:
    return proposal(name, body=CLAMPED, tests=MORE.format(name=name))


def asserting(line: str, **more: str) -> Proposal:
    return proposal(tests=f"from add_one import add_one\n\n\ndef test_adds():\n    {line}\n", **more)


async def test_a_duplicate_is_refused_with_the_name_of_the_skill_and_a_different_skill_is_not(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    async with opened_library(tmp_path, box, compared=5) as library:
        await library.create(proposal("add_one"))
        with pytest.raises(SkillRefused, match=r"\[duplicate\] The skill `add_one` already returns the same results"):
            await library.create(proposal("increment"))
        made = await library.create(clamped("clamped_add"))
        assert made.admission["compared"] == 1
        again = await library.create(proposal("add_one", body="return 1 + number"))
        assert (again.version, again.admission["compared"]) == (
            2,
            0,
        )  # the skill already exists, so it is not admitted again


async def test_disabled_and_deleted_skills_are_not_duplicates(box: NamespaceSandbox, tmp_path: Path) -> None:
    async with opened_library(tmp_path, box, compared=5) as library:
        await library.create(proposal("add_one"))
        await library.delete("add_one")
        assert (await library.create(proposal("increment"))).admission["compared"] == 0


BAD = {
    "cannot be imported": b"import nothing_of_this_name\n\ndef other(number): return number + 1\n",
    "has another signature": b"def other(): return 2\n",
    "never ends": b"def other(number):\n    while True: pass\n",
    "leaves": b"import os\n\ndef other(number): os._exit(0)\n",
    "leaves when imported": b"import os\nos._exit(0)\n",
    "raises what nobody catches": b"def other(number): raise SystemExit(0)\n",
    "has no such function": b"def another(number): return number + 1\n",
    "is no Python": b"def",
}


@pytest.mark.parametrize("code", BAD.values(), ids=BAD.keys())
async def test_a_neighbour_that_fails_or_hangs_is_not_a_duplicate(box: NamespaceSandbox, code: bytes) -> None:
    found = await admit(
        ParsedProposal.parse(proposal()), box, seed=1, neighbours=[Neighbour("other", SkillProgram(code))], effort=QUICK
    )
    assert found.report["compared"] == 1
    assert found.report["mutants"]["killed"] == found.report["mutants"]["made"]


async def test_a_neighbour_cannot_affect_the_process_of_the_next(box: NamespaceSandbox) -> None:
    meddling = b"import os\nos.setsid()\n\ndef a_first(number): return 0\n"
    same = b"def b_second(number): return number + 1\n"
    neighbours = [Neighbour("a_first", SkillProgram(meddling)), Neighbour("b_second", SkillProgram(same))]
    with pytest.raises(SkillRefused, match="`b_second` already returns"):
        await admit(ParsedProposal.parse(proposal()), box, seed=1, neighbours=neighbours, effort=QUICK)


async def test_a_neighbour_with_rich_types_is_called_as_an_agent_calls_it(box: NamespaceSandbox) -> None:
    code = b"import datetime\n\ndef other(number: int) -> datetime.date: return datetime.date(2026, 1, number)\n"
    offered = replace(
        asserting("assert [add_one(n) for n in (1, 2, 3)] == [f'2026-01-0{n}' for n in (1, 2, 3)]"),
        code='def add_one(number: int) -> str:\n    """A day.\n\n    Args:\n        number: which.\n    """\n'
        "    return f'2026-01-{number:02}'\n",
    )
    with pytest.raises(SkillRefused, match="`other` already returns"):
        await admit(
            ParsedProposal.parse(offered),
            box,
            seed=1,
            neighbours=[Neighbour("other", SkillProgram(code), plain=False)],
            effort=QUICK,
        )


# Each pretends to be a duplicate in another way that is possible in its box. None of them knows the correct answers.
FORGED = {
    "writes to every descriptor": (
        "import os\n\ndef other(number):\n    for each in range(3, 64):\n        try:\n            os.write(each, b'u')\n"
        "        except OSError:\n            pass\n    os._exit(0)\n"
    ),
    "looks for the answers": (
        "import sys\n\ndef other(number):\n    frame = sys._getframe()\n    while frame.f_back:\n"
        "        for each in frame.f_locals.get('calls') or ():\n            if each.get('positional') == [number]:\n"
        "                return each.get('value')\n        frame = frame.f_back\n    return 2\n"
    ),
    "equals everything": (
        "class All(int):\n    def __eq__(self, other): return True\n    __hash__ = None\n\ndef other(number): return All()\n"
    ),
    "answers for the asker": (
        "from acquired_skills.in_box import neighbour\nneighbour._answer = lambda *_: {'value': True, 'raised': 'x'}\n\n"
        "def other(number): return 0\n"
    ),
    "answers no list": (
        "from acquired_skills.in_box import neighbour\nneighbour._answer = lambda *_: '[' * 100_000\n\n"
        "def other(number): return 0\n"
    ),
}


@pytest.mark.parametrize("code", FORGED.values(), ids=FORGED.keys())
async def test_a_lying_neighbour_cannot_block_another_skill(box: NamespaceSandbox, code: str) -> None:
    offered = asserting("assert [add_one(n) for n in (1, 5, -7)] == [2, 6, -6]")
    found = await admit(
        ParsedProposal.parse(offered),
        box,
        seed=1,
        neighbours=[Neighbour("other", SkillProgram(code.encode()))],
        effort=QUICK,
    )
    assert found.report["compared"] == 1


FORGING = """exec('''
import sys, os
frame, names, sink = sys._getframe(), [], None
while frame is not None:
    names.append(frame.f_code.co_name)
    if frame.f_code.co_name == 'trial':
        sink = frame.f_locals['sink']
    frame = frame.f_back
if sink is not None and 'doubles' in names:
    os.write(sink, b'u')
    os._exit(0)
''')


"""


async def test_an_admitted_skill_never_runs_in_the_box_that_judges_another(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    """In an earlier design it ran in a fork beside the new skill's tests, and could forge their report."""
    async with opened_library(tmp_path, box, compared=5) as library:
        first = proposal("add_one", tests=MORE.format(name="add_one").replace("add_one(-5) == 0", "add_one(-5) == -4"))
        await library.create(replace(first, code=FORGING + first.code))
        made = await library.create(clamped("clamped_add"))
        assert made.admission["compared"] == 1


@pytest.mark.parametrize(
    ("line", "enough"),
    [
        ("assert add_one(1) == 2", True),
        ("assert (add_one(1), add_one(number=7)) == (2, 8)", True),
        ("assert (add_one(1), add_one(2j)) == (2, 1 + 2j)", False),
        ("assert [add_one(n) for n in (1, 2, 3, 2j)] == [2, 3, 4, 1 + 2j]", True),
    ],
)
async def test_a_comparison_needs_three_json_calls_or_all_calls_of_the_tests(
    box: NamespaceSandbox, line: str, enough: bool
) -> None:
    body = "return number + 1 if isinstance(number, int) else 1 + 2j"
    same = Neighbour("other", SkillProgram(b"def other(number): return 1 + number\n"))
    offered = asserting(f"assert add_one(1) == 2\n    {line}", body=body)
    effort = replace(QUICK, threshold=0.0)
    if enough:
        with pytest.raises(SkillRefused, match="`other` already returns"):
            await admit(ParsedProposal.parse(offered), box, seed=1, neighbours=[same], effort=effort)
    else:
        assert (await admit(ParsedProposal.parse(offered), box, seed=1, neighbours=[same], effort=effort)).report[
            "compared"
        ] == 0


async def test_texts_that_json_would_change_are_not_compared(box: NamespaceSandbox) -> None:
    same = Neighbour("other", SkillProgram(b"def other(number): return number\n"))
    code = (
        "def add_one(number: str) -> str:\n"
        '    """Join the halves of surrogate pairs."""\n'
        "    return number.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')\n"
    )
    tests = (
        "from add_one import add_one\n\n\ndef test_pairs():\n    high, low = chr(0xD83D), chr(0xDCA9)\n"
        "    assert add_one(high + low) == chr(0x1F4A9)\n    assert add_one('a' + high + low) == 'a' + chr(0x1F4A9)\n"
        "    assert add_one(high + low + high + low) == 2 * chr(0x1F4A9)\n\n\n"
        "def test_plain():\n    assert (add_one('plain'), add_one(''), add_one('é')) == ('plain', '', 'é')\n"
    )
    offered = replace(proposal(tests=tests), code=code, description="Joins the halves of surrogate pairs.")
    effort = replace(QUICK, threshold=0.0)
    found = await admit(ParsedProposal.parse(offered), box, seed=1, neighbours=[same], effort=effort)
    assert found.report["compared"] == 0


async def test_an_exception_is_an_answer_like_a_value(box: NamespaceSandbox) -> None:
    body = "if number < 0:\n        raise ValueError(number)\n    return number + 1"
    tests = (
        "import pytest\nfrom add_one import add_one\n\n\ndef test_adds():\n    assert (add_one(0), add_one(1)) == (1, 2)\n"
        "\n\ndef test_refuses():\n    with pytest.raises(ValueError, match='-1'):\n        add_one(-1)\n"
    )
    other = Neighbour("other", SkillProgram(b"def other(number): return number + 1\n"))
    found = await admit(
        ParsedProposal.parse(proposal(body=body, tests=tests)), box, seed=1, neighbours=[other], effort=QUICK
    )
    assert found.report["compared"] == 1
