"""Collects the answers of a skill's mutants, and of a control group of equivalent variants (SKILL-6)."""

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.proof.answers import Data, RepeatedAnswers, format_answer, format_call
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.mutation.neutral import neutral_changes
from acquired_skills.proof.variants import Variants, first_difference

NEUTRAL = 3  # number of variants in the control group of a skill with one file


@dataclass(frozen=True, slots=True)
class MutantAnswers:
    """The answers of all mutants.

    Mutants that cannot be loaded are missing.

    Attributes:
        truth: The skill's answers, in the order of the calls.
        changes: For each mutant, the answers that differ from the skill's, by the index of the call.
        untried: Numbers of the mutants for which there was no time.
    """

    truth: Sequence[Data]
    changes: Mapping[int, Mapping[int, Data]]
    untried: frozenset[int] = frozenset()


async def ask_mutants(
    variants: Variants,
    calls: Sequence[Data],
    found: RepeatedAnswers,
    varying: frozenset[int],
    control: Sequence[Mutant] | None = None,
) -> MutantAnswers | ProposalProblem:
    """Return the answers of all mutants to these calls, or a problem when a neutral variant answers differently.

    Args:
        found: The skill's own answers.
        varying: Indices of nondeterministic calls.
        control: The control group; by default, it is made from the syntax trees of the skill.

    Raises:
        ValueError: The skill gives different answers when it runs among its mutants.
        SandboxError: No box can run.
    """
    if control is None:
        control = await asyncio.to_thread(_neutral, variants)
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
            raise ValueError("the results of the code differ between boxes, as if they depended on time or chance")
    changes: dict[int, Mapping[int, Data]] = {}
    for place in sorted(compared.others):
        variant, number = every[place]
        changed = compared.changes(place)
        if number is not None and changed is not None:
            changes[number] = changed
        if number is None and (at := await difference(compared.others[place], variant)) is not None:
            answers = compared.others[place]
            name, other = variants.runner.name, answers[at] if answers else None
            return _depends_on_its_text(name, calls[at], found.forth[at], other, variant)
    numbers = (every[place][1] for place in compared.untried)
    return MutantAnswers(compared.truth, changes, frozenset(number for number in numbers if number is not None))


def _neutral(variants: Variants) -> list[Mutant]:
    """Return the variants of the control group: at least one in each file of the skill."""
    rows = []
    for path, writer in {"": variants.writer, **variants.writer.modules}.items():
        mutants = [each for each in variants.mutants if each.path == path]
        rows.append(neutral_changes(writer.source.tree, mutants, NEUTRAL, _chance))
    in_turn = [each for turn in zip_longest(*rows) for each in turn if each is not None]
    return in_turn[: max(NEUTRAL, len(rows))]


def _depends_on_its_text(name: str, call: Data, answer: Data, other: Data | None, variant: Mutant) -> ProposalProblem:
    instead = format_answer(other) if other else "no result, because the file cannot be imported,"
    return ProposalProblem(
        "replay",
        f"{format_call(name, call)} gives {format_answer(answer)}, but {instead} when {variant.where} says "
        f"`{variant.after}` instead of `{variant.before}`, which means the same. Make the result independent of how "
        "the code is written, for example of its source text.",
    )


_chance = random.SystemRandom()  # unpredictable, so that no box can know it
