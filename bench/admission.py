"""The gate on MBPP: how many correct solutions it admits, and how many broken ones.

A problem is runnable when its own solution passes its asserts in a box, and JSON holds what it returns. Broken is a
mutant of it that answers some of the problem's probe inputs differently. Every one of them is proposed with the
problem's asserts as tests, one each; with one assert, with all, and at the gate, the share that comes in is counted.
"""

import ast
import asyncio
import json
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
from acquired_skills.proof.mutation.mutants import make_mutants
from sandbox.contract import Call, Job, Limits, Sandbox
from sandbox.namespace.backend import NamespaceSandbox

HELP = (
    "admission needs --data DIR, a folder with problems.jsonl: MBPP as cleaned by EvalPlus "
    "(https://github.com/evalplus/evalplus), one problem a line: entry_point, code, tests, test_imports, probe_inputs."
)
_SCRIPT = Path(__file__).with_name("admission_in_box.py")
THRESHOLDS = (0.0, 0.3, 0.4, 0.5, 0.6, 0.66, 0.7, 0.8, 0.9, 1.0)
_NEVER = 1e-9  # a threshold that makes mutants and refuses almost nothing, so that one run tells of all thresholds
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
class Tried:
    """One proposal at the gate. score: of mutants noticed; None when it was refused for something else."""

    score: float | None
    seconds: float
    why: str = ""


@dataclass(slots=True)
class Found:
    """What came of one problem."""

    id: str
    runnable: bool = False
    correct: Tried | None = None
    broken: int = 0
    pass_one: int = 0
    pass_all: int = 0
    gated: list[Tried] = field(default_factory=list)
    vacuous: bool = False


def proposal_of(problem: dict[str, Any], source: str, tests: str) -> Proposal:
    """A solution as a skill, with a hint for every parameter, which the data has not."""
    name = problem["entry_point"]
    return Proposal(name, problem["prompt"], source, f"from {name} import {name}\n\n\n{tests}")


def hinted(source: str, name: str) -> str:
    """With `object` for every parameter of the function."""
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            for each in node.args.args:
                each.annotation = each.annotation or ast.Name("object", ast.Load())
    return ast.unparse(ast.fix_missing_locations(tree))


def tests_of(problem: dict[str, Any]) -> str:
    """Each assert a test."""
    imported = [node for node in ast.parse(problem["code"]).body if isinstance(node, ast.Import | ast.ImportFrom)]
    head = "\n".join([*problem["test_imports"], *map(ast.unparse, imported)])  # an assert may use either
    return head + "".join(f"\n\n\ndef test_{i}():\n    {line.strip()}\n" for i, line in enumerate(problem["tests"]))


def variants(source: str, most: int, seed: int) -> list[str]:
    """Sources of some mutants."""
    found = []
    for index in range(len(make_mutants(ast.parse(source), most, seed))):
        tree = ast.parse(source)
        make_mutants(tree, most, seed)[index].make()
        found.append(ast.unparse(tree))
    return found


async def examined(problem: dict[str, Any], box: Sandbox, most: int, seed: int) -> Found:
    """One problem, whole."""
    name, found = problem["entry_point"], Found(problem["id"])
    source = hinted(problem["code"], name)
    sources = [source, *variants(source, most, seed)]
    job = Job(
        call=Call(_SCRIPT.name, "examine", {"problem": problem, "sources": sources}),
        files={_SCRIPT.name: _SCRIPT.read_bytes()},
        limits=Limits(wall_s=60, cpu_s=60),
    )
    outcome = await box.run(job)
    if not outcome.ok:
        return found
    if name.startswith("test"):  # which pytest takes for a test
        return found
    reference, *others = outcome.value
    found.runnable = bool(reference["asserts"]) and all(reference["asserts"]) and reference["json"]
    if not found.runnable:
        return found
    effort = replace(Effort(), threshold=_NEVER)
    tests = tests_of(problem)
    found.correct = await _tried(proposal_of(problem, source, tests), box, effort, seed)
    for text, one in zip(sources[1:], others, strict=True):
        if one["answers"] == reference["answers"]:
            continue
        found.broken += 1
        found.pass_one += one["asserts"][0]
        if all(one["asserts"]):
            found.pass_all += 1
            found.gated.append(await _tried(proposal_of(problem, text, tests), box, effort, seed))
    expression = ast.unparse(next(n for n in ast.walk(ast.parse(problem["tests"][0])) if _calls(n, name)))
    vacuous = random.Random(f"{seed} {found.id}").choice(_VACUOUS).format(name=name, expression=expression)
    head = "\n".join(problem["test_imports"])
    tried = await _tried(
        proposal_of(problem, source, f"{head}\n\n{vacuous}"), box, replace(effort, threshold=0.0), seed
    )
    found.vacuous = tried.score is not None
    return found


def _calls(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name


async def _tried(offered: Proposal, box: Sandbox, effort: Effort, seed: int) -> Tried:
    began = time.perf_counter()
    try:
        admission = await admit(ParsedProposal.parse(offered), box, seed=seed, effort=effort)
    except SkillRefused as refused:
        parts = {problem.part for problem in refused.problems}
        took = time.perf_counter() - began
        return Tried(0.0, took, "mutants") if parts == {"mutants"} else Tried(None, took, str(refused))
    met = admission.report["mutants"]
    return Tried(met["killed"] / met["met"] if met["met"] else 1.0, time.perf_counter() - began)


async def _all(problems: Sequence[dict[str, Any]], console: Console, most: int, seed: int) -> list[Found]:
    async with NamespaceSandbox() as box:
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("admission", total=len(problems))
            turns = asyncio.Semaphore(2)

            async def one(problem: dict[str, Any]) -> Found:
                async with turns:
                    found = await examined(problem, box, most, seed)
                progress.advance(task)
                return found

            return list(await asyncio.gather(*map(one, problems)))


def summed(found: Sequence[Found]) -> dict[str, Any]:
    """The numbers."""
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


def _reaching(threshold: float, tried: Sequence[Tried]) -> int:
    return sum(one.score is not None and one.score >= threshold for one in tried)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def shown(numbers: dict[str, Any], console: Console) -> None:
    table = Table(
        "threshold", "correct admitted", "broken admitted", title="What the gate lets in", title_justify="left"
    )
    for row in numbers["curve"]:
        mark = " (default)" if row["threshold"] == numbers["default_threshold"] else ""
        table.add_row(
            f"{row['threshold']:.2f}{mark}", _percent(row["correct_admitted"]), _percent(row["broken_admitted"])
        )
    console.print(table)
    console.print(
        f"{numbers['runnable']} of {numbers['problems']} problems runnable, {numbers['broken']} broken mutants: "
        f"{_percent(numbers['broken_pass_one'])} pass one assert, {_percent(numbers['broken_pass_all'])} all; "
        f"vacuous tests admitted: {numbers['vacuous_admitted']}; an admission takes {numbers['median_s']:.2f} s "
        f"(median), {numbers['p95_s']:.2f} s (p95)"
    )


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"


def bench(folder: Path, rounds: int | None, made: int, seed: int, console: Console) -> dict[str, Any]:
    """Measure and show; the numbers. folder: with problems.jsonl. rounds: problems. made: mutants of each solution."""
    problems = [json.loads(line) for line in (folder / "problems.jsonl").read_text().splitlines()]
    if rounds:
        problems = random.Random(seed).sample(problems, min(rounds, len(problems)))
    numbers = summed(asyncio.run(_all(problems, console, made, seed)))
    shown(numbers, console)
    return numbers
