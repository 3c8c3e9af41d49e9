"""`SkillLibrary`: all operations on acquired skills, for tools, the command line and the skill source."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from acquired_skills.find.catalog import Catalog
from acquired_skills.in_box.effort import Effort
from acquired_skills.lifecycle.approvals import ApprovalPolicy, Ask, approve, is_approved, with_approval_of
from acquired_skills.lifecycle.changes import Changes
from acquired_skills.lifecycle.corrections import (
    corrected_results,
    correction_problems,
    refuse_uncorrectable,
    wrong_result,
)
from acquired_skills.lifecycle.earlier_failures import TriedFailures, try_earlier_failures, with_note
from acquired_skills.lifecycle.folder_records import FolderRecords
from acquired_skills.lifecycle.neighbours import nearest_neighbours
from acquired_skills.lifecycle.stored_skills import StoredSkills
from acquired_skills.lifecycle.track_record import TrackRecord
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.proposal import OTHER_KIND, Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.skill import Skill, SkillError, SkillKind, SkillState
from acquired_skills.proof.admission import Admission
from acquired_skills.proof.admission_report import agreed_predictions, open_questions
from acquired_skills.proof.admitted_skill import build_skill, is_unchanged
from acquired_skills.proof.duplicates import Neighbour
from acquired_skills.proof.stages import stages_for
from acquired_skills.store.corrected_calls import CorrectedCall
from acquired_skills.store.disputed_predictions import DisputedPredictions
from acquired_skills.store.instructions import Instructions
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.reconcile import ReconcileReport
from acquired_skills.store.skill_store import SkillStore
from engine.contract.context import Clock, no_progress
from engine.contract.failure import FailureClass
from engine.registry.updates import RegistryUpdates
from sandbox.agent_sandbox import AgentSandbox
from sandbox.contract import Destination, Sandbox, SandboxError

log = logging.getLogger(__name__)

Progress = Callable[..., None]


class SkillLibrary(StoredSkills):
    """Manages the skills of one home. It belongs to one event loop. Call `aclose` once at the end."""

    def __init__(
        self,
        *,
        store: SkillStore,
        ledger: Ledger,
        catalog: Catalog,
        track: TrackRecord,
        sandbox: Sandbox,
        clock: Clock,
        static_names: Callable[[], frozenset[str]],
        seed: Callable[[], int],
        retrieve: int = 8,
        fits: float = 0.0,
        compared: int = 5,
        allowed: frozenset[Destination] = frozenset(),
        effort: Effort | None = None,
        updates: RegistryUpdates | None = None,
        approval_policy: ApprovalPolicy | None = None,
        disputed: DisputedPredictions | None = None,
    ) -> None:
        """Create a library from its parts.

        Args:
            seed: Returns the seed for the random order of tests.
            retrieve: The maximum number of skills that a query returns.
            fits: The minimum fit of a skill to a query. Skills with a lower fit are not returned.
            compared: The number of similar skills with which a new one is compared.
            allowed: The destinations that skills may connect to, in canonical form.
            effort: Limits and thresholds of an admission.
            updates: Publishes the changes; None if they are not published.
            approval_policy: Decides which declarations need an approval; by default, none.
            disputed: Stores the predictions that differed from the results of the code; None to discard them.
        """
        folders = FolderRecords(store, ledger, catalog, updates)
        super().__init__(store, ledger, catalog, track, folders, retrieve=retrieve, fits=fits)
        self.allowed = allowed
        self.instructions = Instructions(store.root)
        self._sandbox = sandbox
        self._changes = Changes(store, ledger, catalog, clock, updates)
        self.static_names = static_names
        self._seed = seed
        self._compared = compared
        self._effort = effort or Effort()
        self._approval_policy = approval_policy or ApprovalPolicy()
        self._disputed = disputed

    async def create(
        self,
        proposal: Proposal,
        progress: Progress = no_progress,
        ask: Ask | None = None,
        *,
        agent: str = "",
        author: bool = True,
    ) -> Skill:
        """Admit a proposal as a skill: check it, prove it in boxes, write it atomically, and index it.

        A proposal with the name of an existing skill creates its next version. One that is identical to a version with
        open questions is asked about again, and the answers create the next version. Unless the proposal is `breaking`,
        this version must also pass the earlier tests and agree with the predictions that were confirmed, and with the
        corrections by users.

        Args:
            ask: Asks a person to approve what the proposal declares; None if nobody can be asked.
            agent: The key under which the boxes of the admission are queued (`Turn.agent_key`).
            author: Whether there is an author who can answer questions about the results. If not, the skill is admitted
                with open questions and stays on probation.

        Raises:
            SkillRefused: The proposal was not admitted. The exception lists everything to change.
            ToolFailure: A person refused to approve it.
            SkillChanged: Another process changed the skill first.
            SandboxError: No box can run.
        """
        proposal = replace(proposal, description=proposal.description.strip())
        stages, kind = stages_for(proposal.language), SkillKind.of(proposal.language)
        parsed = await asyncio.to_thread(stages.check, proposal, self.static_names(), self.allowed)
        proposal = parsed.proposal  # parsing may have changed its name
        current = await self.find(proposal.name)
        if current is not None and current.kind is not kind and not proposal.breaking:
            raise SkillRefused(
                proposal.name,
                [ProposalProblem("version", f"The current version is a {current.kind} skill: {OTHER_KIND}")],
            )
        earlier = None if current is None or proposal.breaking else (await self.tests(current)).decode()
        unchanged = current is not None and is_unchanged(current, proposal)
        asking = author or proposal.expected or proposal.reference
        if current is not None and unchanged and not (asking and open_questions(current.admission)):
            same = f"The proposal is identical to version {current.version}, so there is nothing to do."
            raise SkillRefused(proposal.name, [ProposalProblem("version", same)])
        if current is not None and earlier is not None:
            parsed = replace(parsed, proposal=replace(proposal, confirmed=agreed_predictions(current.admission)))
        if current is not None and unchanged and is_approved(current):
            parsed = with_approval_of(current, parsed)
        else:
            parsed = await approve(parsed, self._approval_policy, ask)
        progress("running the tests in a box", 0.2)
        neighbours = await nearest_neighbours(self, proposal, self._compared) if current is None else ()
        admission = await self._prove(parsed, earlier, neighbours, agent=agent, author=author)
        skill, program = build_skill(parsed, admission, self.now()), SkillProgram.of(parsed.proposal)
        boxes = AgentSandbox(self._sandbox, agent)
        if earlier is not None:  # not a new skill, nor one that is meant to behave differently
            corrected = await asyncio.to_thread(self.track.corrected.of, skill.name)
            if problems := await correction_problems(skill, program, corrected, boxes):
                raise SkillRefused(skill.name, problems)
        tried = TriedFailures()
        try:  # it refuses nothing, so it must not cost an admission either
            tried = await try_earlier_failures(self, current, skill, program, boxes)
        except SandboxError as error:
            log.warning("%s was not tried on the inputs of earlier failures: %s", skill.name, error)
        progress("saving the skill", 0.9)
        skill = with_note(skill, tried.note())
        skill = await self.publish(skill, parsed.proposal, current.version if current else 0)
        await self.track.carry_failed(skill, tried.failing)
        if earlier is None:
            await asyncio.to_thread(self.track.corrected.withdraw, skill.name)
        return skill

    async def _prove(
        self,
        parsed: ParsedProposal,
        earlier_tests: str | None,
        neighbours: Sequence[Neighbour],
        *,
        agent: str,
        author: bool,
    ) -> Admission:
        """Prove a proposal in boxes. Until it is admitted, store the predictions that differ from the results."""
        name, disputed = parsed.proposal.name, self._disputed
        try:
            admission = await stages_for(parsed.proposal.language).admit(
                parsed,
                AgentSandbox(self._sandbox, agent),
                seed=self._seed(),
                earlier_tests=earlier_tests,
                neighbours=neighbours,
                effort=self._effort,
                disputed=await asyncio.to_thread(disputed.of, name) if disputed else (),
                author=author,
            )
        except SkillRefused as refused:
            if disputed is not None and refused.disputed:
                await asyncio.to_thread(disputed.keep, name, refused.disputed)
            raise
        if disputed is not None:
            await asyncio.to_thread(disputed.forget, name)
        return admission

    async def readmit(self, skill: Skill, *, asking: bool = False, agent: str = "") -> None:
        """Run the admission of a stored skill again under the current rules. Nothing is stored.

        The skill is treated as new, so the tests of earlier versions do not run. The skill is compared only with older
        skills, so that one of two duplicates stays admitted.

        Args:
            asking: Whether to refuse the skill if it has open questions, with these questions.
            agent: The key under which the boxes of the admission are queued (`Turn.agent_key`).

        Raises:
            SkillRefused: The skill would not be admitted today. The exception lists everything to change.
            SkillDamaged: Its files were changed after they were admitted.
            SandboxError: No box can run.
        """
        proposal = await self.proposal_of(skill)
        stages = stages_for(skill.kind.language)
        parsed = await asyncio.to_thread(stages.check, proposal, self.static_names(), self.allowed)
        if not is_approved(skill):
            parsed = await approve(parsed, self._approval_policy, None)
        older = await nearest_neighbours(self, proposal, self._compared, older_than=skill)
        disputed = self._disputed if asking else None
        await stages.admit(
            parsed,
            AgentSandbox(self._sandbox, agent),
            seed=self._seed(),
            neighbours=older,
            effort=self._effort,
            disputed=await asyncio.to_thread(disputed.of, skill.name) if disputed else (),
            author=asking or not open_questions(skill.admission),  # an imported skill may have no author
        )

    async def correct(self, name: str, call: CorrectedCall, agent: str = "") -> str:
        """Record the correct result of a call. Later versions must return it, and their authors see it as a test.

        The call is also made to the current version. A wrong result counts as a failure of that version.

        Args:
            agent: The key under which the box of the call is queued (`Turn.agent_key`).

        Returns:
            The wrong result of the current version, such as ``returns 3``; "" if its result is correct.

        Raises:
            SkillMissing: There is no such skill.
            SkillError: Later versions cannot be tested with this call.
            SandboxError: No box can run.
        """
        skill = await self.get(name)
        await asyncio.to_thread(refuse_uncorrectable, skill, call)
        wrong = await wrong_result(skill, await self.program(skill), call, AgentSandbox(self._sandbox, agent))
        if wrong.startswith("raises FileNotFoundError"):
            raise SkillError(
                f"`{name}` reads files, and a correction cannot contain files. Write a test that creates them instead."
            )
        is_new = await asyncio.to_thread(self.track.corrected.keep, name, replace(call, ts=self.now()))
        if wrong and is_new:
            self.track.log(skill, success=False, failure_class=FailureClass.DIAGNOSTIC)
            await self.judge(skill)
        return wrong

    async def publish(self, skill: Skill, proposal: Proposal, replaces: int) -> Skill:
        """Store an admitted skill as a new version. It replaces the version with the number `replaces` (0 for none).

        Raises:
            SkillChanged: `replaces` is no longer the current version.
        """
        program, tests = SkillProgram.of(proposal), proposal.tests.encode()
        return await asyncio.to_thread(self._changes.publish, skill, program, tests, replaces)

    @property
    def mutation_threshold(self) -> float:
        """The share of mutants that the tests of a proposal must kill."""
        return self._effort.threshold

    def now(self) -> str:
        """Return the time in UTC, ISO 8601, as in `Skill.created`."""
        return self._changes.now()

    async def set_state(self, name: str, state: SkillState) -> Skill:
        """Disable or enable a skill. Enabling it resets its failure count.

        Raises:
            SkillMissing: There is no such skill.
            SkillDamaged: Its folder cannot be used.
        """
        current = await self.get(name)
        if state.listed and not current.state.listed:
            await self.track.forgive(current)
        return await asyncio.to_thread(self._changes.set_state, name, state)

    async def delete(self, name: str) -> Skill:
        """Delete a skill. Its folder is moved to `.deleted`, so that it can be restored.

        Raises:
            SkillMissing: There is no such skill.
            SkillDamaged: Its folder cannot be used.
        """
        skill = await self.get(name)
        await asyncio.to_thread(self._changes.delete, name)
        return skill

    async def withdraw(self, name: str, call: str) -> bool:
        """Take back the version that a call published, with the records of its calls, as if it had never been there.

        Args:
            call: The `call` of the version's provenance.

        Returns:
            False if there is no version of this call.

        Raises:
            SkillChanged: A later version has replaced it.
            SkillDamaged: The folder of the skill cannot be used.
        """
        version = await asyncio.to_thread(self._changes.withdraw, name, call)
        if version:
            await self.track.forget(name, version)
        return bool(version)

    async def restore(self, name: str) -> Skill:
        """Undo the latest deletion of a skill of this name.

        Raises:
            SkillMissing: No skill of this name was deleted.
            SkillChanged: The name is in use again.
            SkillError: The restored skill would call itself through other skills.
        """
        return await asyncio.to_thread(self._changes.restore, name)

    async def rollback(self, name: str, version: int | None = None, by: str = "") -> Skill:
        """Make an earlier version current again under a new number.

        Args:
            version: The earlier version; None for the one before the current version.
            by: A line that says who rolls back. It is stored with the skill.

        Raises:
            SkillMissing: There is no such skill or version.
            SkillDamaged: The files of the version were changed after they were admitted.
            SkillChanged: Another process changed the skill first.
            SkillError: The earlier version gives a result that was reported as wrong and corrected.
            SandboxError: There are corrections, and no box can run.
        """
        current = await self.get(name)
        target, program = await asyncio.to_thread(self._changes.earlier, current, version)
        corrected = await asyncio.to_thread(self.track.corrected.of, name)
        if wrong := await corrected_results(target, program, corrected, self._sandbox):
            raise SkillError(
                f"Version {target.version} of `{name}` was not restored: {wrong[0]} Choose another version, or propose "
                "its code again with `breaking=true`, which withdraws all corrections."
            )
        return await asyncio.to_thread(self._changes.rollback, current, target.version, by)

    async def sign(self, name: str) -> Skill:
        """Sign a skill and its earlier versions.

        Raises:
            SkillMissing: There is no such skill.
            SkillDamaged: Its files were changed after they were admitted.
            SkillUnsignable: This home has no key to sign with.
        """
        return await asyncio.to_thread(self._changes.sign, name)

    def log_telemetry(
        self,
        name: str,
        success: bool,
        *,
        latency_ms: float | None = None,
        failure_class: FailureClass | None = None,
    ) -> None:
        """Record one call of the current version. Calls of unknown skills are ignored."""
        skill = self._catalog.skills.get(name)
        if skill is not None:
            self.track.log(skill, success, latency_ms, failure_class)

    async def reindex(self, progress: Callable[[int, int], None] | None = None) -> tuple[ReconcileReport, int]:
        """Verify the folders, then rebuild the index of the listed skills.

        Args:
            progress: Called with the number of finished vectors and the total.

        Returns:
            The report of the verification, and the number of listed skills.
        """
        report = await self.folders.verify()
        return report, await self._catalog.rebuild_index(progress)

    async def judge(self, skill: Skill) -> SkillState:
        """Set the state that this version has earned by its calls, and return it (SKILL-13)."""
        current = await self.find(skill.name)
        if current is None or current.version != skill.version:
            return skill.state
        earned = await self.track.earned(current)
        if earned is not current.state:
            try:
                await asyncio.to_thread(self._changes.set_state, skill.name, earned, current)
            except SkillError:  # another process changed the skill, or there is no key to sign it with
                return current.state
        return earned

    async def aclose(self) -> None:
        """Write the buffered calls and close the catalog. The owners of the other parts close them."""
        await self.track.aclose()
        await self._catalog.aclose()
