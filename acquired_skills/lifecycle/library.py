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
from acquired_skills.lifecycle.track_record import TrackRecord
from acquired_skills.model.names import PATTERN
from acquired_skills.model.proposal import OTHER_KIND, Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.skill import Skill, SkillDamaged, SkillError, SkillKind, SkillMissing, SkillState
from acquired_skills.proof.admission import admit
from acquired_skills.proof.admitted_skill import build_skill, is_unchanged
from acquired_skills.proof.duplicates import Neighbour
from acquired_skills.proof.static_checks import check
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
_MOST_NAMED = 20  # in a message
_SEARCHES = 3  # of one request, if folders have changed
# How a long-lived process looks for manual changes, in seconds, and how many folders at a time.
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
    ) -> None:
        """Take the parts of a library, which their owners close.

        Args:
            seed: gives the number that decides the random order of tests.
            retrieve: the most skills that a query returns.
            fits: skills with a lower fit are not returned.
            compared: how many of the nearest skills a new one is compared with.
            allowed: where skills may connect to, canonical.
            effort: limits and thresholds of an admission.
            updates: where changes are published, if anywhere.
            approval_policy: what skills may declare without approval; by default anything.
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
        self._aside: list[SetAside] = []

    # What there is.

    async def skills(self) -> list[Skill]:
        """Return every skill in any state, by name. There may be many: see `page`."""
        rows = await asyncio.to_thread(self._ledger.page)
        return [row.skill for row in rows if row.skill is not None]

    async def page(self, limit: int, after: str = "", *, listed: bool = False) -> list[Skill]:
        """Return at most so many skills by name, in any state, or only listed ones.

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
        """Return how many skills there are. listed: count listed ones only."""
        return await asyncio.to_thread(lambda: self._ledger.count(listed=listed))

    async def listed(self) -> Sequence[Skill]:
        """Return the listed skills by name; the same object while nothing changes."""
        return await asyncio.to_thread(self._catalog.listed)

    async def find(self, name: str) -> Skill | None:
        """Return the skill with exactly this name, in any state, as its folder describes it now."""
        if not PATTERN.fullmatch(name):
            return None
        row = await asyncio.to_thread(self._current, name)
        return None if row is None else row.skill

    async def get(self, name: str) -> Skill:
        """Like `find`, but raises SkillMissing, naming existing skills."""
        skill = await self.find(name)
        if skill is None:
            names = [row.name for row in await asyncio.to_thread(self._ledger.page, "", _MOST_NAMED)]
            known = f"There are: {', '.join(names)}." if names else "There are none yet."
            raise SkillMissing(f"There is no skill `{name[:80]}`. {known}")
        return skill

    async def search(self, query: str, k: int | None = None, fits: float | None = None) -> list[SearchHit]:
        """Return the listed skills that fit a request, best first. fits: 0 for all.

        `gap` says what could not be searched.
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
        """Every skill by name. Each is read from the records on access, which blocks."""
        return self._catalog.skills

    @property
    def gap(self) -> str:
        """What the last search could not cover; "" if it covered everything."""
        return self._catalog.gap

    async def code(self, skill: Skill) -> bytes:
        """Return the source of exactly this version. Raises SkillDamaged if the file is not what was admitted."""
        return await asyncio.to_thread(self._store.code, skill)

    async def tests(self, skill: Skill) -> bytes:
        """Return its tests. Raises SkillDamaged."""
        return await asyncio.to_thread(self._store.tests, skill)

    async def history(self, name: str) -> list[Skill]:
        """Return every kept version, oldest first. Raises SkillMissing, SkillDamaged."""
        await self.get(name)
        return await asyncio.to_thread(self._store.history, name)

    # Changing what there is.

    async def create(
        self, proposal: Proposal, progress: Progress = no_progress, ask: Ask | None = None, *, agent: str = ""
    ) -> Skill:
        """Admit a proposal: static checks, then the proof in boxes, then an atomic write, then the index and the list.

        The name of an existing skill makes its next version, which must pass the earlier tests too unless `breaking`.

        Args:
            ask: asks a person about what it declares; None if nobody can be asked.
            agent: under which its boxes are queued (`Turn.agent_key`).

        Raises:
            SkillRefused: with everything to change.
            ToolFailure: a person refused.
            SkillChanged: another process was faster.
            SandboxError: no box can run.
        """
        proposal = replace(proposal, description=proposal.description.strip())
        parsed = await asyncio.to_thread(check, proposal, self.static_names(), self.allowed)
        current = await self.find(proposal.name)
        if current is not None and current.kind is not SkillKind.CODE and not proposal.breaking:
            raise SkillRefused(
                proposal.name, [ProposalProblem("version", f"It is a {current.kind} skill so far: {OTHER_KIND}")]
            )
        earlier = None if current is None or proposal.breaking else (await self.tests(current)).decode()
        if current is not None and is_unchanged(current, proposal):
            same = f"This is already version {current.version}: there is nothing to do."
            raise SkillRefused(proposal.name, [ProposalProblem("version", same)])
        parsed = await approve(parsed, self._approval_policy, ask)
        progress("running the tests in a box", 0.2)
        admission = await admit(
            parsed,
            AgentSandbox(self._sandbox, agent),
            seed=self._seed(),
            earlier_tests=earlier,
            neighbours=await self._neighbours(proposal) if current is None else (),
            effort=self._effort,
        )
        progress("saving the skill", 0.9)
        skill = build_skill(parsed, admission, self.now())
        return await self.publish(skill, parsed.proposal, current.version if current else 0)

    async def publish(self, skill: Skill, proposal: Proposal, replaces: int) -> Skill:
        """Store what was admitted as the version after `replaces`. Raises SkillChanged."""
        code, tests = proposal.code.encode(), proposal.tests.encode()
        return await asyncio.to_thread(self._changes.publish, skill, code, tests, replaces)

    @property
    def mutation_threshold(self) -> float:
        """The share of mutants that the tests of a proposal must kill."""
        return self._effort.threshold

    def now(self) -> str:
        """Return the time in UTC, ISO 8601, as in `Skill.created`."""
        return self._changes.now()

    async def set_state(self, name: str, state: SkillState) -> Skill:
        """Disable or enable a skill; an enabled one starts with a clean record. Raises SkillMissing, SkillDamaged."""
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
        """Make an earlier version current again under a new number; by default the one before the current version.

        by: who does it, in a line kept with the skill. Raises SkillMissing, SkillDamaged, SkillChanged.
        """
        current = await self.get(name)
        return await asyncio.to_thread(self._changes.rollback, current, version, by)

    async def sign(self, name: str) -> Skill:
        """Sign a skill and its earlier versions. Raises SkillMissing, SkillDamaged, SkillUnsignable."""
        return await asyncio.to_thread(self._changes.sign, name)

    async def verify(self) -> ReconcileReport:
        """Read and check every folder, set damaged ones aside, and make the records agree.

        The report has all folders set aside since this library was opened, including at its opening.
        """
        report = await asyncio.to_thread(reconcile, self._store, self._ledger, self._updates, thorough=True)
        self._aside += report.aside
        return replace(report, aside=tuple(self._aside))

    async def reindex(self, progress: Callable[[int, int], None] | None = None) -> tuple[ReconcileReport, int]:
        """Verify, then rebuild the index of the listed skills; return how many there are. progress: of the vectors."""
        report = await self.verify()
        return report, await self._catalog.rebuild_index(progress)

    async def reconcile(self) -> ReconcileReport:
        """Reconcile at start: cheap when nothing changed."""
        report = await asyncio.to_thread(reconcile_changes, self._store, self._ledger, self._updates)
        self._aside += report.aside
        return report

    async def watch(self) -> None:
        """Look for manual changes of folders periodically, a few at a time, until cancelled."""
        await asyncio.sleep(_WATCH_AFTER_S)
        while True:
            try:
                await self._look_at_all()
            except (StoreBusy, ConfigError):  # users of the skills get the error too
                pass
            except Exception:  # the next look may succeed, and nothing else would start one
                log.exception("Looking for manual changes of skills failed.")
            await asyncio.sleep(_WATCH_EVERY_S)

    # How they do.

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
        """Put the state that this version's calls have earned into effect, and return it (SKILL-13)."""
        current = await self.find(skill.name)
        if current is None or current.version != skill.version:
            return skill.state
        earned = await self.track.earned(current)
        if earned is not current.state:
            try:
                await asyncio.to_thread(self._changes.set_state, skill.name, earned, current)
            except SkillError:  # changed by another process, or nothing can be signed here
                return current.state
        return earned

    async def stats(self, name: str | None = None, limit: int | None = None, after: str = "") -> list[VersionStats]:
        """Return calls per version, by name and then newest version first; of one skill or all. after: only names
        beyond.
        """
        return await self.track.stats(None if name is None else [name], limit, after)

    async def stats_of(self, skills: Sequence[Skill]) -> list[VersionStats]:
        """Like `stats`, for these skills."""
        return await self.track.stats([skill.name for skill in skills])

    async def aclose(self) -> None:
        """Write buffers. The parts it was given are closed by their owners."""
        await self.track.aclose()
        await self._catalog.aclose()

    # Inside.

    def _current(self, name: str) -> Row | None:
        """Return the row of a skill, after making it agree with the folder."""
        row = self._catalog.row(name)
        if self._store.stamp(name) == (row.stamp if row is not None else ""):
            return row
        self._mend([name])
        return self._catalog.row(name)

    async def _look_at(self, stamps: Mapping[str, str]) -> bool:
        """Take over changes in the folders of these skills; return whether there were any. stamps: of their rows."""
        names = await asyncio.to_thread(stale, self._store, stamps)
        if names:
            await asyncio.to_thread(self._mend, names)
        return bool(names)

    async def _look_at_all(self) -> None:
        """Take over all manual changes, a part of the skills at a time."""
        await self.reconcile()
        name = ""
        while stamps := await asyncio.to_thread(self._ledger.stamps, name, _WATCHED_AT_ONCE):
            await self._look_at(stamps)
            name = max(stamps)
            await asyncio.sleep(_WATCH_PAUSE_S)

    def _mend(self, names: Sequence[str]) -> None:
        with contextlib.suppress(DiskFull):  # then the records stay as they are; a call checks the code it runs
            self._aside += mend(self._store, self._ledger, self._updates, names).aside

    async def _neighbours(self, proposal: Proposal) -> list[Neighbour]:
        """Return the nearest listed skills that run in a box without an environment, nearest first."""
        found: list[Neighbour] = []
        if not self._compared:
            return found
        for near in await self.search(f"{proposal.name} {proposal.description}", self._compared, 0.0):
            skill = near.skill
            if (
                skill.kind is SkillKind.CODE
                and skill.name != proposal.name
                and not (skill.environment or skill.destinations)
            ):
                with contextlib.suppress(SkillDamaged):
                    found.append(Neighbour(skill.name, await self.code(skill), skill.imports, skill.plain))
        return found
