"""`Distiller`: proposes a program of a run that succeeded as a skill (CODE-8).

The program is only parsed here. It runs once more in a box, as a function and on its recorded answers, and on variants
of them: no real tool is called. Whether the proposal becomes a skill is decided by the same admission as for any other.
"""

import ast
import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from acquired_skills.distil.changed_answers import Variant, answering, failing, with_other_arguments
from acquired_skills.distil.function_code import FunctionText, NotDistillable, function_code
from acquired_skills.distil.literals import Value, literals_of, shape_of
from acquired_skills.distil.parameters import ChosenParameter, choose_parameters
from acquired_skills.distil.recorded_tests import TOOL_ERROR, ObservedCase, RecordedCase, recorded_tests
from acquired_skills.in_box.effort import Effort
from acquired_skills.in_box.packing import packed
from acquired_skills.in_box.recorded_tools import NOT_RECORDED
from acquired_skills.model.names import name_problems
from acquired_skills.model.parsed import ParsedProposal, parse_source, too_deep
from acquired_skills.model.proposal import Proposal
from acquired_skills.proof.answers import Data, same_answer, to_plain_json
from acquired_skills.proof.isolated_runner import IsolatedRunner
from acquired_skills.proof.static_checks import MAX_DESCRIPTION, MAX_EXAMPLE, MAX_TEST_BYTES
from acquired_skills.proof.tool_checks import NEVER
from engine.stores.program_store import LOST, FinishedProgram, ProgramStore
from sandbox.contract import Sandbox

