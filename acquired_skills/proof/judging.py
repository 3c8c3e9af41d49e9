"""Judges the tests of a proposal by running them on recorded answers, without its code (SKILL-4 to SKILL-7).

Two kinds of boxes are used. In one, the skill answers the calls of its tests, without tests or pytest
(`acquired_skills.proof.isolated_runner`). In the other, the tests run without the skill, on tables of answers: those of
the skill, of its mutants and of stubs, and wrong answers made by the engine. Only the engine knows which is which.
"""

import json
import random
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acquired_skills.jobs.box_files import JUDGE, PYDANTIC, PYTEST, box_files
from acquired_skills.jobs.preload import preload_for
from acquired_skills.model.proposal import Problem
from acquired_skills.proof.declarations import declarations
from acquired_skills.proof.facts import Facts, Result, Run, facts_of, is_call
from acquired_skills.proof.impure_tests import function_of, reaching
from acquired_skills.proof.isolated_runner import (
    AS_CALLED,
    Data,
    came_shown,
    differs,
    other_answers,
    plain_arguments,
    shown,
    unsteady,
)
from acquired_skills.proof.mutant_answers import Mutated, mutants_answers
from acquired_skills.proof.static_checks import imported_modules
from acquired_skills.proof.variants import Variants, together
from acquired_skills.proof.wrong_answers import WAYS, perturbed
from sandbox.contract import Call, Job, Limits

ROUNDS = 4  # in which calls that were not recorded may come up
STUBS: Mapping[str, Data] = {
    "raises": {"raised": {"types": ["builtins:NotImplementedError", "builtins:Exception"], "args": [], "text": ""}},
    "none": {"value": None},
    "sentinel": {"sentinel": True},
}
TRUE, KIND, CONSTANT, MUTANT = "skill", "kind", "constant", "mutant"
CONSTANTS = 3  # answers that are tried in the place of all
_FAILED = ("failed", "timeout", "exited")
_UNSURE = ("missed", "reached")
_OURS = frozenset(("pytest", "pydantic"))


