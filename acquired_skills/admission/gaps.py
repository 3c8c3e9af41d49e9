"""Changes of the code that no test notices, looked at again (SKILL-6): real gaps, with a case each, or none at all.

The skill and these mutants answer calls near those of the tests (`acquired_skills.admission.nearby`). One that answers
otherwise somewhere is a gap, and the call a case for the tests. One that answers alike everywhere is taken as
equivalent, which no test could notice, and is not held against them.
"""

import json
from dataclasses import replace

from acquired_skills.admission.apart import Data, alike, came_shown, shown
from acquired_skills.admission.judging import Judged
from acquired_skills.admission.nearby import nearby
from acquired_skills.admission.variants import Variants

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
