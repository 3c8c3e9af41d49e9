"""Examines the mutants that no test kills (SKILL-6): each is a gap in the tests, or equivalent to the skill.

The skill and these mutants answer calls similar to those of the tests (`acquired_skills.proof.similar_calls`). A mutant
that answers one of them differently is a gap, and the call is a missing test case. A mutant that answers all of them
alike is taken as equivalent: no test could kill it, so it does not count against the tests.
"""

import json
from dataclasses import replace

from acquired_skills.proof.answers import Data, format_answer, format_call, same_answer
from acquired_skills.proof.judging import JudgedTests
from acquired_skills.proof.similar_calls import similar_calls
from acquired_skills.proof.variants import Variants

LEAST_ANSWERED = 10  # answered calls needed before a mutant can be called equivalent
MOST_EQUIVALENT = (
    0.25  # of all mutants; more means that the code hides its changes, or that much of it is never reached
)


async def examine_survivors(variants: Variants, found: JudgedTests, seed: int) -> JudgedTests:
    """Return the result with `cases`, and without equivalent mutants.

    It is unchanged when nothing can be found out. Raises SandboxError when no box can run.
    """
    runner, effort = variants.runner, variants.runner.effort
    left = [number for number, noticed in found.mutants.items() if not noticed]
    calls: list[Data] = [*similar_calls(found.calls, runner.parsed.code, effort.similar_calls, seed)] if left else []
    if not calls:
        return found
    calls += found.calls[: effort.similar_calls]
    try:
        answered = await variants.similar_answers(calls, left)
    except (ValueError, RecursionError):
        return found
    truth = {number: answer for number, answer in enumerate(answered.truth) if "value" in answer}
    enough = len(truth) >= LEAST_ANSWERED and len({json.dumps(each, sort_keys=True) for each in truth.values()}) > 1
    cases: dict[int, str] = {}
    equivalent: set[int] = set()
    for place in sorted(answered.others):
        number, others = left[place], answered.changes(place)
        differing = others or {}
        places = [at for at in differing if at in truth and not same_answer(truth[at], differing[at])]
        if places:
            at = places[0]
            cases[number] = _case(runner.name, calls[at], truth[at], differing[at])
        elif others == {} and number in found.alike and enough:
            equivalent.add(number)
    if len(equivalent) > MOST_EQUIVALENT * len(found.mutants):
        equivalent.clear()
    mutants = {number: noticed for number, noticed in found.mutants.items() if number not in equivalent}
    return replace(found, mutants=mutants, cases=cases, equivalent=len(equivalent))


def _case(name: str, call: Data, answer: Data, other: Data) -> str:
    return f"{format_call(name, call)} gives {format_answer(answer)}, and {format_answer(other)} when changed"
