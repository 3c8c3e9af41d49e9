"""The gate: one proposal through every stage of admission, each in boxes of its own (SKILL-1, SKILL-3 to SKILL-8).

Rehearsal (skill and tests together; what it finds can only speak against), judging (each without the other; what speaks
for it), then the neighbours that it may double. All verdicts are made out here.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from acquired_skills.in_box.effort import Effort
from acquired_skills.jobs.box_files import HARNESS, PYDANTIC, PYTEST, box_files
from acquired_skills.jobs.environment import HARNESS_PACKAGES, environment_of, told
from acquired_skills.jobs.preload import preload_for
from acquired_skills.model.output_schema import kept
from acquired_skills.model.proposal import Problem, Proposal, SkillRefused
from acquired_skills.model.script_block import Declared, declared_in
from acquired_skills.proof.admission_report import report
from acquired_skills.proof.duplicates import Neighbour, compare
from acquired_skills.proof.facts import Facts, facts_of
from acquired_skills.proof.isolated_runner import Apart
from acquired_skills.proof.judging import Judged, judged
from acquired_skills.proof.mutation.mutants import mutants
from acquired_skills.proof.mutation.programs import Source
from acquired_skills.proof.proof_problems import missing
from acquired_skills.proof.rehearsal_problems import verdict
from acquired_skills.proof.static_checks import imported_modules
from acquired_skills.proof.surviving_mutants import with_gaps
from acquired_skills.proof.variants import Variants
from sandbox.contract import Call, Job, Limits, Sandbox, UnresolvedRequirements


@dataclass(frozen=True, slots=True)
class Admission:
    """What a proposal proved.

    parameters: JSON Schema of the arguments. plain: arguments and value are JSON as they are; otherwise they are
    converted in the box. tests: how many. seconds: wall time in the box. declared: in the code's own block.
    environment: the requirements of the environment it was proved in; empty without dependencies.
    returns: JSON Schema of the value; None where the annotation gives none, or what the tests saw does not fit it.
    """

    parameters: Mapping[str, Any]
    plain: bool
    tests: int
    seconds: float
    declared: Declared = field(default_factory=Declared)
    environment: tuple[str, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict)
    returns: Mapping[str, Any] | None = None


async def admit(
    proposal: Proposal,
    sandbox: Sandbox,
    *,
    seed: int,
    earlier_tests: str | None = None,
    neighbours: Sequence[Neighbour] = (),
    effort: Effort | None = None,
) -> Admission:
    """Run the gate in a fresh box, after the static checks, with the packages and the way out that the code declares.

    Raises SkillRefused with everything to change, SandboxError when no box can run.
    seed: decides the two random orders of the tests. earlier_tests: those of the version this one replaces.
    neighbours: skills that it may double, the nearest first.
    """
    effort = effort or Effort()
    declared = declared_in(proposal.code)
    if declared.destinations:  # a changed program would send what nobody wrote to a real server, a hundred times
        effort = replace(effort, threshold=0.0)
    job = _job(proposal, declared, seed=seed, earlier_tests=earlier_tests, effort=effort)
    watch = _Watch()
    facts = await _rehearsed(proposal, job, sandbox)
    watch.lap("rehearsal")
    source = Source(proposal.code)
    made = mutants(source.tree, effort.mutants, seed) if effort.threshold else []
    found = Judged()
    if not declared.destinations:
        variants = Variants(Apart(proposal, job.requirements, sandbox, effort), source, made)
        found = await judged(variants, facts, earlier_tests)
        if made and not found.problems:
            found = await with_gaps(variants, found, seed)
        problems = list(missing(proposal.name, found, made, effort.threshold))
        if problems:
            raise SkillRefused(proposal.name, problems)
    watch.lap("judging")
    returned = facts.get("returned", {})
    calls, missed = returned.get("calls", []), returned.get("missed", 0)
    compared = await compare(calls, missed, neighbours, sandbox, effort.doubles_s)
    if compared.double:
        raise SkillRefused(proposal.name, [compared.problem()])
    watch.lap("neighbours")
    return Admission(
        parameters=facts["schema"]["parameters"],
        plain=facts["schema"]["plain"] and not returned.get("typed"),
        tests=len(facts["tests"]),
        seconds=sum(watch.laps.values()),
        declared=declared,
        environment=job.requirements,
        returns=await asyncio.to_thread(kept, facts["schema"].get("returns"), calls),
        report=report(
            facts,
            found,
            made,
            seed=seed,
            compared=compared.asked,
            seconds=watch.laps,
            earlier=earlier_tests is not None,
        ),
    )


async def _rehearsed(proposal: Proposal, job: Job, sandbox: Sandbox) -> Facts:
    """What the box of skill and tests found; raises SkillRefused for whatever of it speaks against admission."""
    try:
        outcome = await sandbox.run(job)
    except UnresolvedRequirements as error:
        added = f"(For the proof {' and '.join(HARNESS_PACKAGES)} are added, as installed here.)"
        text = f"{error} {added} Change `dependencies` in the PEP 723 block."
        raise SkillRefused(proposal.name, [Problem("dependencies", text)]) from error
    problems = list(verdict(proposal.name, outcome))
    refused = told(outcome.connections)
    if problems and refused:
        problems.append(Problem("destinations", f"{refused} List what it needs in `destinations`."))
    if problems:
        raise SkillRefused(proposal.name, problems)
    return facts_of(outcome.value)  # the verdict has held it against what it must be


class _Watch:
    """What each stage took, seconds."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, stage: str) -> None:
        now = time.perf_counter()
        self.laps[stage], self._last = now - self._last, now


def _job(
    proposal: Proposal,
    declared: Declared,
    *,
    seed: int,
    earlier_tests: str | None,
    effort: Effort,
) -> Job:
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
        call=Call(path=HARNESS, function="admit", arguments=arguments),
        files=files,
        preload=preload_for(imported_modules(proposal.code), environment, (*PYDANTIC, *PYTEST)),
        limits=limits,
        egress=declared.destinations,
        requirements=environment,
    )
