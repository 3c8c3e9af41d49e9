"""Judges the tests of a proposal by running them on recorded answers, without its code (SKILL-4 to SKILL-7).

Two kinds of boxes are used. In one, the skill answers the calls of its tests, without tests or pytest
(`acquired_skills.proof.isolated_runner`). In the other, the tests run without the skill, on tables of answers: the
answers of the skill, of its mutants and of stubs, and wrong answers that the engine makes. Only the engine knows where
the answers of each table come from.
"""

import asyncio
import datetime as dt
import random
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acquired_skills.in_box.array_packing import LIBRARIES
from acquired_skills.in_box.call_data import call_key
from acquired_skills.in_box.recorded_tools import RecordedAnswers
from acquired_skills.jobs.box_files import JUDGE, PYDANTIC, PYTEST, entry_file, in_box_modules
from acquired_skills.jobs.environment import preload_for
from acquired_skills.model.parsed import ParsedSource
from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.proof.answer_tables import (
    CONSTANT,
    EXCHANGED,
    MUTANT,
    NEAR,
    OWN,
    STUBS,
    WRONG,
    AnswerTable,
    tables_of,
    tables_of_exchanges,
    tables_of_mutants,
)
from acquired_skills.proof.answers import (
    Data,
    format_answer,
    format_call,
    json_arguments,
    nondeterministic_calls,
    outcome_differs,
    replay_problems,
    same_answer,
    with_integers,
)
from acquired_skills.proof.clock_calls import reads_clock
from acquired_skills.proof.declarations import declarations
from acquired_skills.proof.facts import BoxFacts, ResultOfTest, RunResults, facts_of, is_call
from acquired_skills.proof.impure_tests import impure_tests, test_function
from acquired_skills.proof.mutant_answers import ask_mutants
from acquired_skills.proof.tool_checks import coverage_problems, same_calls
from acquired_skills.proof.variants import Variants, gather_or_cancel
from sandbox.contract import Call, Job, Limits

AGENT_CALLS = 3  # number of calls that are repeated exactly as an agent makes them
OTHER_TIMES = ("1999-12-31T23:59:58+00:00", "2099-07-04T12:00:00+00:00")  # set for code that reads the clock
ROUNDS = 4  # maximum number of rounds; each may reveal calls that were not recorded
_OURS = frozenset(("pytest", "pydantic"))


@dataclass(frozen=True, slots=True)
class JudgedTests:
    """The result of judging.

    Attributes:
        tests: The tests that count, because they used only the skill's answers.
        impure: The tests that do not count, because they use more than the skill's answers or change its environment.
        mutants: Whether each mutant was killed, by number. Mutants that could not be made or judged are missing.
        untried: Numbers of the mutants for which there was no time.
        red: The kinds of table on which each test failed, by test.
        constant: An answer, as text, that would satisfy all tests if every call returned it; "" for none.
        constant_answer: The same answer as data.
        raising: Numbers of the mutants that raised an exception wherever the skill returned a value.
        calls: The calls that were replayed.
        alike: Numbers of the mutants that answer all calls as the skill does.
        exchangeable: Pairs of calls, as text, whose results the tests do not tell apart.
        exchanges: How many pairs were tried.
        reversible: Whether the tests pass when all texts that the skill returns are reversed.
    """

    problems: tuple[ProposalProblem, ...] = ()
    tests: tuple[str, ...] = ()
    impure: tuple[str, ...] = ()
    mutants: Mapping[int, bool] = field(default_factory=dict)
    untried: frozenset[int] = frozenset()
    red: Mapping[str, frozenset[str]] = field(default_factory=dict)
    green: Mapping[str, ResultOfTest] = field(default_factory=dict)
    raising: frozenset[int] = frozenset()
    constant: str = ""
    constant_answer: Data = field(default_factory=dict)
    calls: tuple[Data, ...] = ()
    alike: frozenset[int] = frozenset()
    exchangeable: tuple[tuple[str, str], ...] = ()
    exchanges: int = 0
    reversible: bool = False


