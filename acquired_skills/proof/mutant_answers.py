"""Collects the answers of a skill's mutants, with a control group of variants that mean the same (SKILL-6)."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.proof.answers import Data, RepeatedAnswers, format_answer, format_call
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.mutation.neutral import neutral_changes
from acquired_skills.proof.variants import Variants, first_difference

NEUTRAL = 3  # variants in the control group


@dataclass(frozen=True, slots=True)
class MutantAnswers:
    """The answers of all mutants.

    Mutants that cannot be loaded, and those for which there was no time, are missing.

    Attributes:
        truth: the skill's answers, by call.
        changes: by mutant, its answers that differ, by call.
    """

    truth: Sequence[Data]
    changes: Mapping[int, Mapping[int, Data]]


async def ask_mutants(
    variants: Variants, calls: Sequence[Data], found: RepeatedAnswers, varying: frozenset[int]
) -> MutantAnswers | ProposalProblem:
    """Return the answers of all mutants to these calls, or a problem when a neutral variant answers differently.

    Args:
        found: the skill's own answers.
        varying: numbers of nondeterministic calls.

    Raises:
        ValueError: the skill answers differently among its mutants.
        SandboxError: no box can run.
    """
    control = neutral_changes(variants.writer.source.tree, variants.mutants, NEUTRAL, _chance)
    every: list[tuple[Mutant, int | None]] = [(mutant, number) for number, mutant in enumerate(variants.mutants)]
    for neutral in control:
        every.insert(_chance.randint(0, len(every)), (neutral, None))
    compared = await variants.compared(
        [each for each, _ in every], calls, usual_s=found.seconds, budget_s=variants.runner.effort.mutants_s
    )

    async def difference(others: Sequence[Data] | None, variant: Mutant | None) -> int | None:
        at = first_difference(found.forth, others, varying)
        if at is not None and others is not None and "ended" in others[at]:  # the machine may have been busy
            at = first_difference(found.forth, await variants.run_again(variant, calls, found.seconds), varying)
        return at

    for truth in (compared.truth, *compared.more):
        if await difference(truth, None) is not None:
            raise ValueError("its answers differ between boxes")
    changes: dict[int, Mapping[int, Data]] = {}
    for place in sorted(compared.others):
        variant, number = every[place]
        changed = compared.changes(place)
        if number is not None and changed is not None:
            changes[number] = changed
        if number is None and (at := await difference(compared.others[place], variant)) is not None:
            answers = compared.others[place]
            name, other = variants.runner.name, answers[at] if answers else None
            return _looks_at_itself(name, calls[at], found.forth[at], other, variant)
    return MutantAnswers(compared.truth, changes)


def _looks_at_itself(name: str, call: Data, answer: Data, other: Data | None, variant: Mutant) -> ProposalProblem:
    instead = format_answer(other) if other else "nothing, since it cannot be imported,"
    return ProposalProblem(
        "replay",
        f"{format_call(name, call)} gives {format_answer(answer)}, and {instead} when line {variant.line} says "
        f"`{variant.after}` instead of `{variant.before}`, which means the same: the result must not depend on how its "
        "own code is written.",
    )


_chance = random.SystemRandom()  # unpredictable, so that no box can know it
