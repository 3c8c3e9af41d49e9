"""Runs a proposal through every stage of admission, each in its own boxes (SKILL-1, SKILL-3 to SKILL-8).

The stages are the rehearsal (skill and tests together, which can only count against the proposal), judging (each
without the other, which counts for it), and the comparison with similar skills. All decisions are made here, outside
the boxes.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from acquired_skills.in_box.effort import Effort
from acquired_skills.jobs.box_files import HARNESS, PYDANTIC, PYTEST, box_files
from acquired_skills.jobs.environment import HARNESS_PACKAGES, environment_of, refused_connections
from acquired_skills.jobs.preload import preload_for
from acquired_skills.model.output_schema import usable_output_schema
from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.model.proposal import ProposalProblem, SkillRefused
from acquired_skills.model.script_block import ScriptBlock
from acquired_skills.proof.admission_report import build_report
from acquired_skills.proof.duplicates import Neighbour, find_duplicate
from acquired_skills.proof.facts import BoxFacts, facts_of
from acquired_skills.proof.isolated_runner import IsolatedRunner
from acquired_skills.proof.judging import JudgedTests, judge_tests
from acquired_skills.proof.mutation.mutants import make_mutants
from acquired_skills.proof.mutation.programs import MutantWriter
from acquired_skills.proof.proof_problems import proof_problems
from acquired_skills.proof.rehearsal_problems import rehearsal_problems
from acquired_skills.proof.surviving_mutants import examine_survivors
from acquired_skills.proof.variants import Variants
from sandbox.contract import Call, Job, Limits, Sandbox, UnresolvedRequirements


@dataclass(frozen=True, slots=True)
class Admission:
    """What a proposal proved.

    Attributes:
        parameters: JSON Schema of the arguments.
        plain: arguments and value are plain JSON; otherwise they are converted in the box.
        tests: how many tests there are.
        seconds: wall time in boxes.
        declared: the script block of the code.
        environment: the requirements of the environment it was proved in; empty without dependencies.
        returns: JSON Schema of the value; None when the annotation gives none, or the tests saw values that do not fit.
    """

    parameters: Mapping[str, Any]
    plain: bool
    tests: int
    seconds: float
    declared: ScriptBlock = field(default_factory=ScriptBlock)
    environment: tuple[str, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict)
    returns: Mapping[str, Any] | None = None


async def admit(
    parsed: ParsedProposal,
    sandbox: Sandbox,
    *,
    seed: int,
    earlier_tests: str | None = None,
    neighbours: Sequence[Neighbour] = (),
    effort: Effort | None = None,
) -> Admission:
    """Run the stages that follow the static checks, with the packages and destinations that the code declares.

    Args:
        seed: decides the random orders of the tests.
        earlier_tests: those of the version that this one replaces.
        neighbours: skills that it may duplicate, nearest first.

    Raises:
        SkillRefused: with everything to change.
        SandboxError: no box can run.
    """
    effort = effort or Effort()
    declared = parsed.block
    if declared.destinations:  # mutants would send wrong requests to a real server, a hundred times
        effort = replace(effort, threshold=0.0)
    job = _job(parsed, seed=seed, earlier_tests=earlier_tests, effort=effort)
    watch = _Watch()
    facts = await _rehearse(parsed.proposal.name, job, sandbox)
    watch.lap("rehearsal")
    made = make_mutants(parsed.code.tree, effort.mutants, seed) if effort.threshold else []
    found = JudgedTests()
    if not declared.destinations:
        runner = IsolatedRunner(parsed, job.requirements, sandbox, effort)
        variants = Variants(runner, MutantWriter(parsed.code), made)
        earlier = None if earlier_tests is None else ParsedSource.parse(earlier_tests)
        found = await judge_tests(variants, facts, earlier)
        if made and not found.problems:
            found = await examine_survivors(variants, found, seed)
        problems = list(proof_problems(parsed.proposal.name, found, made, effort.threshold))
        if problems:
            raise SkillRefused(parsed.proposal.name, problems)
    watch.lap("judging")
    returned = facts.get("returned", {})
    calls, missed = returned.get("calls", []), returned.get("missed", 0)
    compared = await find_duplicate(calls, missed, neighbours, sandbox, effort.duplicates_s)
    if compared.duplicate:
        raise SkillRefused(parsed.proposal.name, [compared.problem()])
    watch.lap("neighbours")
    return Admission(
        parameters=facts["schema"]["parameters"],
        plain=facts["schema"]["plain"] and not returned.get("typed"),
        tests=len(facts["tests"]),
        seconds=sum(watch.laps.values()),
        declared=declared,
        environment=job.requirements,
        returns=await asyncio.to_thread(usable_output_schema, facts["schema"].get("returns"), calls),
        report=build_report(
            facts,
            found,
            made,
            seed=seed,
            compared=compared.asked,
            seconds=watch.laps,
            earlier=earlier_tests is not None,
        ),
    )


async def _rehearse(name: str, job: Job, sandbox: Sandbox) -> BoxFacts:
    """Return the facts of the box of skill and tests. Raises SkillRefused for whatever counts against admission."""
    try:
        outcome = await sandbox.run(job)
    except UnresolvedRequirements as error:
        added = f"(For the proof {' and '.join(HARNESS_PACKAGES)} are added, as installed here.)"
        text = f"{error} {added} Change `dependencies` in the PEP 723 block."
        raise SkillRefused(name, [ProposalProblem("dependencies", text)]) from error
    problems = list(rehearsal_problems(name, outcome))
    refused = refused_connections(outcome.connections)
    if problems and refused:
        problems.append(ProposalProblem("destinations", f"{refused} List what it needs in `destinations`."))
    if problems:
        raise SkillRefused(name, problems)
    return facts_of(outcome.value)  # already validated above


class _Watch:
    """Measures the seconds that each stage took."""

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
        **box_files(HARNESS),
        "pytest.ini": b"[pytest]\ntmp_path_retention_policy = failed\n",
        f"skill/{proposal.name}.py": proposal.code.encode(),
        f"skill/test_{proposal.name}.py": proposal.tests.encode(),
    }
    if earlier_tests is not None:
        files[f"earlier/test_{proposal.name}.py"] = earlier_tests.encode()
    arguments = {"name": proposal.name, "seed": seed, "effort": asdict(effort)}
    limits = Limits(wall_s=effort.total_s + 3, cpu_s=effort.total_s + 3, memory_bytes=1 << 30)
    environment = environment_of(declared.dependencies)
    return Job(
        call=Call(path=HARNESS, function="rehearse", arguments=arguments),
        files=files,
        preload=preload_for(parsed.code.imports, environment, (*PYDANTIC, *PYTEST)),
        limits=limits,
        egress=declared.destinations,
        requirements=environment,
    )
