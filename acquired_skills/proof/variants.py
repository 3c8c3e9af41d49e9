"""A skill and its variants answer the same calls, each in a box of its own (SKILL-6).

Every box gets one program as a file, and the same calls and times. The skill as it is runs among its variants again and
again, at places that only the engine knows, and its answers from there are what the others' are compared with. So a
program cannot tell by anything but its own text which of them it is, and not by a clock or a counter that it is late.
"""

import asyncio
import contextlib
import random
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from acquired_skills.proof.facts import Told
from acquired_skills.proof.isolated_runner import Apart, Data, alike
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.mutation.programs import Source

SHORTEST_S = 0.5
SLOWER = 10  # times as long as the skill itself may a variant take
EACH_S = 0.1  # for one call that no test makes
AT_ONCE = 3  # boxes
EVERY = 8  # variants, the skill itself runs once among them
_ENDED = {"ended": True}
_ITSELF = -1
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Compared:
    """What a skill and its variants answer.

    truth: the skill's answers, by call. more: those it gave at other times. others: those of its variants, by number;
    None for one that cannot be loaded. A variant for which there was no time, or that cannot be written as a
    program, is not among them.
    """

    truth: Sequence[Data]
    more: Sequence[Sequence[Data]] = ()
    others: Mapping[int, Sequence[Data] | None] = field(default_factory=dict)

    def changes(self, number: int) -> dict[int, Data] | None:
        """What a variant answers differently, by call; None for one that cannot be loaded."""
        answers = self.others[number]
        if answers is None:
            return None
        return {i: one for i, (one, true) in enumerate(zip(answers, self.truth, strict=True)) if one != true}


@dataclass(frozen=True, slots=True)
class Variants:
    """Runs a skill and its variants. source: the skill's. mutants: all that were made of its tree, by number."""

    apart: Apart
    source: Source
    mutants: Sequence[Mutant] = ()

    async def compared(
        self, variants: Sequence[Mutant], calls: Sequence[Data], *, usual_s: float, budget_s: float, each_s: float = 0.0
    ) -> Compared:
        """Ask all of them the same calls. The first variants are the last to be left out when the time is up.

        usual_s: what the skill takes for the calls. budget_s: for all variants. each_s: for one call, 0 for no limit.
        Raises ValueError when the skill itself gives no answers, SandboxError when no box can run.
        """
        told: dict[int, Told] = {}
        itself: list[Told] = []
        asking = _Asking(self, variants, calls, self.patience(usual_s), each_s)
        deadline = asyncio.get_running_loop().time() + budget_s
        rest = iter(_order(len(variants)))

        async def some() -> None:
            for number in rest:
                if number == _ITSELF:
                    itself.append(await asking.itself())
                    continue
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(deadline):
                        answered = await asking.variant(number)
                        if answered is not None:
                            told[number] = answered

        await together(*(some() for _ in range(AT_ONCE)))
        truth, *more = (each["answers"] or [dict(_ENDED)] * len(calls) for each in itself)
        return Compared(truth, more, {number: each["answers"] for number, each in told.items()})

    async def once_more(self, variant: Mutant | None, calls: Sequence[Data], usual_s: float) -> Sequence[Data] | None:
        """The answers of one variant, or of the skill itself, asked again as `compared` asks."""
        asking = _Asking(self, [variant] if variant else [], calls, self.patience(usual_s), 0.0)
        told = await asking.variant(0) if variant else await asking.itself()
        return told["answers"] if told else None

    async def nearby(self, calls: Sequence[Data], numbers: Sequence[int]) -> Compared:
        """The answers of the skill, and of the mutants of these numbers, to calls that no test makes.

        A call that the skill answers slowly, with an exception, or differently when it is asked again has `_ENDED` in
        place of its answer. Mutants have their place among `numbers` as their number.
        Raises as `compared` does.
        """
        code, seconds = self.source.code, self.apart.effort.nearby_s
        told = await self.apart.ask(code, calls, seconds / 4, EACH_S)
        once = told["answers"] or [_ENDED] * len(calls)
        steady = [i for i, one in enumerate(once) if "value" in one]
        found = await self.compared(
            [self.mutants[number] for number in numbers],
            [calls[i] for i in steady],
            usual_s=told["seconds"],
            budget_s=max(0.0, seconds - told["seconds"]),
            each_s=SLOWER * EACH_S,
        )
        truths = [found.truth, *found.more]
        sound = {i: place for place, i in enumerate(steady) if all(each[place] == once[i] for each in truths)}

        def placed(answers: Sequence[Data]) -> list[Data]:
            return [answers[sound[i]] if i in sound else _ENDED for i in range(len(calls))]

        others = {n: None if answers is None else placed(answers) for n, answers in found.others.items()}
        return Compared(placed(found.truth), others=others)

    @staticmethod
    def patience(usual_s: float) -> float:
        """Seconds that a variant has for all calls."""
        return max(SHORTEST_S, usual_s * SLOWER)


def _order(variants: int) -> list[int]:
    """Their numbers, nearly in order, with the skill itself somewhere in every few of them and at the end."""
    order: list[int] = []
    for first in range(0, variants, EVERY):
        some = [_ITSELF, *range(first, min(first + EVERY, variants))]
        _chance.shuffle(some)
        order += some
    return [*order, _ITSELF]


@dataclass(frozen=True, slots=True)
class _Asking:
    """The same question to each program."""

    variants: Variants
    changes: Sequence[Mutant]
    calls: Sequence[Data]
    seconds: float
    each_s: float

    async def itself(self) -> Told:
        """The skill's answers."""
        return await self.variants.apart.ask(self.variants.source.code, self.calls, self.seconds, self.each_s)

    async def variant(self, number: int) -> Told | None:
        """A variant's answers; None when it cannot be written as a program."""
        program = self.variants.source.changed(self.changes[number])  # a millisecond or two
        if program is None:
            return None
        try:
            return await self.variants.apart.ask(program, self.calls, self.seconds, self.each_s)
        except ValueError:  # it used up the box, or ended the process that hands its answers on
            return {"answers": [dict(_ENDED)] * len(self.calls), "seconds": self.seconds}


def first_difference(
    ones: Sequence[Data], others: Sequence[Data] | None, leave_out: frozenset[int] = frozenset()
) -> int | None:
    """The first call that two programs answer differently; None when there is none. others: None for one that cannot be
    loaded."""
    if others is None:
        return 0 if ones else None
    return next(
        (i for i, pair in enumerate(zip(ones, others, strict=True)) if i not in leave_out and not alike(*pair)), None
    )


async def together(*work: Coroutine[Any, Any, T]) -> list[T]:
    """The results of all. When one fails the rest are cancelled, and seen to end."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


_chance = random.SystemRandom()  # what no box may know has no seed
