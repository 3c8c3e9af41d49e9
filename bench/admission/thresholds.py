"""Measures how the threshold for mutants decides between correct and broken solutions of MBPP.

Solutions and mutants are proposed with all asserts of their problem as tests, without answering questions. The
benchmark counts the broken mutants that pass the first assert, that pass all asserts, and that are admitted.
"""

import ast
import asyncio
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal, SkillRefused
from acquired_skills.proof.admission import admit
from bench.admission.problems import FULL, Problem, is_call_of, read_problems
from bench.admission.solutions import examine
from sandbox.contract import Sandbox
from sandbox.namespace.backend import NamespaceSandbox

THRESHOLDS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.66, 0.7, 0.8, 0.9, 1.0)
_LOWEST = 1e-9  # mutants are still made, but almost nothing is refused, so one run covers all thresholds
_VACUOUS = (
    "def test_it():\n    assert True\n",
    "def test_it():\n    assert callable({name})\n",
    "def test_it():\n    try:\n        {expression}\n    except BaseException:\n        pass\n",
    "import pytest\n\ndef test_it():\n    with pytest.raises(Exception):\n        {name}()\n        raise ValueError\n",
    "def test_it():\n    assert isinstance({expression}, object)\n",
    "def test_it():\n    got = {expression}\n    assert isinstance(got, type({expression}))\n",
    "def test_it():\n    assert {expression} == {expression}\n",
)


@dataclass(frozen=True, slots=True)
class ScoredProposal:
    """The score of one proposal.

    Attributes:
        score: The share of mutants that its tests detect; None if it was refused for any reason but its score.
    """

    score: float | None
    seconds: float
    why: str = ""


@dataclass(slots=True)
class ProblemResult:
    """The result of one problem."""

    id: str
    runnable: bool = False
    correct: ScoredProposal | None = None
    broken: int = 0
    pass_one: int = 0
    pass_all: int = 0
    gated: list[ScoredProposal] = field(default_factory=list)
    vacuous: bool = False


async def measure(problem: Problem, box: Sandbox, most: int, seed: int) -> ProblemResult:
    """Measure one problem.

    Args:
        most: The number of mutants.
    """
    found = ProblemResult(problem.id)
    solutions = await examine(problem, box, most, seed)
    if not solutions:
        return found
    found.runnable = True
    effort = replace(Effort(), threshold=_LOWEST, enough=_LOWEST, calls=0, every_gap=False)
    source = solutions[0].source
    found.correct = await _propose(problem.proposal(source, FULL), box, effort, seed)
    for one in solutions[1:]:
        if not one.broken:
            continue
        found.broken += 1
        found.pass_one += one.passes[0]
        if all(one.passes):
            found.pass_all += 1
            found.gated.append(await _propose(problem.proposal(one.source, FULL), box, effort, seed))
    first = ast.walk(ast.parse(problem.asserts[0]))
    expression = ast.unparse(next(node for node in first if is_call_of(node, problem.name)))
    vacuous = random.Random(f"{seed} {found.id}").choice(_VACUOUS).format(name=problem.name, expression=expression)
    tried = await _propose(problem.proposed(source, vacuous), box, replace(effort, threshold=0.0), seed)
    found.vacuous = tried.score is not None
    return found


async def _propose(offered: Proposal, box: Sandbox, effort: Effort, seed: int) -> ScoredProposal:
    began = time.perf_counter()
    try:
        admission = await admit(ParsedProposal.parse(offered), box, seed=seed, effort=effort)
    except SkillRefused as refused:
        parts = {problem.part for problem in refused.problems}
        took = time.perf_counter() - began
        return (
            ScoredProposal(0.0, took, "mutants") if parts == {"mutants"} else ScoredProposal(None, took, str(refused))
        )
    met = admission.report["mutants"]
    return ScoredProposal(met["killed"] / met["met"] if met["met"] else 1.0, time.perf_counter() - began)


async def _measure_all(problems: Sequence[Problem], console: Console, most: int, seed: int) -> list[ProblemResult]:
    async with NamespaceSandbox() as box:
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("admission", total=len(problems))
            slots = asyncio.Semaphore(2)

            async def one(problem: Problem) -> ProblemResult:
                async with slots:
                    found = await measure(problem, box, most, seed)
                progress.advance(task)
                return found

            return list(await asyncio.gather(*map(one, problems)))


def summarize(found: Sequence[ProblemResult]) -> dict[str, Any]:
    """Return the totals and shares over all problems."""
    runnable = [each for each in found if each.runnable and each.correct]
    correct = [each.correct for each in runnable if each.correct]
    times = sorted(one.seconds for one in correct)
    broken = sum(each.broken for each in runnable)
    gated = [one for each in runnable for one in each.gated]
    curve = [
        {
            "threshold": threshold,
            "correct_admitted": _share(
                sum(one.score is not None and one.score >= threshold for one in correct), len(correct)
            ),
            "broken_admitted": _share(sum(one.score is not None and one.score >= threshold for one in gated), broken),
        }
        for threshold in THRESHOLDS
    ]
    return {
        "problems": len(found),
        "runnable": len(runnable),
        "broken": broken,
        "broken_pass_one": _share(sum(each.pass_one for each in runnable), broken),
        "broken_pass_all": _share(sum(each.pass_all for each in runnable), broken),
        "vacuous_admitted": sum(each.vacuous for each in runnable),
        "median_s": statistics.median(times) if times else None,
        "p95_s": times[round(0.95 * (len(times) - 1))] if times else None,
        "default_threshold": Effort().threshold,
        "curve": curve,
        "refused": {
            each.id: each.correct.why[:600] for each in runnable if each.correct and each.correct.score is None
        },
        "scores": {each.id: each.correct.score for each in runnable if each.correct},
    }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def show(numbers: dict[str, Any], console: Console) -> None:
    table = Table(
        "threshold", "correct admitted", "broken admitted", title="Admitted by threshold", title_justify="left"
    )
    for row in numbers["curve"]:
        mark = " (default)" if row["threshold"] == numbers["default_threshold"] else ""
        table.add_row(
            f"{row['threshold']:.2f}{mark}", _percent(row["correct_admitted"]), _percent(row["broken_admitted"])
        )
    console.print(table)
    console.print(
        f"{numbers['runnable']} of {numbers['problems']} problems are runnable. Of {numbers['broken']} broken mutants, "
        f"{_percent(numbers['broken_pass_one'])} pass the first assert and {_percent(numbers['broken_pass_all'])} all "
        f"asserts. Vacuous tests admitted: {numbers['vacuous_admitted']}. An admission takes "
        f"{numbers['median_s']:.2f} s (median), {numbers['p95_s']:.2f} s (p95)."
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def bench(folder: Path, rounds: int | None, made: int, seed: int, console: Console) -> dict[str, Any]:
    """Measure, print a table, and return the numbers.

    Args:
        folder: Contains problems.jsonl.
        rounds: The number of randomly chosen problems, or None for all.
        made: The number of mutants of each solution.
        seed: Seed of all random choices.
        console: Where to print.
    """
    problems = read_problems(folder, rounds, seed)
    numbers = summarize(asyncio.run(_measure_all(problems, console, made, seed)))
    show(numbers, console)
    return numbers
