"""Makes the same calls to a skill and to its variants, each in its own box (SKILL-6).

Every box gets one program as a file, with the same calls and time limits. The skill itself runs repeatedly among its
variants, at positions that only the engine knows, and the variants' answers are compared with those of these runs. So a
program can find out which variant it is only from its own text, not from a clock or a counter.
"""

import asyncio
import random
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from acquired_skills.proof.answers import Data, same_answer
from acquired_skills.proof.facts import IsolatedAnswers
from acquired_skills.proof.isolated_runner import IsolatedRunner
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.mutation.programs import MutantWriter

SHORTEST_S = 0.5
SLOWER = 10  # a variant may take this many times as long as the skill
EACH_S = 0.1  # time limit in seconds of one call that no test makes
AT_ONCE = 3  # number of boxes that run at the same time
EVERY = 8  # number of variants in a group; the skill itself runs once in each group
_ENDED = {"ended": True}
_ITSELF = -1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class VariantAnswers:
    """The answers of a skill and its variants.

    Variants that cannot be written as programs are left out.

    Attributes:
        truth: The skill's answers, in the order of the calls.
        more: The skill's answers in each of its further runs among its variants.
        others: The answers of the variants, by number; None for a variant that cannot be loaded.
        untried: Numbers of the variants for which there was no time.
    """

    truth: Sequence[Data]
    more: Sequence[Sequence[Data]] = ()
    others: Mapping[int, Sequence[Data] | None] = field(default_factory=dict)
    untried: frozenset[int] = frozenset()

    def changes(self, number: int) -> dict[int, Data] | None:
        """Return a variant's answers that differ from the skill's, by the index of the call.

        The result is None if the variant cannot be loaded.
        """
        answers = self.others[number]
        if answers is None:
            return None
        return {i: one for i, (one, true) in enumerate(zip(answers, self.truth, strict=True)) if one != true}

    def rotated(self, first: int) -> "VariantAnswers":
        """Return the same answers with those to the first `first` calls at the end."""
        others = {n: each and [*each[first:], *each[:first]] for n, each in self.others.items()}
        more = [[*each[first:], *each[:first]] for each in self.more]
        return VariantAnswers([*self.truth[first:], *self.truth[:first]], more, others, self.untried)


@dataclass(frozen=True, slots=True)
class Variants:
    """Runs a skill and its variants.

    Attributes:
        runner: Runs one program.
        writer: Writes variants as programs.
        mutants: All mutants of the skill, by number.
    """

    runner: IsolatedRunner
    writer: MutantWriter
    mutants: Sequence[Mutant] = ()

    async def compared(
        self, variants: Sequence[Mutant], calls: Sequence[Data], *, usual_s: float, budget_s: float, each_s: float = 0.0
    ) -> VariantAnswers:
        """Make the same calls to the skill and to these variants.

        When the time runs out, the remaining variants are skipped.

        Args:
            usual_s: The time in seconds that the skill takes for the calls.
            budget_s: Time limit in seconds for all variants together.
            each_s: Time limit for one call in seconds; 0 for none.

        Raises:
            ValueError: The box of the skill itself returned no answers.
            SandboxError: No box can run.
        """
        collected: dict[int, IsolatedAnswers] = {}
        untried: set[int] = set()
        itself: list[IsolatedAnswers] = []
        asking = _Asking(self, variants, calls, self.patience(usual_s), each_s)
        deadline = asyncio.get_running_loop().time() + budget_s
        rest = iter(_order(len(variants)))

        async def some() -> None:
            for number in rest:
                if number == _ITSELF:
                    itself.append(await asking.itself())
                    continue
                try:
                    async with asyncio.timeout_at(deadline):
                        answered = await asking.variant(number)
                        if answered is not None:
                            collected[number] = answered
                except TimeoutError:
                    untried.add(number)

        await gather_or_cancel(*(some() for _ in range(AT_ONCE)))
        truth, *more = (each["answers"] or [dict(_ENDED)] * len(calls) for each in itself)
        others = {number: each["answers"] for number, each in collected.items()}
        return VariantAnswers(truth, more, others, frozenset(untried))

    async def run_again(self, variant: Mutant | None, calls: Sequence[Data], usual_s: float) -> Sequence[Data] | None:
        """Repeat the calls of `compared` and return the answers of a variant, or of the skill if `variant` is None."""
        asking = _Asking(self, [variant] if variant else [], calls, self.patience(usual_s), 0.0)
        collected = await asking.variant(0) if variant else await asking.itself()
        return collected["answers"] if collected else None

    async def similar_answers(self, calls: Sequence[Data], changes: Sequence[Mutant]) -> VariantAnswers:
        """Make calls that no test makes to the skill and to these variants of it, and return the answers.

        If the skill answers a call slowly or nondeterministically, all answers to the call are `_ENDED`. In the result,
        variants are numbered by their position in `changes`.

        Raises:
            ValueError: The box of the skill itself returned no answers.
            SandboxError: No box can run.
        """
        code, seconds = self.writer.source.text, self.runner.effort.similar_calls_s
        collected = await self.runner.run_program(code, calls, seconds / 4, EACH_S)
        once = collected["answers"] or [_ENDED] * len(calls)
        steady = [i for i, one in enumerate(once) if "value" in one or ("raised" in one and not _took_too_long(one))]
        found = await self.compared(
            changes,
            [calls[i] for i in steady],
            usual_s=collected["seconds"],
            budget_s=max(0.0, seconds - collected["seconds"]),
            each_s=SLOWER * EACH_S,
        )
        truths = [found.truth, *found.more]
        sound = {i: place for place, i in enumerate(steady) if all(each[place] == once[i] for each in truths)}

        def placed(answers: Sequence[Data]) -> list[Data]:
            return [answers[sound[i]] if i in sound else _ENDED for i in range(len(calls))]

        others = {n: None if answers is None else placed(answers) for n, answers in found.others.items()}
        return VariantAnswers(placed(found.truth), others=others)

    @staticmethod
    def patience(usual_s: float) -> float:
        """Return the time limit of a variant for all calls, in seconds."""
        return max(SHORTEST_S, usual_s * SLOWER)


