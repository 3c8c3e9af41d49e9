"""Judges the cases of a Node or Bash skill by the answers of its program (SKILL-22).

Cases are data, so the engine itself compares them with the answers of the program, of its mutants and of stubs. No test
code runs, and no box receives the expected results.
"""

import random
from collections.abc import Iterator, Mapping, Sequence

from acquired_skills.in_box.call_data import call_key
from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.proof.answer_tables import CONSTANTS, STUBS, WRONG, always_raises
from acquired_skills.proof.answers import (
    Data,
    RepeatedAnswers,
    format_answer,
    format_call,
    nondeterministic_calls,
    outcome_differs,
)
from acquired_skills.proof.judging import AGENT_CALLS, JudgedTests
from acquired_skills.proof.mutant_answers import NEUTRAL, ask_mutants
from acquired_skills.proof.programs.node_calls import program_calls
from acquired_skills.proof.programs.program_cases import ProgramCase
from acquired_skills.proof.programs.text_variants import TextMutant
from acquired_skills.proof.variants import Variants, gather_or_cancel
from acquired_skills.proof.wrong_answers import WAYS, wrong_answer

MOST_SHOWN = 3
_MOST_TEXT = 500


async def judge_cases(variants: Variants, cases: Sequence[ProgramCase], neutral: Sequence[TextMutant]) -> JudgedTests:
    """Judge the cases by the answers of the program and of its variants.

    Args:
        neutral: Equivalent variants of the program, for the control group.

    Raises:
        SandboxError: No box can run.
    """
    runner = variants.runner
    converted = program_calls(runner.parsed.proposal.language, ())
    calls_of = [case.call(converted) for case in cases]
    unique = {call_key(call): call for call in calls_of}
    keys, calls = list(unique), list(unique.values())
    place = {key: number for number, key in enumerate(keys)}
    at = [place[call_key(call)] for call in calls_of]
    try:
        found = await runner.answers(calls)
        varying = nondeterministic_calls(found)
        if all("ended" in answer for answer in found.forth):
            return JudgedTests((await _nothing_answered(variants, cases[0]),), calls=tuple(calls))
        problems = [
            *_case_problems(runner.name, cases, at, calls, found),
            *await _as_called(variants, calls, found, varying),
        ]
        if problems:
            return JudgedTests(tuple(problems), calls=tuple(calls))
        changes: Mapping[int, Mapping[int, Data]] = {}
        untried: frozenset[int] = frozenset()
        if variants.mutants:
            control = _control(neutral)
            mutated = await ask_mutants(variants, calls, found, varying, control)
            if isinstance(mutated, ProposalProblem):
                return JudgedTests((mutated,), calls=tuple(calls))
            changes, untried = mutated.changes, mutated.untried
    except (ValueError, RecursionError) as problem:
        text = f"The program could not be run: {problem}. Make it simpler and faster."
        return JudgedTests((ProposalProblem("replay", text),), calls=tuple(calls))
    truth = found.forth

    def fails(changed: Mapping[int, Data]) -> bool:
        return any(not case.passes(changed[n]) for case, n in zip(cases, at, strict=True) if n in changed)

    different = {call_key(answer): answer for answer in truth}
    constants = [each for each in list(different.values())[:CONSTANTS] if all(case.passes(each) for case in cases)]
    return JudgedTests(
        tests=tuple(case_name(number) for number in range(1, len(cases) + 1)),
        mutants={number: fails(changed) for number, changed in changes.items()},
        untried=untried,
        red={
            case_name(number): frozenset(_fails_on(case, truth[n]))
            for number, (case, n) in enumerate(zip(cases, at, strict=True), 1)
        },
        raising=frozenset(n for n, changed in changes.items() if always_raises(changed, truth)),
        constant=format_answer(constants[0]) if constants else "",
        constant_answer=constants[0] if constants else {},
        calls=tuple(calls),
        alike=frozenset(number for number, changed in changes.items() if not changed),
    )


def _control(neutral: Sequence[TextMutant]) -> list[TextMutant]:
    """Return the variants of the control group, with at least one variant of each file."""
    shuffled = _chance.sample(list(neutral), len(neutral))
    first = {each.path: each for each in shuffled}
    rest = [each for each in shuffled if each is not first[each.path]]
    return [*first.values(), *rest[: max(0, NEUTRAL - len(first))]]