async def judge_tests(variants: Variants, facts: BoxFacts, earlier: ParsedSource | None) -> JudgedTests:
    """Judge the tests of a proposal whose rehearsal found no problem.

    Raises:
        SandboxError: No box can run.
    """
    judging = await asyncio.to_thread(_Judging, variants, facts, earlier)  # examining a long file is slow
    return await judging.judge()


class _Judging:
    def __init__(self, variants: Variants, facts: BoxFacts, earlier: ParsedSource | None) -> None:
        self.variants = variants
        self.runner = runner = variants.runner
        self.parsed = runner.parsed
        self.facts = facts
        self.earlier = earlier
        self.name = runner.name
        self.declared = declarations(self.parsed.code.tree).encode()
        self.impure = {"skill": impure_tests(self.parsed.tests)}
        if earlier is not None:
            self.impure["earlier"] = impure_tests(earlier)
        self.calls: dict[str, Data] = {}
        self.recorded: dict[str, Data] = {}
        self.callers: dict[str, set[str]] = {}  # by the key of a call

    async def judge(self) -> JudgedTests:
        for each in self.facts.get("observations", {}).get("replay_calls", []):
            if not self._is_impure(each["test"]):
                key = call_key(each["call"])
                self.calls[key] = each["call"]
                self.callers.setdefault(key, set()).add(each["test"])
                if "answer" in each:
                    self.recorded[key] = each["answer"]
        try:
            for _ in range(ROUNDS):
                result = await self._round()
                if result is not None:
                    return result
        except (ValueError, RecursionError) as problem:
            return self._refused(
                f"The code and its tests could not be run separately: {problem}. Make both simpler and faster."
            )
        return self._refused(
            "The tests make different calls each time they run, so the calls cannot be replayed. Use fixed inputs."
        )

    async def _round(self) -> JudgedTests | None:
        """Run the tests on all tables once. Return None if they made calls that no earlier run made."""
        keys, calls = list(self.calls), list(self.calls.values())
        found = await self.runner.answers(calls)
        numbers = {i: self.recorded[key] for i, key in enumerate(keys) if key in self.recorded}
        varying = nondeterministic_calls(found)
        problems = list(replay_problems(self.name, calls, found, numbers, varying))
        problems = problems or coverage_problems(self.parsed.block.tools, found.forth)
        if not problems:
            steady = [pair for i, pair in enumerate(zip(calls, found.forth, strict=True)) if i not in varying]
            problems = [each async for each in self._as_called(steady)]
            problems += [each async for each in self._at_other_times(steady)] if not problems else []
        if problems:
            return JudgedTests(tuple(problems), calls=tuple(calls))
        truth = dict(zip(keys, found.forth, strict=True))
        tables = tables_of(truth)
        tables += tables_of_exchanges(truth, {key: frozenset(tests) for key, tests in self.callers.items()})
        untried: frozenset[int] = frozenset()
        if varying:  # the tests must pass on each of the varying answers
            tables += [AnswerTable(OWN, dict(zip(keys, order, strict=True))) for order in (found.again, found.back)]
        if self.variants.mutants and self.runner.effort.mutants_s:
            mutated = await ask_mutants(self.variants, calls, found, varying)
            if isinstance(mutated, ProposalProblem):
                return JudgedTests((mutated,), calls=tuple(calls))
            tables += tables_of_mutants(keys, mutated)
            untried = mutated.untried
        unknown = await self._run(tables, truth)
        fresh = {call_key(call): call for call in unknown if is_call(call) and call_key(call) not in self.calls}
        if fresh and any(table.unanswered() for table in tables if table.kind == OWN):
            self.calls |= fresh
            return None
        return self._found(tables, untried)

    async def _as_called(self, steady: Sequence[tuple[Data, Data]]) -> AsyncIterator[ProposalProblem]:
        """Repeat a few calls exactly as an agent makes them, and yield a problem if an answer differs."""
        schema = self.facts["schema"]
        if not schema["plain"] or self.facts.get("observations", {}).get("typed"):
            return
        properties = schema["parameters"].get("properties", {})
        usable = [
            (call, with_integers(plain, properties), plain, answer)
            for call, answer in steady
            if (plain := json_arguments(call, list(properties))) is not None and "files" not in answer
        ]
        _chance.shuffle(usable)
        usable.sort(key=lambda each: repr(each[1]) == repr(each[2]))  # calls with converted numbers come first
        chosen = [(call, plain, answer) for call, plain, _, answer in usable[:AGENT_CALLS]]
        worlds = [RecordedAnswers(call.get("tools", ()), self.parsed.block.tools) for call, _, _ in chosen]
        outcomes = await gather_or_cancel(
            *(self.runner.call_as_agent(plain, world) for (_, plain, _), world in zip(chosen, worlds, strict=True))
        )
        for (call, _, answer), outcome, world in zip(chosen, outcomes, worlds, strict=True):
            if outcome_differs(outcome, answer):
                failed = outcome.error.type if outcome.error else str(outcome.end)
                gave = format_answer({"value": outcome.value}) if outcome.ok else failed
                yield ProposalProblem(
                    "replay",
                    f"{format_call(self.name, call)} gives {gave} when called as a tool, and {format_answer(answer)} "
                    "otherwise. Make the result depend on the arguments alone, not on the caller, chance or the time.",
                )
                return
            if not same_calls(world.calls, answer):
                yield ProposalProblem(
                    "replay",
                    f"{format_call(self.name, call)} makes other calls of tools when called as a tool than otherwise. "
                    "Make its calls depend on the arguments and on what the tools answer alone.",
                )
                return

    async def _at_other_times(self, steady: Sequence[tuple[Data, Data]]) -> AsyncIterator[ProposalProblem]:
        """Repeat calls with the clock set to other times, and yield a problem if an answer differs.

        These are the calls for which no test sets a time. Each is also made with the clock set to the present time,
        because setting the clock can itself change an answer.
        """
        if not any(map(reads_clock, (self.parsed.code, *self.parsed.modules.values()))):
            return
        free = [call for call, _ in steady if "clock" not in call]
        moments = (dt.datetime.now(dt.UTC).isoformat(), *OTHER_TIMES)
        moved = [{**call, "clock": moment} for moment in moments for call in free]
        found = await self.runner.run_program(self.parsed.code.text, moved, self.runner.effort.answers_s)
        answers = found["answers"] or []
        for at, other in enumerate(answers):
            answer = answers[at % len(free)]
            if not same_answer(answer, other) and "ended" not in (*answer, *other):
                yield ProposalProblem(
                    "replay",
                    f"{format_call(self.name, free[at % len(free)])} gives {format_answer(answer)} now and "
                    f"{format_answer(other)} at {moved[at]['clock']}, and no test fixes the time of this call.",
                )
                return

    async def _run(self, tables: list[AnswerTable], truth: Mapping[str, Data]) -> list[dict[str, Any]]:
        """Run the tests on every table, in an unpredictable order. Return the calls that the tables do not answer."""
        shuffled = [table for table in tables if table.kind != MUTANT or table.changes]
        _chance.shuffle(shuffled)
        parsed, effort = self.parsed, self.runner.effort
        files = {
            **entry_file(JUDGE),
            "pytest.ini": b"[pytest]\ntmp_path_retention_policy = failed\n",
            "declared.py": self.declared,
            f"skill/test_{self.name}.py": parsed.tests.text.encode(),
        }
        if self.earlier is not None:
            files[f"earlier/test_{self.name}.py"] = self.earlier.text.encode()
        arguments = {
            "name": self.name,
            "seed": self.facts.get("observations", {}).get("seed", 0),
            "tables": [{"changes": t.changes, "otherwise": t.otherwise, "first": t.first} for t in shuffled],
            "test_s": effort.stub_test_s,
            "seconds": effort.judge_s,
            "unchanged": dict(truth),
            "tools": list(self.parsed.block.tools),
            "form": self.facts.get("observations", {}).get("form") or self.facts["schema"].get("form", "function"),
        }
        limit = effort.judge_s + 5
        imports = parsed.tests.imports | (self.earlier.imports if self.earlier is not None else frozenset())
        imports |= parsed.imports & {*LIBRARIES}  # the answers may contain values of these libraries
        foreign = {name for name in imports - _OURS - {self.name} if name not in sys.stdlib_module_names}
        environment = self.runner.environment if foreign else ()
        job = Job(
            call=Call(JUDGE, "judge", arguments),
            files=files,
            preload=preload_for(imports, environment, (*PYDANTIC, *PYTEST)),
            in_box=in_box_modules(JUDGE),
            limits=Limits(wall_s=limit, cpu_s=limit, memory_bytes=1 << 30),
            requirements=environment,
        )
        outcome = await self.runner.sandbox.run(job)
        if not outcome.ok:
            raise ValueError(f"the box that ran the tests ended with {outcome.end}")
        found = facts_of(outcome.value)
        if found.get("collection_errors"):
            raise ValueError(
                f"the tests cannot be collected without the skill's own code: {found['collection_errors'][0][-500:]}"
            )
        runs: dict[str, RunResults] = {run["kind"]: run for run in found["runs"]}
        for number, table in enumerate(shuffled):
            table.results = runs[str(number)]["results"] if str(number) in runs else {}
        return found.get("unknown", [])

    def _found(self, tables: list[AnswerTable], untried: frozenset[int]) -> JudgedTests:
        tests = self.facts["tests"]
        whole, *more = (table for table in tables if table.kind == OWN)
        green = {test: whole.results[test] for test in tests if test in whole.results}
        reached = [t for t in tests if self._is_impure(t) or (t in green and green[t]["outcome"] == "reached")]
        counted = [test for test in tests if test not in reached]
        red = {
            test: frozenset(table.kind for table in tables if table.kind in (*STUBS, WRONG) and table.failed(test))
            for test in counted
        }
        killed: dict[int, bool] = {}
        for table in tables:
            if table.kind != MUTANT:
                continue
            failed = any(table.failed(test) for test in counted)
            if table.changes and not failed and any(test not in table.results for test in counted):
                untried |= frozenset(table.mutants)
            elif failed or not any(table.undecided(test) for test in counted):
                killed |= dict.fromkeys(table.mutants, failed)
        exchanged = [each for each in tables if each.kind == EXCHANGED and each.is_decided(counted)]
        for again in more:
            green |= {test: again.results[test] for test in counted if again.failed(test) and not whole.failed(test)}
        constants = [
            table
            for table in tables
            if table.kind == CONSTANT
            and not any(table.failed(test) for test in counted)
            and not all(table.undecided(test) for test in counted)  # or else no test received the value
        ]
        return JudgedTests(
            tests=tuple(counted),
            impure=tuple(reached),
            mutants=killed,
            untried=untried,
            red=red,
            green=green,
            raising=frozenset(number for table in tables if table.raises for number in table.mutants),
            constant=format_answer(constants[0].otherwise or {}) if constants and counted else "",
            constant_answer=constants[0].otherwise or {} if constants else {},
            calls=tuple(self.calls.values()),
            alike=frozenset(n for t in tables if t.kind == MUTANT and not t.changes for n in t.mutants),
            exchangeable=tuple(
                (format_call(self.name, self.calls[one]), format_call(self.name, self.calls[other]))
                for one, other in (each.changes for each in exchanged if not any(map(each.failed, counted)))
            ),
            exchanges=len(exchanged),
            reversible=any(
                each.kind == NEAR and each.is_decided(counted) and not any(map(each.failed, counted)) for each in tables
            ),
        )

    def _is_impure(self, test: str) -> bool:
        return test_function(test) in self.impure.get(test.partition("/")[0], frozenset())

    def _refused(self, text: str) -> JudgedTests:
        return JudgedTests((ProposalProblem("replay", text),), calls=tuple(self.calls.values()))


_chance = random.SystemRandom()  # unpredictable, so that no box can know it
