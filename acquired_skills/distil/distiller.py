"""`Distiller`: proposes a program of a run that succeeded as a skill (CODE-8).

The program is only parsed here. It runs once more in a box, as a function and on its recorded answers, and on variants
of them: no real tool is called. Whether the proposal becomes a skill is decided by the same admission as for any other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from acquired_skills.distil.candidate import Candidate, candidate_of, has_other_literals
from acquired_skills.distil.changed_answers import ChangedRecording, answering, failing, with_other_arguments
from acquired_skills.distil.function_code import FunctionText, NotDistillable, function_code
from acquired_skills.distil.literals import Value, literals_of, shape_of
from acquired_skills.distil.outcomes import most_telling, observed_case, python_source, why_not_as_recorded
from acquired_skills.distil.parameters import ChosenParameter, choose_parameters
from acquired_skills.distil.recorded_tests import ObservedCase, RecordedCase, recorded_tests
from acquired_skills.distil.request_words import description_for, examples_for, skill_name_for
from acquired_skills.in_box.effort import Effort
from acquired_skills.in_box.packing import packed
from acquired_skills.in_box.recorded_tools import identifier
from acquired_skills.model.names import name_problems
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal
from acquired_skills.proof.answers import Data
from acquired_skills.proof.isolated_runner import IsolatedRunner
from acquired_skills.proof.static_checks import MAX_DESCRIPTION, MAX_TEST_BYTES
from acquired_skills.proof.tool_checks import made_calls
from engine.contract.source import Tool
from engine.stores.program_store import ProgramStore
from sandbox.contract import Sandbox

FindTool = Callable[[str], Awaitable[Tool | None]]
MOST_RUNS = 3  # runs of programs of the same shape whose recordings become tests
_MOST_OTHER_ANSWERS = 3  # variants with other answers of one tool that become tests
_MOST_OTHER_ARGUMENTS = 4
_MOST_VARIANTS = 120  # variants that are tried in the box
_UNWRITABLE = (
    "The result of the program cannot be written into a test. Write code that returns JSON, and send it with "
    "`from_run`."
)
_SECONDS = 20.0  # for all of them


@dataclass(frozen=True, slots=True)
class DistilledProposal:
    """A proposal made from a run, with what a person should know before it is admitted.

    Attributes:
        parameters: The literals that became parameters, and why.
        runs: The ids of the runs whose recordings are in the tests, the one that was asked for first.
        program: The id of the program.
        others: Ids of further programs of the run that could be chosen instead.
    """

    proposal: Proposal
    parameters: Sequence[ChosenParameter]
    runs: Sequence[str]
    program: str
    others: Sequence[str] = ()

    def value(self) -> dict[str, Any]:
        """Return the proposal as JSON."""
        return {
            "name": self.proposal.name,
            "description": self.proposal.description,
            "code": self.proposal.code,
            "tests": self.proposal.tests,
            "examples": list(self.proposal.examples),
            "parameters": [
                {"name": each.name, "type": each.type, "value": each.value, "why": each.why} for each in self.parameters
            ],
            "runs": list(self.runs),
            "program": self.program,
            "other_programs": list(self.others),
        }


class Distiller:
    """Makes proposals from the stored programs of one engine."""

    def __init__(self, programs: ProgramStore, sandbox: Sandbox) -> None:
        self._programs = programs
        self._sandbox = sandbox

    async def distil(
        self, run: str, find: FindTool, *, user: str | None = None, name: str = "", description: str = ""
    ) -> DistilledProposal:
        """Propose a program as a skill.

        Args:
            run: The id of a run, whose last program is taken, or of a program (the id of its call of `execute`).
            find: Finds a tool of the caller by its name.
            user: The user whose programs may be used; None for all.
            name: The name of the skill; "" to make one from the request.
            description: The description of the skill; "" to make one from the request.

        Raises:
            NotDistillable: There is no such program, or it cannot become a skill. The message says what to do.
            SandboxError: No box can run.
        """
        found, similar, others = await asyncio.to_thread(self._read, run, user)
        tools = sorted({str(rule["tool"]) for rule in found.rules})
        fixed = await _choices(tools, find)
        parsed, parameters = await asyncio.to_thread(_written, found, similar, fixed, name, description)
        runner = IsolatedRunner(parsed, (), self._sandbox, Effort())
        cases, used, truth = await self._runs(runner, found, similar, parameters)
        observed = await self._observed(runner, cases[0], truth, tools)
        tests = await asyncio.to_thread(_within_limit, parsed.proposal.name, cases, observed)
        return DistilledProposal(replace(parsed.proposal, tests=tests), parameters, used, found.stored.id, others)

    def _read(self, run: str, user: str | None) -> tuple[Candidate, list[Candidate], list[str]]:
        finished = [each for each in self._programs.finished(user, run) if each.calls]
        if not finished:
            raise NotDistillable(
                f"The run {run[:80]} has no recorded program that called tools and succeeded. Programs "
                "are on record if a run of the loop called `execute` with Python code alone, no arguments and no input."
            )
        chosen = candidate_of(finished[0])
        shape = shape_of(chosen.tree)
        similar: list[Candidate] = []
        for each in self._programs.finished(user):
            if each.id == chosen.stored.id or len(similar) == MOST_RUNS - 1:
                continue
            try:
                other = candidate_of(each)
            except NotDistillable:
                continue
            if shape_of(other.tree) == shape and has_other_literals(other, [chosen, *similar]):
                similar.append(other)
        return chosen, similar, [each.id for each in finished[1:]]

    async def _runs(
        self,
        runner: IsolatedRunner,
        found: Candidate,
        similar: Sequence[Candidate],
        parameters: Sequence[ChosenParameter],
    ) -> tuple[list[RecordedCase], list[str], Data]:
        """Run the function on each recording. Its result must be that of the run.

        Returns:
            The runs as cases of tests, their ids, and the answer of the first one.
        """
        every = [found, *similar]
        given = [_arguments(each, parameters) for each in every]
        calls = [_call(arguments, each.rules) for each, arguments in zip(every, given, strict=True)]
        answers = await self._answers(runner, calls)
        cases: list[RecordedCase] = []
        used: list[str] = []
        for each, arguments, answer in zip(every, given, answers, strict=True):
            problem = why_not_as_recorded(each.stored, answer)
            result = None if problem else python_source(answer.get("value"))
            if result is None and each is found:
                raise NotDistillable(problem or _UNWRITABLE)
            if result is None:
                continue
            made = [(str(made.get("tool")), made.get("arguments")) for made in made_calls(answer)]
            cases.append(RecordedCase(arguments, each.rules, result, made))
            used.append(each.stored.run)
        return cases, used, answers[0]

    async def _observed(
        self, runner: IsolatedRunner, case: RecordedCase, truth: Data, tools: Sequence[str]
    ) -> list[ObservedCase]:
        """Return what the function does when tools fail or answer otherwise, and with other arguments."""
        variants = [failing(tool, case.rules, case.arguments) for tool in tools]
        for tool in tools:
            variants += answering(tool, case.rules, case.arguments)
        variants += with_other_arguments(case.rules, case.arguments)
        variants = variants[:_MOST_VARIANTS]
        answers = await self._answers(runner, [_call(each.arguments, each.rules) for each in variants])
        found = list(zip(variants, answers, strict=True))
        chosen: list[tuple[ChangedRecording, Data]] = [pair for pair in found if pair[0].fails]
        for tool in (*tools, ""):
            mine = [pair for pair in found if pair[0].tool == tool and not pair[0].fails]
            most = _MOST_OTHER_ANSWERS if tool else _MOST_OTHER_ARGUMENTS
            chosen += most_telling(mine, truth, most, needed=bool(tool))
        return [case_ for variant, answer in chosen if (case_ := observed_case(variant, answer)) is not None]

    async def _answers(self, runner: IsolatedRunner, calls: Sequence[Data]) -> Sequence[Data]:
        """Return what the function answers to these calls, in a box without any tool.

        Raises:
            NotDistillable: The code cannot be loaded.
        """
        try:
            found = await runner.run_program(runner.parsed.code.text, calls, _SECONDS, 2.0)
        except ValueError as problem:
            raise NotDistillable(f"The program could not be run again on its recorded answers: {problem}.") from problem
        if found["answers"] is None:
            raise NotDistillable("The program as a function cannot be imported. Write the code of the skill yourself.")
        return found["answers"]


def _written(
    found: Candidate, similar: Sequence[Candidate], fixed: Collection[tuple[str, str]], name: str, description: str
) -> tuple[ParsedProposal, list[ChosenParameter]]:
    """Return the program as a proposal without tests, and its parameters. A long program takes a while.

    Raises:
        NotDistillable: The program has a form that no function has, or the name is not one of a skill.
    """
    if name and (problems := name_problems(name, frozenset())):
        raise NotDistillable(problems[0])
    request = found.stored.request.strip()
    tools = sorted({str(rule["tool"]) for rule in found.rules})
    parameters = choose_parameters(found.tree, request, [each.tree for each in similar], fixed)
    text = FunctionText(
        name or skill_name_for(request, parameters),
        description or description_for(request, parameters, tools)[:MAX_DESCRIPTION],
        tools,
    )
    code = function_code(found.tree, parameters, text)
    examples = examples_for(each.stored.request for each in (found, *similar))
    try:
        return ParsedProposal.parse(Proposal(text.name, text.description, code, "", examples)), parameters
    except (SyntaxError, ValueError, RecursionError) as problem:
        raise NotDistillable(f"The program cannot be written as a function: {problem}.") from problem


async def _choices(tools: Sequence[str], find: FindTool) -> set[tuple[str, str]]:
    """Return the arguments with a fixed list of values, by the names that a program may use for their tools."""
    found: set[tuple[str, str]] = set()
    for name in tools:
        tool = await find(name)
        properties = {} if tool is None else tool.spec.parameters.get("properties", {})
        listed = [each for each, schema in properties.items() if isinstance(schema, Mapping) and "enum" in schema]
        found.update((form, each) for each in listed for form in (name, identifier(name)))
    return found


def _arguments(candidate: Candidate, parameters: Sequence[ChosenParameter]) -> dict[str, Value]:
    """Return the arguments with which the function does what this program did."""
    literals = literals_of(candidate.tree)
    return {each.name: literals[each.number].value for each in parameters}


def _call(arguments: Mapping[str, Value], rules: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the call as data (`acquired_skills.in_box.call_data`)."""
    named = {name: packed(value, "") for name, value in sorted(arguments.items())}
    return {"arguments": [], "named": named, "tools": [dict(each) for each in rules]}


def _within_limit(name: str, cases: Sequence[RecordedCase], observed: Sequence[ObservedCase]) -> str:
    """Return the tests, without the last runs and variants if they are too long together.

    Raises:
        NotDistillable: The recording alone is too long.
    """
    for kept in (cases, cases[:1]):
        text = recorded_tests(name, kept, observed)
        if len(text.encode()) <= MAX_TEST_BYTES:
            return text
    raise NotDistillable(
        f"The recorded answers are longer than the {MAX_TEST_BYTES >> 10} KiB that tests may have. Run the program on "
        "less data first, or write tests with shorter answers."
    )