def case_name(number: int) -> str:
    """Return the name of a case in reports."""
    return f"case {number}"


def red_problems(found: JudgedTests) -> Iterator[ProposalProblem]:
    """Yield a problem if some cases pass on a stub, or on any answer of the right type (SKILL-4)."""
    empty = [case for case, kinds in found.red.items() if not kinds & STUBS.keys() or WRONG not in kinds]
    if empty:
        yield ProposalProblem(
            "red",
            f"{', '.join(empty[:MOST_SHOWN])}: pass{'es' if len(empty) == 1 else ''} with almost any result of the "
            "same type. State the exact result.",
        )


def _fails_on(case: ProgramCase, answer: Data) -> Iterator[str]:
    """Yield the kinds of wrong answers that a case detects."""
    yield from (kind for kind, stub in STUBS.items() if not case.passes(stub))
    if any(not case.passes(wrong_answer(answer, way)) for way in range(WAYS)):
        yield WRONG


def _case_problems(
    name: str, cases: Sequence[ProgramCase], at: Sequence[int], calls: Sequence[Data], found: RepeatedAnswers
) -> list[ProposalProblem]:
    """Return a problem for each case that does not pass on all three answers of the program to its call."""
    problems: list[ProposalProblem] = []
    for number, (case, n) in enumerate(zip(cases, at, strict=True), 1):
        three = [found.forth[n], found.again[n], found.back[n]]
        wrong = [answer for answer in three if not case.passes(answer)]
        if not wrong or len(problems) == MOST_SHOWN:
            continue
        call = format_call(name, calls[n])
        if "ended" in wrong[0]:
            text = (
                f"{call} ends its process, or takes too long. Let it return a result, raise an exception or exit with "
                "a status, in less time."
            )
        elif len(wrong) < len(three):
            text = (
                f"{call} passes {case_name(number)} only sometimes. Make the result depend on the arguments alone, not "
                "on chance, the time or earlier calls."
            )
        elif "raised" in wrong[0]:
            said = str(wrong[0]["raised"].get("text", ""))[:_MOST_TEXT].strip()
            text = (
                f"{case_name(number)}: {call} raises {format_answer(wrong[0])}:\n{said}\nCorrect the code or the case."
            )
        else:
            what = "leaves other files" if case.after and case_result_passes(case, wrong[0]) else "gives another result"
            text = f"{case_name(number)}: {call} {what}. Which of the two is right? Correct the code or the case."
        problems.append(ProposalProblem("green", text))
    return problems


def case_result_passes(case: ProgramCase, answer: Data) -> bool:
    """Return whether an answer has the expected result, whatever files the call leaves behind."""
    return ProgramCase(case.expected, case.files).passes(answer)


async def _nothing_answered(variants: Variants, case: ProgramCase) -> ProposalProblem:
    """Return the problem to report if a program answers no call, with the error message of one call."""
    outcome = await variants.runner.call_as_agent(case.expected.arguments)
    said = outcome.error.message if outcome.error else outcome.stderr.decode(errors="replace")
    text = f"The program gives no result for any case. It ends with: {said.strip()[-_MOST_TEXT:] or outcome.end}"
    return ProposalProblem("code", text)


async def _as_called(
    variants: Variants, calls: Sequence[Data], found: RepeatedAnswers, varying: frozenset[int]
) -> list[ProposalProblem]:
    """Repeat a few calls exactly as an agent makes them, and return a problem if an answer differs."""
    converted = program_calls(variants.runner.parsed.proposal.language, ())
    usable = [
        (call, plain, found.forth[n])
        for n, call in enumerate(calls)
        if n not in varying and (plain := converted.arguments(call)) is not None and "ended" not in found.forth[n]
    ]
    chosen = _chance.sample(usable, min(AGENT_CALLS, len(usable)))
    outcomes = await gather_or_cancel(*(variants.runner.call_as_agent(plain) for _, plain, _ in chosen))
    for (call, _, answer), outcome in zip(chosen, outcomes, strict=True):
        if outcome_differs(outcome, answer):
            text = (
                f"{format_call(variants.runner.name, call)} gives another result when it is called as a tool. Make the "
                "result depend on the arguments alone, not on the caller, chance or the time."
            )
            return [ProposalProblem("replay", text)]
    return []


_chance = random.SystemRandom()  # unpredictable, so that no box can know it
