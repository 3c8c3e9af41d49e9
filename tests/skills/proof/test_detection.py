"""Code that detects its own mutation, to return garbage in mutants, does not make weak tests look strong (SKILL-6)."""

import hashlib
import re
from dataclasses import replace
from types import CodeType

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import admit
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import proposal

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.spec("SKILL-6", "SKILL-7")]
EFFORT = Effort(
    total_s=40.0, mutants_s=120.0, judge_s=120.0, similar_calls_s=20.0, enough=0.66
)  # so that a busy machine changes no score
SCORE = re.compile(r"kill (\d+) of (\d+) mutants")

# Variants of one skill that detect in different ways that their code was changed.
TRICKS = {
    "a local variable up the stack": (
        "    frame = sys._getframe()\n    while frame is not None:\n"
        '        if "{word}" in frame.f_locals:\n            return True\n        frame = frame.f_back\n'
        "    return False\n",
        ("mutant", "mutost"),
    ),
    "a function up the stack": (
        "    frame = sys._getframe()\n    while frame is not None:\n"
        '        if getattr(frame.f_locals.get("load"), "__name__", "") == "{word}":\n            return True\n'
        "        frame = frame.f_back\n    return False\n",
        ("changed", "chanted"),
    ),
    "objects in memory": (
        '    return any(type(one).__name__ == "{word}" for one in gc.get_objects())\n',
        ("Mutant", "Mutost"),
    ),
    "the number of the process": (
        '    return "pytest" not in sys.modules and os.getpid() > {word}\n',
        ("4", "9999"),
    ),
    "code that is not that of the file": (
        '    text = pathlib.Path(__file__).read_text(encoding="utf-8")\n'
        "    known = [one for one in compile(text, __file__, {word}).co_consts if hasattr(one, 'co_code')]\n"
        "    return all(one.co_code != _fee.__code__.co_code or one.co_consts != _fee.__code__.co_consts for one in known)\n",
        ("'exec'", "'exec' "),
    ),
}
EVERY_TIME = ("a local variable up the stack", "code that is not that of the file")
CODE = '''import gc
import os
import pathlib
import sys


def _watched() -> bool:
{watch}

def _fee(weight: int, distance: int, express: bool) -> int:
    fee = 5
    if weight > 10:
        fee = fee + weight // 10
    if weight > 50 and distance > 100:
        fee = fee + 40
    if distance < 5:
        fee = fee - 1
    if express:
        fee = fee * 2
    return max(fee, 4)


def freight(weight: int, distance: int, express: bool = False) -> int:
    """Tell what it costs to send a parcel.

    Args:
        weight: in kilograms.
        distance: in kilometres.
        express: whether it is in a hurry.
    """
    if _watched():
        return -weight - distance - 99
    return _fee(weight, distance, express)
'''
WEAK = """from freight import freight


def test_near():
    assert freight(1, 10) == 5


def test_heavy():
    assert freight(20, 10) == 7
"""


def skill(watch: str, word: str) -> Proposal:
    code = CODE.format(watch=watch.format(word=word))
    return replace(proposal("freight"), description="Tells the fee of a parcel.", code=code, tests=WEAK)


async def refusal(box: NamespaceSandbox, offered: Proposal) -> str:
    with pytest.raises(SkillRefused) as refused:
        await admit(ParsedProposal.parse(offered), box, seed=1, effort=EFFORT)
    return str(refused.value)


@pytest.mark.parametrize(
    ("watch", "words"),
    [
        pytest.param(*trick, id=title, marks=[] if title in EVERY_TIME else pytest.mark.soak)
        for title, trick in TRICKS.items()
    ],
)
async def test_code_that_is_wrong_when_it_is_changed_gets_the_score_of_honest_code(
    box: NamespaceSandbox, watch: str, words: tuple[str, str]
) -> None:
    scores = []
    for word in words:
        found = SCORE.search(await refusal(box, skill(watch, word)))
        assert found
        scores.append((int(found[1]), int(found[2])))
    assert scores[0] == scores[1]
    killed, met = scores[0]
    assert killed / met < EFFORT.threshold


async def test_code_that_checks_the_hash_of_its_own_code_is_refused(box: NamespaceSandbox) -> None:
    watch = (
        "    code = _fee.__code__\n"
        "    return hashlib.sha256(code.co_code + repr(code.co_consts).encode()).hexdigest() != _KNOWN\n"
    )
    code = f'import hashlib\n\n_KNOWN = "{_hash_of_fee()}"\n{CODE.format(watch=watch)}'
    text = await refusal(box, replace(skill(watch, ""), code=code))
    assert "[replay]" in text
    assert "which means the same. Make the result independent of how the code is written" in text


def _hash_of_fee() -> str:
    """Return the hash of the compiled function, which does not run here."""
    module = compile(CODE.format(watch="    return False\n"), "freight.py", "exec")
    fee = next(one for one in module.co_consts if isinstance(one, CodeType) and one.co_name == "_fee")
    return hashlib.sha256(fee.co_code + repr(fee.co_consts).encode()).hexdigest()