MOST_RUNS = 3  # runs of programs of the same shape whose recordings become tests
_MOST_OTHER_ANSWERS = 3  # variants with other answers of one tool that become tests
_MOST_OTHER_ARGUMENTS = 4
_MOST_VARIANTS = 120  # variants that are tried in the box
_SECONDS = 20.0  # for all of them
_MOST_WORDS = 5  # of a name
_WORD = re.compile(r"[a-z][a-z0-9]*")
_FILLERS = frozenset(
    ["a", "all", "an", "and", "are", "as", "at", "be", "by", "each", "every", "for", "from", "give", "have", "how", "i", "in", "into", "is", "it", "its", "me", "my", "of", "on", "or", "please", "that", "the", "their", "them", "then", "there", "these", "they", "this", "those", "to", "up", "us", "was", "what", "when", "where", "which", "who", "will", "with", "you", "your"]
)


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


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A stored program with its syntax tree and its calls as rules of a recording."""

    stored: FinishedProgram
    tree: ast.Module
    rules: Sequence[Mapping[str, Any]]


class Distiller:
    """Makes proposals from the stored programs of one engine."""

    def __init__(self, programs: ProgramStore, sandbox: Sandbox) -> None:
        self._programs = programs
        self._sandbox = sandbox

    async def distil(
        self, run: str, *, user: str | None = None, name: str = "", description: str = ""
    ) -> DistilledProposal:
        """Propose a program as a skill.

        Args:
            run: The id of a run, whose last program is taken, or of a program (the id of its call of `execute`).
            user: The user whose programs may be used; None for all.
            name: The name of the skill; "" to make one from the request.
            description: The description of the skill; "" to make one from the request.

        Raises:
            NotDistillable: There is no such program, or it cannot become a skill. The message says what to do.
            SandboxError: No box can run.
        """
        found, similar, others = await asyncio.to_thread(self._read, run, user)
        request = found.stored.request.strip()
        parameters = choose_parameters(found.tree, request, [each.tree for each in similar])
        tools = sorted({str(rule["tool"]) for rule in found.rules})
        text = FunctionText(
            name or skill_name_for(request, parameters),
            description or _description(request, parameters, tools),
            tools,
        )
        code = function_code(found.tree, parameters, text)
        proposal = Proposal(text.name, text.description[:MAX_DESCRIPTION], code, "", _examples(found, similar))
        parsed = await asyncio.to_thread(ParsedProposal.parse, proposal)
        runner = IsolatedRunner(parsed, (), self._sandbox, Effort())
        cases, used, truth = await self._runs(runner, found, similar, parameters)
        observed = await self._observed(runner, cases[0], truth, tools)
        proposal = replace(proposal, tests=_within_limit(text.name, cases, observed))
        return DistilledProposal(proposal, parameters, used, found.stored.id, others)

    def _read(self, run: str, user: str | None) -> tuple[_Candidate, list[_Candidate], list[str]]:
        finished = [each for each in self._programs.finished(user, run) if each.calls]
        if not finished:
            raise NotDistillable(
                f"There is no program of the run {run[:80]} that succeeded, called tools and is on record. Programs are "
                "on record if a run of the loop called `execute` with Python code alone, no arguments and no input."
            )
        chosen = _candidate(finished[0])
        shape = shape_of(chosen.tree)
        similar: list[_Candidate] = []
        for each in self._programs.finished(user):
            if each.id == chosen.stored.id or len(similar) == MOST_RUNS - 1:
                continue
            try:
                other = _candidate(each)
            except NotDistillable:
                continue
            if shape_of(other.tree) == shape and _differs(other, [chosen, *similar]):
                similar.append(other)
        return chosen, similar, [each.id for each in finished[1:]]

    async def _runs(
        self,
        runner: IsolatedRunner,
        found: _Candidate,
        similar: Sequence[_Candidate],
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
            problem = _not_as_recorded(each.stored, answer)
            if problem and each is found:
                raise NotDistillable(problem)
            result = python_source(answer.get("value"))
            if problem or result is None:
                continue
            made = [(str(made["tool"]), made["arguments"]) for made in answer.get("called", [])]
            cases.append(RecordedCase(arguments, each.rules, result, made))
            used.append(each.stored.run)
        if not cases:
            raise NotDistillable(
                "The result of the program cannot be written into a test. Write code that returns JSON, and send it "
                "with `from_run`."
            )
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
        chosen: list[tuple[Variant, Data]] = [pair for pair in found if pair[0].fails]
        for tool in (*tools, ""):
            mine = [pair for pair in found if pair[0].tool == tool and not pair[0].fails]
            most = _MOST_OTHER_ANSWERS if tool else _MOST_OTHER_ARGUMENTS
            chosen += _most_telling(mine, truth, most, needed=bool(tool))
        return [case_ for variant, answer in chosen if (case_ := _observed_case(variant, answer)) is not None]

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


def _candidate(stored: FinishedProgram) -> _Candidate:
    """Parse a stored program.

    Raises:
        NotDistillable: It cannot become a skill.
    """
    try:
        tree = parse_source(stored.source)
    except (SyntaxError, ValueError, RecursionError) as problem:
        raise NotDistillable(f"The program cannot be parsed: {problem}.") from problem
    if deep := too_deep(tree):
        raise NotDistillable(deep)
    rules: list[Mapping[str, Any]] = []
    for call in stored.calls:
        answer = call.answer
        if answer is None or answer == LOST:
            raise NotDistillable(f"The answer of call {call.position} ({call.name}) was not kept.")
        if call.name in NEVER:
            raise NotDistillable(f"The program calls {call.name}, which a skill cannot do.")
        fields = {part: answer[part] for part in ("value", "failed") if part in answer}
        rules.append({"tool": call.name, "arguments": dict(call.arguments), **fields})
    if not rules:
        raise NotDistillable("The program calls no tools.")
    return _Candidate(stored, tree, rules)


def _differs(other: _Candidate, known: Sequence[_Candidate]) -> bool:
    values = [each.value for each in literals_of(other.tree)]
    return all([each.value for each in literals_of(one.tree)] != values for one in known)


def _arguments(candidate: _Candidate, parameters: Sequence[ChosenParameter]) -> dict[str, Value]:
    """Return the arguments with which the function does what this program did."""
    literals = literals_of(candidate.tree)
    return {each.name: literals[each.number].value for each in parameters}


def _call(arguments: Mapping[str, Value], rules: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the call as data (`acquired_skills.in_box.call_data`)."""
    named = {name: packed(value, "") for name, value in sorted(arguments.items())}
    return {"arguments": [], "named": named, "tools": [dict(each) for each in rules]}


