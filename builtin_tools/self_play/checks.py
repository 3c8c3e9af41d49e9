"""Judges answers by the check of an exercise, in a box. No answer is ever judged by a model."""

import json
from collections.abc import Sequence

from builtin_tools.self_play.cycles import Exercise
from sandbox.agent_sandbox import AgentSandbox
from sandbox.contract import Job, Limits, Sandbox

_LIMITS = Limits(wall_s=10.0, cpu_s=10.0)
# No question has these answers, so a check that accepts one of them accepts too much.
_STUBS = ("", " ", "None", "null", "[]", "{}", "True", "I do not know.", "The answer is correct.", "9e99", "qzxv")
_JUDGE = """
import json as _json

def _accepts(_answer):
    try:
        return check(_answer) is True
    except Exception:
        return False

"""


class UnusableCheck(Exception):
    """A check is not usable. The message says why."""


async def passes(sandbox: Sandbox, exercise: Exercise, answer: str) -> bool:
    """Return whether the check of an exercise accepts an answer. A check that fails does not accept it.

    Raises:
        SandboxError: No box can run.
    """
    try:
        return (await _verdicts(sandbox, exercise.check, [answer]))[0]
    except UnusableCheck:
        return False


async def validate(sandbox: Sandbox, exercise: Exercise) -> None:
    """Check that the check of an exercise accepts the right answer, and neither stubs nor the question.

    Raises:
        UnusableCheck: It does not.
        SandboxError: No box can run.
    """
    right = (await _verdicts(sandbox, exercise.check, [exercise.answer]))[0]
    if not right:
        raise UnusableCheck(f"The check refuses the answer that was given as right: {exercise.answer[:200]!r}.")
    wrong = [*_STUBS, exercise.question]
    accepted = [each for each, ok in zip(wrong, await _verdicts(sandbox, exercise.check, wrong), strict=True) if ok]
    if accepted:
        raise UnusableCheck(f"The check accepts {accepted[0][:200]!r}, which answers nothing. Make it exact.")


async def _verdicts(sandbox: Sandbox, check: str, answers: Sequence[str]) -> list[bool]:
    given = json.dumps(json.dumps([each.strip() for each in answers]))
    code = f"{check}\n{_JUDGE}[_accepts(_each) for _each in _json.loads({given})]\n"
    outcome = await AgentSandbox(sandbox, "self-play").run(Job(code=code, limits=_LIMITS))
    verdicts = outcome.value
    if not outcome.ok or not isinstance(verdicts, list) or len(verdicts) != len(answers):
        said = outcome.error.message if outcome.error is not None else f"it ended by {outcome.end}"
        raise UnusableCheck(f"The check failed: {said[:300]}")
    return [each is True for each in verdicts]
