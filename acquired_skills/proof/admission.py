"""Runs a proposal through every stage of admission, each in its own boxes (SKILL-1, SKILL-3 to SKILL-8).

There are three stages:

- The rehearsal runs the skill together with its tests. It can only count against the proposal.
- Judging runs the skill without its tests, and the tests without the skill. It can count for or against the proposal.
- The proposal is compared with similar skills.

All decisions are made outside the boxes.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from acquired_skills.in_box.effort import Effort
from acquired_skills.jobs.box_files import HARNESS, PYDANTIC, PYTEST, entry_file, in_box_modules
from acquired_skills.jobs.environment import HARNESS_PACKAGES, environment_of, preload_for, refused_connections
from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.model.prediction import Prediction
from acquired_skills.model.program import encoded
from acquired_skills.model.proposal import ProposalProblem, SkillRefused
from acquired_skills.model.script_block import ScriptBlock
from acquired_skills.model.skill_schemas import usable_output_schema
from acquired_skills.proof.admission_report import build_report, destination_notes, evidence_notes, hint_notes
from acquired_skills.proof.claimed_results import claim_note, claim_problems
from acquired_skills.proof.clock_calls import with_clock_hint
from acquired_skills.proof.docstring_examples import with_docstring_examples
from acquired_skills.proof.duplicates import Neighbour, find_duplicate
from acquired_skills.proof.evidence_problems import evidence_problems
from acquired_skills.proof.facts import BoxFacts, facts_of
from acquired_skills.proof.isolated_runner import IsolatedRunner
from acquired_skills.proof.json_calls import JsonCalls
from acquired_skills.proof.judging import JudgedTests, judge_tests
from acquired_skills.proof.mutation.mutants import Mutant, make_mutants
from acquired_skills.proof.mutation.programs import MutantWriter
from acquired_skills.proof.proof_problems import proof_problems, uncounted_tests
from acquired_skills.proof.questions import Evidence, weigh
from acquired_skills.proof.reference_answers import compare_reference
from acquired_skills.proof.rehearsal_problems import rehearsal_problems
from acquired_skills.proof.surviving_mutants import Survivors, examine_survivors
from acquired_skills.proof.untested_options import MOST_ASKED, option_calls, untested_options
from acquired_skills.proof.variants import Variants
from sandbox.contract import Call, Job, Limits, Sandbox, UnresolvedRequirements

_MUTANTS_SEED = 1  # constant, so that an author who proposes again is asked the same questions


@dataclass(frozen=True, slots=True)
class Admission:
    """The result of a successful admission.

    Attributes:
        parameters: JSON Schema of the arguments.
        plain: Whether the arguments and the result are plain JSON. If not, they are converted in the box.
        tests: The number of tests.
        seconds: The wall time spent in boxes.
        declared: The script block of the code.
        environment: The requirements of the environment in which the skill was tested; empty if it has no dependencies.
        report: The report to store with the skill (`acquired_skills.proof.admission_report`).
        returns: JSON Schema of the result; None if the return annotation has no schema, or if a result in the tests
            does not fit the schema.
        inferred: Inferred type hints of the parameters that have none in the code.
    """

    parameters: Mapping[str, Any]
    plain: bool
    tests: int
    seconds: float
    declared: ScriptBlock = field(default_factory=ScriptBlock)
    environment: tuple[str, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict)
    returns: Mapping[str, Any] | None = None
    inferred: Mapping[str, str] = field(default_factory=dict)


async def admit(
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
    """Run the stages that follow the static checks. Boxes get the packages and destinations that the code declares.

    Args:
        seed: The seed for the random orders of the tests.
        earlier_tests: The tests of the version that the proposal replaces.
        neighbours: Skills that the proposal may duplicate, nearest first.
        disputed: Predictions of this author that differed from the results of the code in earlier proposals of the
            skill.
        author: Whether there is an author who can answer questions. If not, the report says how many are unanswered.

    Raises:
        SkillRefused: The proposal was not admitted. The exception lists everything to change.
        SandboxError: No box can run.
    """
    effort = effort or Effort()
    parsed = with_docstring_examples(parsed)
    declared = parsed.block
    if declared.destinations:  # no mutants, because they would send wrong requests to a real server
        effort = replace(effort, threshold=0.0)
    # In a thread, because making the first job compiles the files of the box.
    job = await asyncio.to_thread(_job, parsed, seed=seed, earlier_tests=earlier_tests, effort=effort)
    watch = _Watch()
    facts = await _rehearse(parsed, job, sandbox)
    watch.lap("rehearsal")
    made = await asyncio.to_thread(_mutants, parsed, effort) if effort.threshold else []
    found, evidence = JudgedTests(), Evidence()
    if not declared.destinations:
        runner = IsolatedRunner(parsed, job.requirements, sandbox, effort)
        variants = Variants(runner, await asyncio.to_thread(MutantWriter, parsed.code, parsed.modules), made)
        earlier = None if earlier_tests is None else ParsedSource.parse(earlier_tests)
        found = await judge_tests(variants, facts, earlier)
        problems = with_clock_hint(parsed, list(proof_problems(parsed.proposal.name, found)))
        if problems:
            raise SkillRefused(parsed.proposal.name, problems)
        if problems := await claim_problems(runner, _json_calls(facts, found), parsed.proposal.claimed):
            raise SkillRefused(parsed.proposal.name, problems)
        evidence = await _gather_evidence(parsed, variants, found, facts, disputed)
        problems = list(evidence_problems(parsed.proposal, evidence, made, effort))
        if problems and (author or evidence.disputed):
            problems += uncounted_tests(found)
            raise SkillRefused(parsed.proposal.name, problems, evidence.questions, evidence.disputed)
    watch.lap("judging")
    observations = facts.get("observations", {})
    calls, unrecorded = observations.get("calls", []), observations.get("unrecorded", 0)
    compared = await find_duplicate(calls, unrecorded, neighbours, sandbox, effort.duplicates_s)
    if compared.duplicate:
        raise SkillRefused(parsed.proposal.name, [compared.problem()])
    watch.lap("neighbours")
    inferred = facts["schema"].get("inferred", {})
    return Admission(
        parameters=facts["schema"]["parameters"],
        plain=facts["schema"]["plain"] and not observations.get("typed"),
        tests=len(facts["tests"]),
        seconds=sum(watch.laps.values()),
        declared=declared,
        environment=job.requirements,
        returns=await asyncio.to_thread(usable_output_schema, facts["schema"].get("returns"), calls),
        inferred=inferred,
        report=build_report(
            facts,
            found,
            evidence,
            made,
            seed=seed,
            compared=compared.neighbours,
            seconds=watch.laps,
            earlier=earlier_tests is not None,
            notes=(
                *parsed.notes,
                *hint_notes(inferred),
                *destination_notes(declared),
                *evidence_notes(evidence),
                *(() if declared.destinations else claim_note(parsed.proposal.claimed)),
            ),
            reference=parsed.proposal.reference,
        ),
    )


async def calls_of_tests(parsed: ParsedProposal, sandbox: Sandbox, *, seed: int) -> list[dict[str, Any]]:
    """Return the arguments of the calls that the tests make, by parameter name.

    Calls that JSON cannot represent are left out.

    Raises:
        SkillRefused: The tests do not pass.
        SandboxError: No box can run.
    """
    parsed = with_docstring_examples(parsed)
    job = await asyncio.to_thread(_job, parsed, seed=seed, earlier_tests=None, effort=Effort())
    facts = await _rehearse(parsed, job, sandbox)
    names = list(facts["schema"]["parameters"].get("properties", {}))
    calls = facts.get("observations", {}).get("calls", [])
    return [
        {**dict(zip(names, call["positional"], strict=False)), **call["named"]}
        for call in calls
        if len(call["positional"]) <= len(names)
    ]


async def _gather_evidence(
    parsed: ParsedProposal, variants: Variants, found: JudgedTests, facts: BoxFacts, disputed: Sequence[Prediction]
) -> Evidence:
    """Compare the predictions with the code, count the killed mutants, and choose questions if too few are killed.

    Raises:
        SandboxError: No box can run.
    """
    expected, runner = parsed.proposal.predictions, variants.runner
    calls = _json_calls(facts, found)
    left = [number for number, killed in found.mutants.items() if not killed]
    schema, survivors = facts["schema"]["parameters"], Survivors()
    untested = untested_options(schema, calls) if found.mutants else []
    options = option_calls(untested[:MOST_ASKED], schema, calls, parsed.code)
    few = bool(found.mutants) and len(found.calls) < runner.effort.calls
    if left or few or found.constant or expected or parsed.reference or found.untried or options:
        predicted = [calls.call(each.arguments) for each in expected]
        survivors = await examine_survivors(variants, found, predicted, left, options)
    return weigh(
        found,
        survivors,
        made=len(variants.mutants),
        predictions=expected,
        earlier=disputed,
        calls=calls,
        effort=runner.effort,
        reference=await compare_reference(runner, survivors, calls, expected, disputed),
        untested=untested,
    )


def _json_calls(facts: BoxFacts, found: JudgedTests) -> JsonCalls:
    return JsonCalls(list(facts["schema"]["parameters"].get("properties", {})), found.calls)


async def _rehearse(parsed: ParsedProposal, job: Job, sandbox: Sandbox) -> BoxFacts:
    """Run the skill together with its tests in a box, and return the facts that the box reports.

    Raises:
        SkillRefused: The skill or its tests have problems, or the dependencies cannot be installed.
        SandboxError: No box can run.
    """
    name = parsed.proposal.name
    try:
        outcome = await sandbox.run(job)
    except UnresolvedRequirements as error:
        added = f"(Admission adds {' and '.join(HARNESS_PACKAGES)}, in the versions that are installed here.)"
        text = f"{error} {added} Change `dependencies` in the PEP 723 block."
        raise SkillRefused(name, [ProposalProblem("dependencies", text)]) from error
    problems = with_clock_hint(parsed, list(rehearsal_problems(name, outcome)))
    refused = refused_connections(outcome.connections)
    if problems and refused:
        text = f"{refused} List the destinations that the code needs in `destinations` of the PEP 723 block."
        problems.append(ProposalProblem("destinations", text))
    if problems:
        raise SkillRefused(name, problems)
    return facts_of(outcome.value)  # already validated above


def _mutants(parsed: ParsedProposal, effort: Effort) -> list[Mutant]:
    """Return the mutants of the code. A long file takes about a second, so async code calls this in a thread."""
    modules = {path: each.tree for path, each in parsed.modules.items()}
    return make_mutants(parsed.code.tree, effort.mutants, _MUTANTS_SEED, modules)


class _Watch:
    """Measures the wall time of each stage in seconds."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps[stage], self._last = now - self._last, now


