"""Runs the proposal of a Node or Bash skill through every stage of admission (SKILL-22).

The stages are those of a Python skill, without the rehearsal: cases are data, so there is no test code to rehearse.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from acquired_skills.in_box.effort import Effort
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.prediction import Prediction
from acquired_skills.model.proposal import Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.skill_schemas import usable_output_schema, why_misfit, why_unusable_input
from acquired_skills.proof.admission import Admission
from acquired_skills.proof.admission_report import build_report
from acquired_skills.proof.answers import to_plain_json
from acquired_skills.proof.claimed_results import claim_note, claim_problems
from acquired_skills.proof.duplicates import DuplicateCheck, Neighbour
from acquired_skills.proof.evidence_problems import evidence_problems
from acquired_skills.proof.facts import BoxFacts
from acquired_skills.proof.judging import JudgedTests
from acquired_skills.proof.programs.node_calls import program_calls
from acquired_skills.proof.programs.program_cases import ProgramCase, read_program_cases
from acquired_skills.proof.programs.program_duplicates import find_duplicate_program
from acquired_skills.proof.programs.program_judging import case_name, judge_cases, red_problems
from acquired_skills.proof.programs.program_runner import ProgramRunner
from acquired_skills.proof.programs.text_variants import (
    TextMutant,
    TextMutantWriter,
    make_text_variants,
    unmutated_files,
)
from acquired_skills.proof.programs.unused_parameters import unused_parameters, unused_problems
from acquired_skills.proof.questions import Evidence, weigh
from acquired_skills.proof.reference_answers import ComparedReference
from acquired_skills.proof.surviving_mutants import Survivors, examine_survivors
from acquired_skills.proof.variants import Variants
from sandbox.contract import Sandbox

_MUTANTS_SEED = 1  # constant, so that the same program gets the same mutants
_SLOWER = 3  # factor for time limits, because starting an interpreter takes longer than forking a template
MUTANTS = 60


async def admit_program(
    parsed: ParsedProposal,
    sandbox: Sandbox,
    *,
    seed: int,
    earlier_tests: str | None = None,
    neighbours: Sequence[Neighbour] = (),
    effort: Effort | None = None,
    disputed: Sequence[Prediction] = (),
    author: bool = True,
) -> Admission:
    """Run the stages that follow the static checks.

    The arguments and exceptions are those of `acquired_skills.proof.admission.admit`.
    """
    effort = effort or Effort()
    effort = replace(
        effort,
        mutants=min(MUTANTS, effort.mutants),
        mutants_s=_SLOWER * effort.mutants_s,
        similar_calls_s=_SLOWER * effort.similar_calls_s,
    )
    began = time.perf_counter()
    name, expected = parsed.proposal.name, parsed.proposal.predictions
    runner = ProgramRunner(parsed, (), sandbox, effort)
    if unusable := why_unusable_input(runner.interface.parameters):
        raise SkillRefused(
            name, [ProposalProblem("schema", f"The schema of the parameters cannot be used: {unusable}.")]
        )
    cases = read_program_cases(parsed.proposal.tests)
    problems = _unfit(cases, runner)
    if problems:
        raise SkillRefused(name, problems)
    if earlier_tests is not None:
        cases += read_program_cases(earlier_tests)
    made = await make_text_variants(runner, effort.mutants, _MUTANTS_SEED)
    if made.error:
        raise SkillRefused(
            name, [ProposalProblem("code", f"The code cannot be parsed:\n{made.error}\nCorrect that line.")]
        )
    mutants = made.mutants if effort.threshold else ()
    variants = Variants(runner, TextMutantWriter(parsed.code, parsed.proposal.files), mutants)
    found = await judge_cases(variants, cases, made.neutral)
    if problems := [*found.problems, *(() if found.problems else red_problems(found))]:
        raise SkillRefused(name, problems)
    calls = program_calls(parsed.proposal.language, found.calls)
    if problems := await claim_problems(runner, calls, parsed.proposal.claimed):
        raise SkillRefused(name, problems)
    evidence = await _gather_evidence(variants, found, disputed)
    problems = list(evidence_problems(parsed.proposal, evidence, mutants, effort, referable=False))
    stated = [dict(each.arguments) for each in (*(case.expected for case in cases), *expected)]
    unused = unused_parameters(runner.interface.parameters, stated) if effort.threshold else []
    problems += unused_problems(unused)
    if problems and (author or evidence.disputed):
        raise SkillRefused(name, problems, evidence.questions, evidence.disputed)
    complete = made.complete and not unused and found.mutants and not unmutated_files(parsed.proposal.files)
    if effort.threshold and not complete:  # it is not known how much the cases prove
        evidence = replace(evidence, enough=False)
    answers = await runner.answers(found.calls)
    compared = await find_duplicate_program(runner, found.calls, answers.forth, neighbours)
    if compared.duplicate:
        raise SkillRefused(name, [compared.problem()])
    values = [{"value": to_plain_json(each["value"])} for each in answers.forth if "value" in each]
    return _admission(parsed, runner, cases, evidence, found, made_mutants=mutants, compared=compared, values=values,
                      seed=seed, seconds=time.perf_counter() - began, earlier=earlier_tests is not None)  # fmt: skip


def calls_of_cases(proposal: Proposal) -> list[dict[str, object]]:
    """Return the arguments of the calls in the cases, except calls that need files."""
    return [dict(case.expected.arguments) for case in read_program_cases(proposal.tests) if not case.files]


def _unfit(cases: Sequence[ProgramCase], runner: ProgramRunner) -> list[ProposalProblem]:
    """Return a problem for the first case, if any, whose arguments do not fit the schema in the comment."""
    for number, case in enumerate(cases, 1):
        if wrong := why_misfit(dict(case.expected.arguments), runner.interface.parameters):
            text = f"The arguments of {case_name(number)} do not fit the `@param` lines of the comment:\n{wrong}"
            return [ProposalProblem("cases", text)]
    return []


async def _gather_evidence(variants: Variants, found: JudgedTests, disputed: Sequence[Prediction]) -> Evidence:
    runner = variants.runner
    expected, calls = runner.parsed.proposal.predictions, program_calls(runner.parsed.proposal.language, found.calls)
    left = [number for number, killed in found.mutants.items() if not killed]
    survivors = Survivors()
    few = bool(found.mutants) and len(found.calls) < runner.effort.calls
    if left or few or found.constant or expected:
        survivors = await examine_survivors(variants, found, [calls.call(each.arguments) for each in expected], left)
    return weigh(
        found,
        survivors,
        made=len(variants.mutants),
        predictions=expected,
        earlier=disputed,
        calls=calls,
        effort=runner.effort,
        reference=ComparedReference(),
    )


def _admission(
    parsed: ParsedProposal,
    runner: ProgramRunner,
    cases: Sequence[ProgramCase],
    evidence: Evidence,
    found: JudgedTests,
    *,
    made_mutants: Sequence[TextMutant],
    compared: DuplicateCheck,
    values: Sequence[dict[str, object]],
    seed: int,
    seconds: float,
    earlier: bool,
) -> Admission:
    facts: BoxFacts = {"phase": "tests", "runs": [], "tests": [case_name(n) for n in range(1, len(cases) + 1)]}
    return Admission(
        parameters=runner.interface.parameters,
        plain=True,
        tests=len(cases),
        seconds=seconds,
        returns=usable_output_schema(runner.interface.returns, values),
        report=build_report(
            facts,
            found,
            evidence,
            made_mutants,
            seed=seed,
            compared=compared.neighbours,
            seconds={"judging": seconds},
            earlier=earlier,
            notes=(*parsed.notes, *claim_note(parsed.proposal.claimed)),
        ),
    )