def _not_as_recorded(stored: FinishedProgram, answer: Data) -> str:
    """Return why the answer of the function is not the result of the run, or "" if it is."""
    if "value" not in answer:
        types = answer.get("raised", {}).get("types", ["an exception"])
        text = str(answer.get("raised", {}).get("text", ""))[:300]
        return (
            f"The program raised {str(types[0]).rpartition(':')[2]} when it ran again on its recorded answers ({text}). "
            "It may use files, the clock or chance. Write the code of the skill yourself, and send it with `from_run`."
        )
    try:
        again = to_plain_json(answer["value"])
    except TypeError:
        return "The result of the program is not JSON."
    printed = stored.stdout.rstrip("\n")
    if again == stored.value or (stored.value is None and printed in (str(again), _joined(again))):
        return ""
    return (
        "The program gave another result when it ran again on its recorded answers. It may depend on files, the clock "
        "or chance. Write the code of the skill yourself, and send it with `from_run`."
    )


def _joined(value: Any) -> str:
    return value.rstrip("\n") if isinstance(value, str) else repr(value)


def _most_telling(
    found: Sequence[tuple[Variant, Data]], truth: Data, most: int, *, needed: bool
) -> list[tuple[Variant, Data]]:
    """Choose variants with different results. If there are none, but one is needed, choose any that is decided."""
    values = [pair for pair in found if "value" in pair[1] and not _off_record(pair[1])]
    chosen: list[tuple[Variant, Data]] = []
    for pair in values:
        if len(chosen) < most and not any(same_answer(pair[1], each) for each in (truth, *(c[1] for c in chosen))):
            chosen.append(pair)
    if chosen or not needed:
        return chosen
    others = [pair for pair in found if "value" in pair[1] or "raised" in pair[1]]
    return (values or others)[:1]


def _off_record(answer: Data) -> bool:
    return any(each.get("failed") == NOT_RECORDED for each in answer.get("called", []))


def _observed_case(variant: Variant, answer: Data) -> ObservedCase | None:
    if "value" in answer:
        result = python_source(answer["value"])
        return None if result is None else ObservedCase(variant, result)
    types = answer.get("raised", {}).get("types", []) if isinstance(answer.get("raised"), dict) else []
    home, _, name = str(types[0]).partition(":") if types else ("", "", "")
    if home == "builtins" or (home == "knackbox" and name == TOOL_ERROR):
        return ObservedCase(variant, raised=name)
    return None


def python_source(value: Any) -> str | None:
    """Return packed data as Python source; None if there is no simple expression for it."""
    match value:
        case list():
            items = [python_source(each) for each in value]
            return None if None in items else f"[{', '.join(map(str, items))}]"
        case {"dict": [*pairs]}:
            texts = [(python_source(key), python_source(each)) for key, each in pairs]
            if any(None in each for each in texts):
                return None
            return "{" + ", ".join(f"{key}: {each}" for key, each in texts) + "}"
        case {"tuple": [*items]}:
            texts_ = [python_source(each) for each in items]
            return None if None in texts_ else f"({', '.join(map(str, texts_))}{',' if len(texts_) == 1 else ''})"
        case dict():
            return None
    return repr(value)


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


def skill_name_for(request: str, parameters: Sequence[ChosenParameter]) -> str:
    """Return a name made of the words of a request, without the values of parameters."""
    values = {word for each in parameters for word in _WORD.findall(str(each.value).lower())}
    words = [word for word in _WORD.findall(request.lower()) if word not in _FILLERS | values]
    name = "_".join(words[:_MOST_WORDS])[:60].strip("_")
    return name if name and not name_problems(name, frozenset()) else f"distilled_{name or 'program'}"[:60].strip("_")


def _description(request: str, parameters: Sequence[ChosenParameter], tools: Sequence[str]) -> str:
    names = ", ".join(each.name for each in parameters)
    ways = f", for any {names}" if names else ""
    asked = " ".join(request.split()) or "the request of its run"
    return f"{asked.rstrip('.')}{ways}. It calls {', '.join(tools)}."


def _examples(found: _Candidate, similar: Sequence[_Candidate]) -> tuple[str, ...]:
    requests = dict.fromkeys(" ".join(each.stored.request.split()) for each in (found, *similar))
    return tuple(each for each in requests if 0 < len(each) <= MAX_EXAMPLE)
