"""What can be done already is not learned again: the tests of a new skill are given to those that there are."""

from pathlib import Path

import pytest

from acquired_skills.admission import admit
from acquired_skills.in_box.effort import Effort
from acquired_skills.proposal import SkillRefused
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import opened_library, proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-8")]
QUICK = Effort(stub_test_s=0.5, test_s=1.0, total_s=20.0, doubles_s=2.0)

MORE = "from {name} import {name}\n\n\ndef test_adds():\n    assert {name}(1) == 2\n\n\ndef test_ends():\n    assert {name}(-5) == 0\n"
CLAMPED = "return max(number + 1, 0)"


def clamped(name: str) -> object:
    return proposal(name, body=CLAMPED, tests=MORE.format(name=name))


async def test_one_that_a_skill_doubles_is_refused_by_its_name_and_one_that_does_more_is_not(
    box: NamespaceSandbox, tmp_path: Path
) -> None:
    async with opened_library(tmp_path, box, compared=20) as library:
        await library.create(proposal("add_one"))
        with pytest.raises(SkillRefused, match=r"\[duplicate\] The skill `add_one` passes all these tests already"):
            await library.create(proposal("increment"))
        made = await library.create(clamped("clamped_add"))  # type: ignore[arg-type]
        assert made.admission["compared"] == 1
        again = await library.create(proposal("add_one", body="return 1 + number"))
        assert (again.version, again.admission["compared"]) == (
            2,
            0,
        )  # it is there already, so nothing is learned twice


async def test_one_that_is_disabled_or_gone_doubles_nothing(box: NamespaceSandbox, tmp_path: Path) -> None:
    async with opened_library(tmp_path, box, compared=20) as library:
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
async def test_one_that_cannot_do_it_costs_a_moment_and_is_no_double(box: NamespaceSandbox, code: bytes) -> None:
    found = await admit(proposal(), box, seed=1, others={"other": code}, effort=QUICK)
    assert found.report["compared"] == 1
    assert found.report["mutants"]["killed"] == found.report["mutants"]["made"]


async def test_what_one_of_them_does_to_its_process_does_not_reach_the_next(box: NamespaceSandbox) -> None:
    meddling = b"import add_one\nadd_one.__dict__['add_one'] = None\n\ndef a_first(number): return 0\n"
    same = b"def b_second(number): return number + 1\n"
    with pytest.raises(SkillRefused, match="`b_second` passes"):
        await admit(proposal(), box, seed=1, others={"a_first": meddling, "b_second": same}, effort=QUICK)
