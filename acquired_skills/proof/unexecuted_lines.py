"""Finds the lines of a skill that no test executes (SKILL-6, GATE-2).

A mutant in such a line survives whatever the tests state. If other calls execute the line, the author is asked about
them. If no call that admission tries executes it, the mutants in it say nothing about the tests: they do not count, and
the author is told about the line.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from acquired_skills.proof.answers import Data
from acquired_skills.proof.mutation.probes import Probe

MOST_UNEXECUTED = 0.5  # if more of the mutants are in lines that no call executes, they count
MOST_NAMED = 8  # maximum number of lines in one message


@dataclass(frozen=True, slots=True)
class UnexecutedLine:
    """A line that no test executes.

    Attributes:
        line: The number of the line, counted from 1.
        path: The path of the extra file that contains the line; "" for the main file.
        function: The function or method that contains the line; "" outside of functions.
        mutants: The numbers of the mutants in the line.
        by_any: Whether another call that admission tried executes the line.
    """

    line: int
    path: str
    function: str
    mutants: tuple[int, ...]
    by_any: bool


def unexecuted_lines(
    probes: Sequence[Probe],
    changes: Mapping[int, Mapping[int, Data] | None],
    tested: Collection[int],
    answered: Collection[int],
) -> tuple[UnexecutedLine, ...]:
    """Return the lines that no test executes.

    Args:
        changes: For each probe that was tried, by its position, the answers that differ from the skill's, by the index
            of the call; None if the probe cannot be loaded, because the line is executed when the code is loaded.
        tested: The indexes of the calls of the tests.
        answered: The indexes of the calls that the skill always answers in the same way.
    """
    if not tested or not set(tested) <= set(answered):
        return ()  # a line that only chance reaches would look as if it was never executed
    return tuple(
        UnexecutedLine(
            each.change.line,
            each.change.path,
            each.function,
            each.mutants,
            by_any=not changed.keys().isdisjoint(answered),
        )
        for place, each in enumerate(probes)
        if (changed := changes.get(place)) is not None and changed.keys().isdisjoint(tested)
    )


def mutants_never_executed(lines: Sequence[UnexecutedLine], mutants: int) -> frozenset[int]:
    """Return the numbers of the mutants in lines that no call executes; none if they are too many.

    Args:
        mutants: The number of all mutants that were judged.
    """
    found = frozenset(number for line in lines if not line.by_any for number in line.mutants)
    return found if len(found) <= MOST_UNEXECUTED * mutants else frozenset()


def named_lines(lines: Sequence[UnexecutedLine]) -> str:
    """Format lines for a message: ``line 12 (`_helper`), lines 20 to 24 (`convert`) and 2 more``."""
    blocks: list[list[UnexecutedLine]] = []
    for each in lines:
        last = blocks[-1][-1] if blocks else None
        if last and (last.path, last.function) == (each.path, each.function) and each.line - last.line <= 1:
            blocks[-1].append(each)
        else:
            blocks.append([each])
    more = f" and {len(blocks) - MOST_NAMED} more" if len(blocks) > MOST_NAMED else ""
    return ", ".join(map(_named, blocks[:MOST_NAMED])) + more


def _named(block: Sequence[UnexecutedLine]) -> str:
    first, last = block[0], block[-1]
    text = f"line {first.line}" if first.line == last.line else f"lines {first.line} to {last.line}"
    text += f" of {first.path}" if first.path else ""
    return text + (f" (`{first.function}`)" if first.function else "")
