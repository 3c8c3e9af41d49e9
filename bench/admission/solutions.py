"""Runs solutions of a problem in boxes, to find out which are broken and what calls of them return."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from acquired_skills.proof.mutation.mutants import make_mutants
from bench.admission.problems import Problem
from sandbox.contract import Call, Job, Limits, Sandbox

_SCRIPT = Path(__file__).with_name("solutions_in_box.py")
_LIMITS = Limits(wall_s=60, cpu_s=60)


@dataclass(frozen=True, slots=True)
class Solution:
    """A program for a problem.

    Attributes:
        source: The program.
        broken: Whether its result for one of the problem's probe inputs differs from that of the reference solution.
        passes: For each of the problem's asserts, whether it holds.
        equal: Whether all its results for the probe inputs compare equal to those of the reference solution, such as
            325.0 and 325. An assert cannot tell such a broken solution from the reference solution.
    """

    source: str
    broken: bool
    passes: Sequence[bool]
    equal: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a call, as source text: a value, or the name of an exception."""

    value: str | None = None
    raised: str | None = None


async def examine(problem: Problem, box: Sandbox, most: int, seed: int) -> list[Solution]:
    """Return the reference solution and at most `most` mutants of it.

    Returns:
        Empty if the problem is not usable: the reference solution fails an assert, or returns what JSON cannot
        represent, or pytest would collect the function as a test.
    """
    source = problem.data["code"]
    sources = [source, *mutated_sources(source, most, seed)]
    outcome = await box.run(_job("examine", {"problem": dict(problem.data), "sources": sources}))
    if not outcome.ok or problem.name.startswith("test"):
        return []
    reference, *_ = outcome.value
    if not (reference["asserts"] and all(reference["asserts"]) and reference["json"]):
        return []
    return [
        Solution(
            text,
            found["answers"] != reference["answers"],
            found["asserts"],
            all(map(_are_equal, found["answers"], reference["answers"])),
        )
        for text, found in zip(sources, outcome.value, strict=True)
    ]


async def answers_of(problem: Problem, source: str, calls: Sequence[str], box: Sandbox) -> list[Answer | None]:
    """Return a program's answers to calls, given as source text; None for one that is missing or not a literal."""
    outcome = await box.run(_job("answer", {"imports": problem.imports, "source": source, "calls": list(calls)}))
    if not outcome.ok:
        return [None] * len(calls)
    return [None if each is None else Answer(**each) for each in outcome.value]


def mutated_sources(source: str, most: int, seed: int) -> list[str]:
    """Return the sources of at most `most` mutants."""
    found = []
    for index in range(len(make_mutants(ast.parse(source), most, seed))):
        tree = ast.parse(source)
        make_mutants(tree, most, seed)[index].make()
        found.append(ast.unparse(tree))
    return found


def _are_equal(one: str, other: str) -> bool:
    """Return whether two results, given as source text, compare equal."""
    try:
        return one == other or bool(ast.literal_eval(one) == ast.literal_eval(other))
    except (ValueError, SyntaxError):
        return False


def _job(function: str, arguments: dict[str, object]) -> Job:
    return Job(call=Call(_SCRIPT.name, function, arguments), files={_SCRIPT.name: _SCRIPT.read_bytes()}, limits=_LIMITS)
