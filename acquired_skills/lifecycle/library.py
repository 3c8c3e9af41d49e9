"""`SkillLibrary`: all operations on acquired skills, for tools, the command line and the skill source."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from acquired_skills.find.catalog import Catalog, SearchHit
from acquired_skills.in_box.effort import Effort
from acquired_skills.lifecycle.approvals import ApprovalPolicy, Ask, approve
from acquired_skills.lifecycle.changes import Changes
from acquired_skills.lifecycle.corrections import correction_problems, refuse_uncorrectable, wrong_result
from acquired_skills.lifecycle.track_record import TrackRecord
from acquired_skills.model.names import PATTERN
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.proposal import OTHER_KIND, Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.skill import Skill, SkillDamaged, SkillError, SkillKind, SkillMissing, SkillState
from acquired_skills.proof.admission_report import agreed_predictions, kept_reference, open_questions
from acquired_skills.proof.admitted_skill import build_skill, is_unchanged
from acquired_skills.proof.duplicates import Neighbour
from acquired_skills.proof.stages import stages_for
from acquired_skills.store.corrected_calls import CorrectedCall
from acquired_skills.store.disputed_predictions import DisputedPredictions
from acquired_skills.store.instructions import Instructions
from acquired_skills.store.ledger import Ledger, Row
from acquired_skills.store.reconcile import ReconcileReport, SetAside, mend, reconcile, reconcile_changes, stale
from acquired_skills.store.skill_store import SkillStore
from acquired_skills.store.totals import VersionStats
from engine.contract.context import Clock, no_progress
from engine.contract.failure import ConfigError, FailureClass
from engine.registry.updates import RegistryUpdates
from engine.stores.locks import StoreBusy
from engine.stores.sqlite_file import DiskFull
from sandbox.agent_sandbox import AgentSandbox
from sandbox.contract import Destination, Sandbox

log = logging.getLogger(__name__)

Progress = Callable[..., None]
_MOST_NAMED = 20  # skills named in one message
_SEARCHES = 3  # searches made for one request if folders have changed
# How often a long-lived process looks for manual changes, in seconds, and how many folders it checks at a time.
_WATCH_AFTER_S, _WATCH_EVERY_S, _WATCH_PAUSE_S, _WATCHED_AT_ONCE = 10.0, 600.0, 0.05, 500


class SkillLibrary:
    """The skills of one home. Belongs to one event loop; call `aclose` once."""

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
        """Combine the parts of a library. The owners of the parts close them.

        Args:
            seed: returns the seed for the random order of tests.
            retrieve: the maximum number of skills that a query returns.
            fits: the minimum fit; skills with a lower fit are not returned.
            compared: how many of the nearest skills a new one is compared with.
            allowed: the destinations that skills may connect to, in canonical form.
            effort: limits and thresholds of an admission.
            updates: publishes the changes; None if they are not published.
            approval_policy: decides what skills may declare without approval; by default, anything.
            disputed: stores the predictions that differed from what the code gave; None to discard them.
        """
        self.allowed = allowed
        self.track = track
        self.instructions = Instructions(store.root)
        self.store = self._store = store  # public for code that only reads or signs folders
        self._ledger = ledger
        self._catalog = catalog
        self._sandbox = sandbox
        self._changes = Changes(store, ledger, catalog, clock, updates)
        self.static_names = static_names
        self._seed = seed
        self._retrieve = retrieve
        self.fits = fits
        self._compared = compared
        self._effort = effort or Effort()
        self._updates = updates
        self._approval_policy = approval_policy or ApprovalPolicy()
        self._disputed = disputed
        self._aside: list[SetAside] = []

    # Queries.

    async def skills(self) -> list[Skill]:
        """Return every skill in any state, by name. There may be many: see `page`."""
        rows = await asyncio.to_thread(self._ledger.page)
        return [row.skill for row in rows if row.skill is not None]

    async def page(self, limit: int, after: str = "", *, listed: bool = False) -> list[Skill]:
        """Return a page of skills by name, in any state, or only listed ones.

        Args:
            limit: the maximum number of skills in the page.
            after: the last name of the previous page.
        """
        stamps = await asyncio.to_thread(lambda: self._ledger.stamps(after, limit, listed=listed))
        await self._look_at(stamps)
        rows = await asyncio.to_thread(lambda: self._ledger.page(after, limit, listed=listed))
        return [row.skill for row in rows if row.skill is not None]

    async def names(self) -> list[str]:
        """Return the names of all listed skills, sorted."""
        return await asyncio.to_thread(lambda: self._ledger.names(listed=True))

    async def count(self, *, listed: bool = False) -> int:
        """Return how many skills there are.

        Args:
            listed: whether to count only listed skills.
        """
        return await asyncio.to_thread(lambda: self._ledger.count(listed=listed))

    async def listed(self) -> Sequence[Skill]:
        """Return the listed skills, sorted by name; the same object while nothing changes."""
        return await asyncio.to_thread(self._catalog.listed)

    async def find(self, name: str) -> Skill | None:
        """Return the skill with exactly this name, in any state, as its folder describes it now."""
        if not PATTERN.fullmatch(name):
            return None
        row = await asyncio.to_thread(self._current, name)
        return None if row is None else row.skill

    async def get(self, name: str) -> Skill:
        """Like `find`, but if there is no such skill, raise SkillMissing, which names existing skills."""
        skill = await self.find(name)
        if skill is None:
            names = [row.name for row in await asyncio.to_thread(self._ledger.page, "", _MOST_NAMED)]
            known = f"There are: {', '.join(names)}." if names else "There are none yet."
            raise SkillMissing(f"There is no skill `{name[:80]}`. {known}")
        return skill

    async def search(self, query: str, k: int | None = None, fits: float | None = None) -> list[SearchHit]:
        """Return the listed skills that fit a request, best first.

        Afterwards, `gap` says what could not be searched.

        Args:
            fits: the minimum fit, or 0 to return all.
        """
        if not await self.count(listed=True):
            return []
        await self.track.flush()
        least, most = self.fits if fits is None else fits, k or self._retrieve
        for _ in range(_SEARCHES):
            found = await self._catalog.search(query, most, self.track.weights, least)
            rows = self._catalog.rows([one.skill.name for one in found])
            if not await self._look_at({name: row.stamp for name, row in rows.items()}):
                break
        return found

    @property
    def known(self) -> Mapping[str, Skill]:
        """A mapping of every skill by name. Access reads the skill from the records, which blocks."""
        return self._catalog.skills

    @property
    def gap(self) -> str:
        """What the last search could not cover; "" if it covered everything."""
        return self._catalog.gap

    async def code(self, skill: Skill) -> bytes:
        """Return the source of exactly this version. Raises SkillDamaged if the file is not what was admitted."""
        return await asyncio.to_thread(self._store.code, skill)

    async def program(self, skill: Skill) -> SkillProgram:
        """Return all files that a box needs to run this version. Raises SkillDamaged if one is not what was
        admitted.
        """
        return await asyncio.to_thread(self._store.program, skill)

    async def tests(self, skill: Skill) -> bytes:
        """Return the tests of exactly this version. Raises SkillDamaged if they are not what was admitted."""
        return await asyncio.to_thread(self._store.tests, skill)

    async def history(self, name: str) -> list[Skill]:
        """Return every kept version, oldest first. Raises SkillMissing, SkillDamaged."""
        await self.get(name)
        return await asyncio.to_thread(self._store.history, name)

    # Changes.

    async def create(
        self,
        proposal: Proposal,
        progress: Progress = no_progress,
        ask: Ask | None = None,
        *,
        agent: str = "",
        author: bool = True,
    ) -> Skill:
        """Admit a proposal: static checks, then the proof in boxes, then an atomic write, then the index and the list.

        A proposal with the name of an existing skill creates its next version, which must also pass the earlier tests
        and return what users have corrected, unless the proposal is `breaking`.

        Args:
            ask: asks a person to approve what the proposal declares; None if nobody can be asked.
            agent: the key under which its boxes are queued (`Turn.agent_key`).
            author: whether somebody can answer questions about its results. If not, the skill is admitted with
                questions left open and stays on probation.

        Raises:
            SkillRefused: the proposal was not admitted; the exception lists everything to change.
            ToolFailure: a person refused to approve it.
            SkillChanged: another process changed the skill first.
            SandboxError: no box can run.
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
        answers = (
            current is not None and open_questions(current.admission) and (proposal.expected or proposal.reference)
        )
        if current is not None and is_unchanged(current, proposal) and not answers:
            same = f"This is already version {current.version}: there is nothing to do."
            raise SkillRefused(proposal.name, [ProposalProblem("version", same)])
        parsed = await approve(parsed, self._approval_policy, ask)
        progress("running the tests in a box", 0.2)
        disputed = self._disputed
        try:
            admission = await stages.admit(
                parsed,
                AgentSandbox(self._sandbox, agent),
                seed=self._seed(),
                earlier_tests=earlier,
                neighbours=await self._neighbours(proposal) if current is None else (),
                effort=self._effort,
                disputed=await asyncio.to_thread(disputed.of, proposal.name) if disputed else (),
                author=author,
            )
        except SkillRefused as refused:
            if disputed is not None and refused.disputed:
                await asyncio.to_thread(disputed.keep, proposal.name, refused.disputed)
            raise
        if disputed is not None:
            await asyncio.to_thread(disputed.forget, proposal.name)
        progress("saving the skill", 0.9)
        skill = build_skill(parsed, admission, self.now())
        if earlier is None:  # a new skill, or one that is meant to behave differently
            skill = await self.publish(skill, parsed.proposal, current.version if current else 0)
            await asyncio.to_thread(self.track.corrected.withdraw, skill.name)
            return skill
        corrected = await asyncio.to_thread(self.track.corrected.of, skill.name)
        program = SkillProgram.of(parsed.proposal)
        if problems := await correction_problems(skill, program, corrected, AgentSandbox(self._sandbox, agent)):
            raise SkillRefused(skill.name, problems)
        return await self.publish(skill, parsed.proposal, current.version if current else 0)

    async def proposal_of(self, skill: Skill) -> Proposal:
        """Return the proposal of a stored skill. Raises SkillDamaged if its files are not what was admitted."""
        program, tests = await self.program(skill), (await self.tests(skill)).decode()
        return Proposal(
            skill.name,
            skill.description,
            program.code.decode(),
            tests,
            skill.examples,
            timeout_s=skill.timeout_s,
            expected=agreed_predictions(skill.admission),
            language=skill.kind.language,
            files={path: data.decode() for path, data in program.extra.items()},
            reference=kept_reference(skill.admission),
        )

    async def readmit(self, skill: Skill) -> None:
        """Run the admission of a stored skill again, by today's rules. Nothing is stored.

        The skill counts as new: tests of earlier versions do not run. It is compared with older skills only, so that
        of two duplicates one stays admitted.

        Raises:
            SkillRefused: it would not be admitted today; the exception lists everything to change.
            SkillDamaged: its files are not what was admitted.
            SandboxError: no box can run.
        """
        proposal = await self.proposal_of(skill)
        stages = stages_for(skill.kind.language)
        parsed = await asyncio.to_thread(stages.check, proposal, self.static_names(), self.allowed)
        if "approved_by" not in skill.provenance:
            parsed = await approve(parsed, self._approval_policy, None)
        older = await self._neighbours(proposal, older_than=skill)
        await stages.admit(
            parsed,
            AgentSandbox(self._sandbox, ""),
            seed=self._seed(),
            neighbours=older,
            effort=self._effort,
            author=not open_questions(skill.admission),  # an import with open questions had none
        )

    async def correct(self, name: str, call: CorrectedCall, agent: str = "") -> str:
        """Record the correct result of a call. Later versions must return it; their authors see it as a test.

        The current version is tried on it. A wrong result counts as a failure of that version.

        Args:
            agent: the key under which its box is queued (`Turn.agent_key`).

        Returns:
            What the current version does instead, such as ``returns 3``; "" if its result is right.

        Raises:
            SkillMissing: there is no such skill.
            SkillError: versions cannot be tried on this call.
            SandboxError: no box can run.
        """
        skill = await self.get(name)
        await asyncio.to_thread(refuse_uncorrectable, skill, call)
        wrong = await wrong_result(skill, await self.program(skill), call, AgentSandbox(self._sandbox, agent))
        if wrong.startswith("raises FileNotFoundError"):
            raise SkillError(f"`{name}` reads files, which a correction cannot have. Write a test that makes them.")
        is_new = await asyncio.to_thread(self.track.corrected.keep, name, replace(call, ts=self.now()))
        if wrong and is_new:
            self.track.log(skill, success=False, failure_class=FailureClass.DIAGNOSTIC)
            await self.judge(skill)
        return wrong

    async def publish(self, skill: Skill, proposal: Proposal, replaces: int) -> Skill:
        """Store an admitted skill as the version after `replaces`. Raises SkillChanged."""
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
        """Disable or enable a skill. Enabling it resets its record of failures. Raises SkillMissing, SkillDamaged."""
        current = await self.get(name)
        if state.listed and not current.state.listed:
            await self.track.forgive(current)
        return await asyncio.to_thread(self._changes.set_state, name, state)

    async def delete(self, name: str) -> Skill:
        """Delete a skill; its folder is kept as a tombstone. Raises SkillMissing, SkillDamaged."""
        skill = await self.get(name)
        await asyncio.to_thread(self._changes.delete, name)
        return skill

    async def restore(self, name: str) -> Skill:
        """Undo the latest delete. Raises SkillMissing, SkillChanged."""
        return await asyncio.to_thread(self._changes.restore, name)

    async def rollback(self, name: str, version: int | None = None, by: str = "") -> Skill:
        """Make an earlier version current again under a new number. The default is the one before the current version.

        Raises SkillMissing, SkillDamaged, SkillChanged.

        Args:
            by: one line that says who does this; it is kept with the skill.
        """
        current = await self.get(name)
        return await asyncio.to_thread(self._changes.rollback, current, version, by)

    async def sign(self, name: str) -> Skill:
        """Sign a skill and its earlier versions. Raises SkillMissing, SkillDamaged, SkillUnsignable."""
        return await asyncio.to_thread(self._changes.sign, name)

    async def verify(self) -> ReconcileReport:
        """Read and check every folder, set damaged ones aside, and make the records agree.

        The report lists all folders that were set aside since this library was opened, including those found on
        opening.
        """
        report = await asyncio.to_thread(reconcile, self._store, self._ledger, self._updates, thorough=True)
        self._aside += report.aside
        return replace(report, aside=tuple(self._aside))

    async def reindex(self, progress: Callable[[int, int], None] | None = None) -> tuple[ReconcileReport, int]:
        """Verify, then rebuild the index of the listed skills; return how many there are.

        Args:
            progress: called with the number of finished vectors and the total.
        """
        report = await self.verify()
        return report, await self._catalog.rebuild_index(progress)

    async def reconcile(self) -> ReconcileReport:
        """Make the records agree with the folders at start. This is cheap if nothing changed."""
        report = await asyncio.to_thread(reconcile_changes, self._store, self._ledger, self._updates)
        self._aside += report.aside
        return report

    async def watch(self) -> None:
        """Look for manual changes of folders periodically, a few at a time, until cancelled."""
        await asyncio.sleep(_WATCH_AFTER_S)
        while True:
            try:
                await self._look_at_all()
            except (StoreBusy, ConfigError):  # ignored here, because the next use of the skills reports the same error
                pass
            except Exception:  # the loop must survive, since the next check may succeed
                log.exception("Looking for manual changes of skills failed.")
            await asyncio.sleep(_WATCH_EVERY_S)

    # Statistics and judgement.

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

    async def judge(self, skill: Skill) -> SkillState:
        """Set the state that this version's calls have earned, and return it (SKILL-13)."""
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

    async def stats(self, name: str | None = None, limit: int | None = None, after: str = "") -> list[VersionStats]:
        """Return statistics per version of one skill or of all, sorted by name, newest version first.

        Args:
            after: return only names after this one.
        """
        return await self.track.stats(None if name is None else [name], limit, after)

    async def stats_of(self, skills: Sequence[Skill]) -> list[VersionStats]:
        """Like `stats`, for these skills."""
        return await self.track.stats([skill.name for skill in skills])

    async def aclose(self) -> None:
        """Write the buffers. The owners of the parts close them."""
        await self.track.aclose()
        await self._catalog.aclose()

    # Internal.

    def _current(self, name: str) -> Row | None:
        """Return the row of a skill, after making it agree with the folder."""
        row = self._catalog.row(name)
        if self._store.stamp(name) == (row.stamp if row is not None else ""):
            return row
        self._mend([name])
        return self._catalog.row(name)

    async def _look_at(self, stamps: Mapping[str, str]) -> bool:
        """Update the rows of these skills if their folders changed. Return whether any did.

        Args:
            stamps: the stamps in the rows, by name.
        """
        names = await asyncio.to_thread(stale, self._store, stamps)
        if names:
            await asyncio.to_thread(self._mend, names)
        return bool(names)

    async def _look_at_all(self) -> None:
        """Update the rows for all manual changes of folders, a few skills at a time."""
        await self.reconcile()
        name = ""
        while stamps := await asyncio.to_thread(self._ledger.stamps, name, _WATCHED_AT_ONCE):
            await self._look_at(stamps)
            name = max(stamps)
            await asyncio.sleep(_WATCH_PAUSE_S)

    def _mend(self, names: Sequence[str]) -> None:
        with contextlib.suppress(DiskFull):  # the records then stay outdated, but a call checks the code that it runs
            self._aside += mend(self._store, self._ledger, self._updates, names).aside

    async def _neighbours(self, proposal: Proposal, older_than: Skill | None = None) -> list[Neighbour]:
        """Return the nearest listed skills that run in a box without an environment, nearest first.

        Args:
            older_than: return only skills that are older than this one; by default, all.
        """
        found: list[Neighbour] = []
        if not self._compared:
            return found
        for near in await self.search(f"{proposal.name} {proposal.description}", self._compared, 0.0):
            skill = near.skill
            if (
                skill.kind is SkillKind.of(proposal.language)
                and skill.name != proposal.name
                and not (skill.environment or skill.destinations)
                and (older_than is None or (skill.created, skill.name) < (older_than.created, older_than.name))
            ):
                with contextlib.suppress(SkillDamaged):
                    program = await self.program(skill)
                    found.append(Neighbour(skill.name, program, skill.imports, skill.plain, skill.inferred))
        return found
