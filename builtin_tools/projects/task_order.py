"""The order and the dependencies of tasks."""

from collections.abc import Collection, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Protocol, TypeVar


class Numbered(Protocol):
    """Something with a number."""

    @property
    def number(self) -> int: ...


N = TypeVar("N", bound=Numbered)


def check_needs(needs: Mapping[int, Collection[int]]) -> None:
    """Check that every dependency exists and that none of them depends on itself, directly or indirectly.

    Args:
        needs: The numbers of the tasks that each task waits for.

    Raises:
        ValueError: A dependency does not exist, or there is a cycle, which the message names.
    """
    for number, wanted in needs.items():
        unknown = sorted(set(wanted) - needs.keys())
        if unknown:
            raise ValueError(f"Task {number} cannot wait for {unknown[0]}, because there is no task {unknown[0]}.")
    try:
        TopologicalSorter(needs).prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]  # each waits for the one before it
        path = " -> ".join(str(number) for number in reversed(cycle))
        raise ValueError(
            f"These tasks would wait for each other: {path}. Leave out one of these dependencies."
        ) from error


def moved_before(tasks: tuple[N, ...], numbers: Collection[int], before: int) -> tuple[N, ...]:
    """Return the tasks, with some of them moved before another one.

    Args:
        tasks: The tasks in order.
        numbers: The numbers of the tasks to move. They keep their order.
        before: The number of the other task; 0 for the end.
    """
    moved = tuple(task for task in tasks if task.number in numbers)
    others = tuple(task for task in tasks if task.number not in numbers)
    if before in numbers:
        return tasks
    at = next((index for index, task in enumerate(others) if task.number == before), len(others))
    return (*others[:at], *moved, *others[at:])