@dataclass(slots=True)
class Table:
    """One run of the tests. kind: a stub's, KIND, CONSTANT, TRUE or MUTANT.

    changes, otherwise, first: as `acquired_skills.in_box.judge` has them. mutants: the numbers of those it stands for.
    raises: where the skill gave values, nothing but exceptions or the end of the process came.
    """

    kind: str
    changes: Mapping[str, Data] = field(default_factory=dict)
    otherwise: Data | None = None
    first: bool = False
    mutants: list[int] = field(default_factory=list)
    raises: bool = False
    results: Mapping[str, Result] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of it. tests: those that count, since they ran on answers alone. reaching: those that do not.

    mutants: by number, whether they were noticed; one that could not be made or decided is not among them.
    raising: those of them that gave nothing but exceptions. red: by test, the kinds of table that it failed on.
    constant: the one answer to everything that would satisfy all of the tests, "" for none. calls: those made anew.
    alike: the mutants that answer all of them as the skill does. cases, equivalent: what
    `acquired_skills.proof.surviving_mutants` finds out about the mutants that were not noticed: a call that tells one
    from the skill, by number, and how many cannot be told from it. Those are no longer among the mutants.
    """

    problems: tuple[Problem, ...] = ()
    tests: tuple[str, ...] = ()
    reaching: tuple[str, ...] = ()
    mutants: Mapping[int, bool] = field(default_factory=dict)
    red: Mapping[str, frozenset[str]] = field(default_factory=dict)
    green: Mapping[str, Result] = field(default_factory=dict)
    raising: frozenset[int] = frozenset()
    constant: str = ""
    calls: tuple[Data, ...] = ()
    alike: frozenset[int] = frozenset()
    cases: Mapping[int, str] = field(default_factory=dict)
    equivalent: int = 0


async def judged(variants: Variants, facts: Facts, earlier_tests: str | None) -> Judged:
    """Judge the tests of a proposal whose rehearsal found nothing against it.

    Raises SandboxError when no box can run.
    """
    return await _Judging(variants, facts, earlier_tests).judge()


class _Judging:
    def __init__(self, variants: Variants, facts: Facts, earlier_tests: str | None) -> None:
        self.variants = variants
        self.apart = apart = variants.apart
        self.facts = facts
        self.earlier = earlier_tests
        self.name = apart.proposal.name
        sources = {"skill": apart.proposal.tests, "earlier": earlier_tests or ""}
        self.patching = {folder: reaching(source) for folder, source in sources.items()}
        self.calls: dict[str, Data] = {}
        self.recorded: dict[str, Data] = {}

    async def judge(self) -> Judged:
        for each in self.facts.get("returned", {}).get("asked", []):
            if not self._patches(each["test"]):
                key = _key(each["call"])
                self.calls[key] = each["call"]
                if "answer" in each:
                    self.recorded[key] = each["answer"]
        try:
            for _ in range(ROUNDS):
                told = await self._round()
                if told is not None:
                    return told
        except (ValueError, RecursionError) as problem:
            return self._refused(f"Called without its tests, or its tests without it, there is no report: {problem}.")
        return self._refused(
            "The tests make other calls each time they run, so that these cannot be made anew without them: use fixed "
            "inputs."
        )

    async def _round(self) -> Judged | None:
        """None when calls came up that were not known."""
        keys, calls = list(self.calls), list(self.calls.values())
        found = await self.apart.answers(calls)
        numbers = {i: self.recorded[key] for i, key in enumerate(keys) if key in self.recorded}
        shaky = unsteady(found)
        problems = list(other_answers(self.name, calls, found, numbers, shaky))
        if not problems:
            steady = [pair for i, pair in enumerate(zip(calls, found.forth, strict=True)) if i not in shaky]
            problems = [each async for each in self._as_called(steady)]
        if problems:
            return Judged(tuple(problems), calls=tuple(calls))
        truth = dict(zip(keys, found.forth, strict=True))
        tables = self._tables(truth)
        if shaky:  # the tests must bear all that it answers
            tables += [Table(TRUE, dict(zip(keys, order, strict=True))) for order in (found.again, found.back)]
        if self.variants.mutants and self.apart.effort.mutants_s:
            mutated = await mutants_answers(self.variants, calls, found, shaky)
            if isinstance(mutated, Problem):
                return Judged((mutated,), calls=tuple(calls))
            tables += self._of_mutants(keys, mutated)
        unknown = await self._run(tables, truth)
        fresh = {_key(call): call for call in unknown if is_call(call) and _key(call) not in self.calls}
        if fresh and any(one["outcome"] == "missed" for t in tables if t.kind == TRUE for one in t.results.values()):
            self.calls |= fresh
            return None
        return self._found(tables)

    async def _as_called(self, steady: Sequence[tuple[Data, Data]]) -> AsyncIterator[Problem]:
        """A few calls again, exactly as an agent makes them."""
        schema = self.facts["schema"]
        if not schema["plain"] or self.facts.get("returned", {}).get("typed"):
            return
        parameters = list(schema["parameters"].get("properties", {}))
        usable = [(call, plain, answer) for call, answer in steady
                  if (plain := plain_arguments(call, parameters)) is not None and "files" not in answer]  # fmt: skip
        chosen = _chance.sample(usable, min(AS_CALLED, len(usable)))
        outcomes = await together(*(self.apart.as_called(plain) for _, plain, _ in chosen))
        for (call, _, answer), outcome in zip(chosen, outcomes, strict=True):
            if differs(outcome, answer):
                failed = outcome.error.type if outcome.error else str(outcome.end)
                gave = came_shown({"value": outcome.value}) if outcome.ok else failed
                yield Problem(
                    "replay",
                    f"{shown(self.name, call)} gives {gave} when it is called as a tool, and {came_shown(answer)} "
                    "otherwise: it must not depend on who calls it, on chance or on time.",
                )
                return

    def _tables(self, truth: Mapping[str, Data]) -> list[Table]:
        tables = [Table(TRUE), Table(TRUE, first=True)]
        tables += [Table(kind, otherwise=answer) for kind, answer in STUBS.items()]
        for way in range(WAYS):
            changes = {key: perturbed(answer, way) for key, answer in truth.items()}
            tables.append(Table(KIND, changes, next(iter(changes.values()), STUBS["none"])))
        different = {_key(answer): answer for answer in truth.values()}
        tables += [Table(CONSTANT, otherwise=answer) for answer in list(different.values())[:CONSTANTS]]
        return tables

    @staticmethod
    def _of_mutants(keys: Sequence[str], mutated: Mutated) -> list[Table]:
        """One table for all mutants that answer alike. One without changes is not run, and noticed by nothing."""
        tables: dict[str, Table] = {}
        for number, changes in sorted(mutated.changes.items()):
            answers = {keys[i]: answer for i, answer in changes.items()}
            table = Table(MUTANT, answers, first=True, raises=_raises(changes, mutated.truth))
            tables.setdefault(_key(answers), table).mutants.append(number)
        return list(tables.values())

    async def _run(self, tables: list[Table], truth: Mapping[str, Data]) -> list[dict[str, Any]]:
        """The tests on every table, in an order that nobody can know. Gives the calls that were not known."""
        shuffled = [table for table in tables if table.kind != MUTANT or table.changes]
        _chance.shuffle(shuffled)
        proposal, effort, returned = self.apart.proposal, self.apart.effort, self.facts.get("returned", {})
        files = {
            **box_files(JUDGE),
            "pytest.ini": b"[pytest]\ntmp_path_retention_policy = failed\n",
            "declared.py": declarations(proposal.code).encode(),
            f"skill/test_{self.name}.py": proposal.tests.encode(),
        }
        if self.earlier is not None:
            files[f"earlier/test_{self.name}.py"] = self.earlier.encode()
        arguments = {
            "name": self.name,
            "seed": returned.get("seed", 0),
            "tables": [{"changes": t.changes, "otherwise": t.otherwise, "first": t.first} for t in shuffled],
            "test_s": effort.stub_test_s,
            "seconds": effort.judge_s,
            "unchanged": dict(truth),
        }
        limit = effort.judge_s + 5
        imports = imported_modules(proposal.tests) | imported_modules(self.earlier or "")
        foreign = {name for name in imports - _OURS - {self.name} if name not in sys.stdlib_module_names}
        environment = self.apart.environment if foreign else ()
        job = Job(
            call=Call(JUDGE, "judge", arguments),
            files=files,
            preload=preload_for(imports, environment, (*PYDANTIC, *PYTEST)),
            limits=Limits(wall_s=limit, cpu_s=limit, memory_bytes=1 << 30),
            requirements=environment,
        )
        outcome = await self.apart.sandbox.run(job)
        if not outcome.ok:
            raise ValueError(f"the box of the tests ended with {outcome.end}")
        found = facts_of(outcome.value)
        if found.get("collection_errors"):
            raise ValueError(
                f"the tests cannot be collected without the skill's own code: {found['collection_errors'][0][-500:]}"
            )
        runs: dict[str, Run] = {run["kind"]: run for run in found["runs"]}
        for number, table in enumerate(shuffled):
            table.results = runs[str(number)]["results"] if str(number) in runs else {}
        return found.get("unknown", [])

    def _found(self, tables: list[Table]) -> Judged:
        tests = self.facts["tests"]
        whole, *more = (table for table in tables if table.kind == TRUE)
        green = {test: whole.results[test] for test in tests if test in whole.results}
        reached = [t for t in tests if self._patches(t) or (t in green and green[t]["outcome"] == "reached")]
        counted = [test for test in tests if test not in reached]
        red = {
            test: frozenset(table.kind for table in tables if table.kind in (*STUBS, KIND) and _failed(table, test))
            for test in counted
        }
        noticed: dict[int, bool] = {}
        for table in tables:
            if table.kind != MUTANT:
                continue
            failed = any(_failed(table, test) for test in counted)
            if failed or not any(
                one["outcome"] in ("missed", "reached") for t, one in table.results.items() if t in counted
            ):
                noticed |= dict.fromkeys(table.mutants, failed)
        for again in more:
            green |= {
                test: again.results[test] for test in counted if _failed(again, test) and not _failed(whole, test)
            }
        constants = [t for t in tables if t.kind == CONSTANT and not any(_failed(t, test) for test in counted)]
        return Judged(
            tests=tuple(counted),
            reaching=tuple(reached),
            mutants=noticed,
            red=red,
            green=green,
            raising=frozenset(number for table in tables if table.raises for number in table.mutants),
            constant=came_shown(constants[0].otherwise or {}) if constants and counted else "",
            calls=tuple(self.calls.values()),
            alike=frozenset(n for t in tables if t.kind == MUTANT and not t.changes for n in t.mutants),
        )

    def _patches(self, test: str) -> bool:
        return function_of(test) in self.patching.get(test.partition("/")[0], frozenset())

    def _refused(self, text: str) -> Judged:
        return Judged((Problem("replay", text),), calls=tuple(self.calls.values()))


def _failed(table: Table, test: str) -> bool:
    return test in table.results and table.results[test]["outcome"] in _FAILED


def _raises(answers: Mapping[int, Data], truth: Sequence[Data]) -> bool:
    """Whether a mutant raises or ends wherever the skill gives a value."""
    gave = sum("value" in answer for answer in truth)
    return 0 < gave <= sum("value" not in answer for answer in answers.values())


def _key(call: Data) -> str:
    """As `acquired_skills.in_box.call_data.key_of`."""
    return json.dumps(call, sort_keys=True)


_chance = random.SystemRandom()  # what must not be known in a box has no seed