def _job(
    parsed: ParsedProposal,
    *,
    seed: int,
    earlier_tests: str | None,
    effort: Effort,
) -> Job:
    proposal, declared = parsed.proposal, parsed.block
    files = {
        **entry_file(HARNESS),
        "pytest.ini": b"[pytest]\ntmp_path_retention_policy = failed\n",
        **{f"skill/{path}": data for path, data in encoded(proposal.files).items()},
        f"skill/{proposal.name}.py": proposal.code.encode(),
        f"skill/test_{proposal.name}.py": proposal.tests.encode(),
    }
    if earlier_tests is not None:
        files[f"earlier/test_{proposal.name}.py"] = earlier_tests.encode()
    arguments = {"name": proposal.name, "seed": seed, "effort": asdict(effort), "tools": list(declared.tools)}
    limits = Limits(wall_s=effort.total_s + 3, cpu_s=effort.total_s + 3, memory_bytes=1 << 30)
    environment = environment_of(declared.dependencies)
    return Job(
        call=Call(path=HARNESS, function="rehearse", arguments=arguments),
        files=files,
        preload=preload_for(parsed.imports, environment, (*PYDANTIC, *PYTEST)),
        in_box=in_box_modules(HARNESS),
        limits=limits,
        egress=declared.destinations,
        requirements=environment,
    )
