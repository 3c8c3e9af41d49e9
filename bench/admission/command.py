"""Measures admission on MBPP: the share of correct and of broken solutions that are admitted, for several authors.

A mutant of a reference solution is broken if it answers one of the problem's probe inputs differently. Each solution is
proposed with several kinds of tests; broken solutions that fail them are counted as refused. Authors with different
knowledge then answer what admission asks, for at most three rounds.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from bench.admission.authors import AUTHORS, Author
from bench.admission.dialogue import converse, propose
from bench.admission.problems import FULL, TESTS, Problem, read_problems
from bench.admission.solutions import Solution, examine
from bench.admission.summary import Measured, show, summarize
from sandbox.contract import Sandbox
from sandbox.namespace.backend import NamespaceSandbox

AT_ONCE = 2  # problems measured at the same time unless told otherwise


@dataclass(frozen=True, slots=True)
class AdmissionOptions:
    """The options of a run: what to measure.

    Attributes:
        rounds: The number of randomly chosen problems, None for all.
        mutants: The number of mutants of each reference solution.
        seed: Seed of all random choices.
        authors: Names of authors.
        tests: Kinds of tests.
        at_once: The number of problems measured at the same time. More than processors finish sooner, but take longer
            each.
    """

    rounds: int | None
    mutants: int
    seed: int
    authors: Sequence[str] = tuple(AUTHORS)
    tests: Sequence[str] = tuple(TESTS)
    at_once: int = AT_ONCE


def bench(folder: Path, options: AdmissionOptions, console: Console) -> dict[str, Any]:
    """Measure, print tables, and return the numbers.

    Args:
        folder: Contains problems.jsonl.
    """
    problems = read_problems(folder, options.rounds, options.seed)
    numbers = summarize(asyncio.run(_measure_all(problems, options, console)), len(problems))
    show(numbers, console)
    return numbers


async def _measure_all(problems: Sequence[Problem], options: AdmissionOptions, console: Console) -> list[Measured]:
    found: list[Measured] = []
    slots = asyncio.Semaphore(options.at_once)
    async with NamespaceSandbox() as box:
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("admission", total=len(problems))

            async def one(problem: Problem) -> None:
                async with slots:
                    found.extend(await measure(problem, box, options))
                progress.advance(task)

            await asyncio.gather(*map(one, problems))
    return found


async def measure(problem: Problem, box: Sandbox, options: AdmissionOptions) -> list[Measured]:
    """Measure one problem. Return nothing if it is not usable."""
    solutions = await examine(problem, box, options.mutants, options.seed)
    chosen = [each for each in solutions[1:] if each.broken]
    return [
        one
        for solution in [*solutions[:1], *chosen]
        for tests in options.tests
        for one in await _propose(problem, solution, tests, box, options)
    ]


async def _propose(
    problem: Problem, solution: Solution, tests: str, box: Sandbox, options: AdmissionOptions
) -> list[Measured]:
    """Propose one solution with one kind of tests, once for all authors, and let each of them answer."""
    if not (all(solution.passes) if tests == FULL else solution.passes[0]):
        return [
            Measured(problem.id, tests, author, solution.broken, solution.source, None, solution.equal)
            for author in options.authors
        ]
    offered = problem.proposal(solution.source, tests)
    first = await propose(problem, offered, box, options.seed)
    found = []
    for name in options.authors:
        chance = random.Random(f"{options.seed} {problem.id} {tests} {name} {solution.source}")
        author = Author(name, problem, solution.source, box, chance)
        dialogue = await converse(offered, first, author, options.seed)
        found.append(Measured(problem.id, tests, name, solution.broken, solution.source, dialogue, solution.equal))
    return found
