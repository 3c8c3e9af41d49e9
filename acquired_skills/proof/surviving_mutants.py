"""Examines the mutants that no test kills (SKILL-6): each is a gap in the tests, or equivalent to the skill.

The skill and these mutants answer calls similar to those of the tests (`acquired_skills.proof.similar_calls`). A mutant
that answers one of them differently is a gap, and the call is a missing test case. A mutant that answers all of them
alike is taken as equivalent: no test could kill it, so it does not count against the tests.
"""

import json
from dataclasses import replace

from acquired_skills.proof.isolated_runner import Data, alike, came_shown, shown
from acquired_skills.proof.judging import Judged
from acquired_skills.proof.similar_calls import nearby
from acquired_skills.proof.variants import Variants

LEAST_ANSWERED = 10  # calls that have to be answered before anything is taken as equivalent
MOST_EQUIVALENT = 0.25  # of all mutants: code that hides its changes, or has much that no call reaches, has more


async def with_gaps(variants: Variants, found: Judged, seed: int) -> Judged:
    """The same, with `cases`, and equivalent ones no longer among the `mutants`.

    When nothing can be found out it stays as it is. Raises SandboxError when no box can run.
    """
    apart, effort = variants.apart, variants.apart.effort
    left = [number for number, noticed in found.mutants.items() if not noticed]
    calls: list[Data] = [*nearby(found.calls, apart.proposal.code, effort.nearby, seed)] if left else []
    if not calls:
        return found
    calls += found.calls[: effort.nearby]
    try:
        answered = await variants.nearby(calls, left)
    except (ValueError, RecursionError):
        return found
    truth = {number: answer for number, answer in enumerate(answered.truth) if "value" in answer}
    enough = len(truth) >= LEAST_ANSWERED and len({json.dumps(each, sort_keys=True) for each in truth.values()}) > 1
    cases: dict[int, str] = {}
    equivalent: set[int] = set()
    for place in sorted(answered.others):
        number, others = left[place], answered.changes(place)
        differing = others or {}
        told = [at for at in differing if at in truth and not alike(truth[at], differing[at])]
        if told:
            at = told[0]
            cases[number] = _case(apart.proposal.name, calls[at], truth[at], differing[at])
        elif others == {} and number in found.alike and enough:
            equivalent.add(number)
    if len(equivalent) > MOST_EQUIVALENT * len(found.mutants):
        equivalent.clear()
    mutants = {number: noticed for number, noticed in found.mutants.items() if number not in equivalent}
    return replace(found, mutants=mutants, cases=cases, equivalent=len(equivalent))


def _case(name: str, call: Data, answer: Data, other: Data) -> str:
    return f"{shown(name, call)} gives {came_shown(answer)}, and {came_shown(other)} when changed"