def _took_too_long(answer: Data) -> bool:
    raised = answer["raised"]
    types = raised.get("types") if isinstance(raised, dict) else None
    return not isinstance(types, list) or any("CallTimeout" in str(each) for each in types)


def _order(variants: int) -> list[int]:
    """Return the order of the runs: the variants, shuffled in groups, with the skill in each group and at the end."""
    order: list[int] = []
    for first in range(0, variants, EVERY):
        some = [_ITSELF, *range(first, min(first + EVERY, variants))]
        _chance.shuffle(some)
        order += some
    return [*order, _ITSELF]


@dataclass(frozen=True, slots=True)
class _Asking:
    """Makes the same calls to the skill and to its variants."""

    variants: Variants
    changes: Sequence[Mutant]
    calls: Sequence[Data]
    seconds: float
    each_s: float

    async def itself(self) -> IsolatedAnswers:
        """Return the skill's answers."""
        return await self.variants.runner.run_program(
            self.variants.writer.source.text, self.calls, self.seconds, self.each_s
        )

    async def variant(self, number: int) -> IsolatedAnswers | None:
        """Return a variant's answers; None if the variant cannot be written as a program."""
        program = self.variants.writer.changed(self.changes[number])  # takes a millisecond or two
        if program is None:
            return None
        try:
            return await self.variants.runner.run_program(
                program, self.calls, self.seconds, self.each_s, path=self.changes[number].path
            )
        except ValueError:  # the variant reached a limit of the box, or ended the process that forwards its answers
            return {"answers": [dict(_ENDED)] * len(self.calls), "seconds": self.seconds}


def first_difference(
    ones: Sequence[Data], others: Sequence[Data] | None, leave_out: frozenset[int] = frozenset()
) -> int | None:
    """Return the index of the first call that two programs answer differently; None if there is none.

    Args:
        others: The answers of the second program; None if it cannot be loaded.
        leave_out: The indexes of the calls that are not compared.
    """
    if others is None:
        return 0 if ones else None
    return next(
        (i for i, pair in enumerate(zip(ones, others, strict=True)) if i not in leave_out and not same_answer(*pair)),
        None,
    )


async def gather_or_cancel(*work: Coroutine[Any, Any, T]) -> list[T]:
    """Run coroutines concurrently and return their results.

    If one of them fails, the others are cancelled, and its exception is raised once they have ended.
    """
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_chance = random.SystemRandom()  # unpredictable, so that no box can know it
