"""The answers of a skill's mutants, held against a control group of variants that mean the same (SKILL-6)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from acquired_skills.model.proposal import Problem
from acquired_skills.proof.isolated_runner import Answers, Data, came_shown, shown
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.mutation.neutral import neutrals
from acquired_skills.proof.variants import Variants, first_difference

NEUTRAL = 3  # variants in the control group


@dataclass(frozen=True, slots=True)
class Mutated:
    """truth: the skill's answers, by call. changes: by mutant, what it answers differently, by call.

    Mutants that cannot be loaded, and those for which there was no time, are not among them.
    """

    truth: Sequence[Data]
    changes: Mapping[int, Mapping[int, Data]]


async def mutants_answers(
    variants: Variants, calls: Sequence[Data], found: Answers, shaky: frozenset[int]
) -> Mutated | Problem:
    """The answers of all mutants to these calls; a problem when a neutral variant answers differently.

    found: the skill's own answers. shaky: calls that it never answers the same way. Raises ValueError when the skill
    itself answers differently among its mutants, SandboxError when no box can run.
    """
    control = neutrals(variants.source.tree, variants.mutants, NEUTRAL, _chance)
    every: list[tuple[Mutant, int | None]] = [(mutant, number) for number, mutant in enumerate(variants.mutants)]
    for neutral in control:
        every.insert(_chance.randint(0, len(every)), (neutral, None))
    compared = await variants.compared(
        [each for each, _ in every], calls, usual_s=found.seconds, budget_s=variants.apart.effort.mutants_s
    )

    async def difference(others: Sequence[Data] | None, variant: Mutant | None) -> int | None:
        at = first_difference(found.forth, others, shaky)
        if at is not None and others is not None and "ended" in others[at]:  # the machine may have been busy
            at = first_difference(found.forth, await variants.once_more(variant, calls, found.seconds), shaky)
        return at

    for truth in (compared.truth, *compared.more):
        if await difference(truth, None) is not None:
            raise ValueError("it answers otherwise in another box")
    changes: dict[int, Mapping[int, Data]] = {}
    for place in sorted(compared.others):
        variant, number = every[place]
        changed = compared.changes(place)
        if number is not None and changed is not None:
            changes[number] = changed
        if number is None and (at := await difference(compared.others[place], variant)) is not None:
            answers = compared.others[place]
            name, other = variants.apart.proposal.name, answers[at] if answers else None
            return _looks_at_itself(name, calls[at], found.forth[at], other, variant)
    return Mutated(compared.truth, changes)


def _looks_at_itself(name: str, call: Data, answer: Data, other: Data | None, variant: Mutant) -> Problem:
    instead = came_shown(other) if other else "nothing, since it cannot be imported,"
    return Problem(
        "replay",
        f"{shown(name, call)} gives {came_shown(answer)}, and {instead} when line {variant.line} says "
        f"`{variant.after}` in place of `{variant.before}`, which means the same: it must not depend on how its own "
        "code is written.",
    )


_chance = random.SystemRandom()  # what no box may know has no seed
