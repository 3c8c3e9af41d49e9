"""`SkillLibrary`: everything one can do with acquired skills. Tools, the command line and the skill source use it."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from acquired_skills.admission import admit
from acquired_skills.catalog import Catalog, Found
from acquired_skills.ledger import Ledger, SkillCall, VersionStats
from acquired_skills.proposal import Problem, Proposal, SkillRefused
from acquired_skills.reconcile import KEEPER, Reconciled, SetAside, reconcile, update_of
from acquired_skills.skill import Skill, SkillMissing, SkillState
from acquired_skills.static_checks import check, imported_modules
from acquired_skills.store import SkillStore
from acquired_skills.telemetry import Telemetry, counted
from engine.contract.context import Clock, no_progress
from engine.contract.failure import FailureClass
from engine.registry.updates import RegistryUpdates, Update
from sandbox.contract import Destination, Sandbox

Progress = Callable[..., None]


class SkillLibrary:
    """The skills of one home. Every method may be called from any task of one event loop; `aclose` it once."""

    def __init__(
        self,
        *,
        store: SkillStore,
        ledger: Ledger,
        catalog: Catalog,
        sandbox: Sandbox,
        clock: Clock,
        static_names: Callable[[], frozenset[str]],
        seed: Callable[[], int],
        retrieve: int = 8,
        allowed: frozenset[Destination] = frozenset(),
        updates: RegistryUpdates | None = None,
    ) -> None:
        """seed: gives the number that decides the random order of tests. retrieve: most skills a query brings up.

        allowed: where skills may connect to, canonical. updates: where every change is told, if anywhere.
        """
        self.allowed = allowed
        self._store = store
        self._ledger = ledger
        self._catalog = catalog
        self._sandbox = sandbox
        self._clock = clock
        self._static_names = static_names
        self._seed = seed
        self._retrieve = retrieve
        self._updates = updates
        self._telemetry = Telemetry(ledger)
        self._outcomes: dict[str, tuple[int, int]] | None = None
        self._aside: list[SetAside] = []

    # What there is.

    async def skills(self) -> list[Skill]:
        """Every skill, in whatever state, by name."""
        await self._catalog.refresh()
        return [self._catalog.skills[name] for name in sorted(self._catalog.skills)]

    async def listed(self) -> Sequence[Skill]:
        """Those in probation or active, by name. The same object as long as nothing changed."""
        await self._catalog.refresh()
        return self._catalog.listed

    async def find(self, name: str) -> Skill | None:
        """The skill of exactly this name, in whatever state."""
        await self._catalog.refresh()
        return self._catalog.skills.get(name)

    async def get(self, name: str) -> Skill:
        """As `find`. Raises SkillMissing, naming what there is instead."""
        skill = await self.find(name)
        if skill is None:
            names = sorted(self._catalog.skills)
            known = f"There are: {', '.join(names[:20])}." if names else "There are none yet."
            raise SkillMissing(f"There is no skill `{name[:80]}`. {known}")
        return skill

    async def search(self, query: str, k: int | None = None) -> list[Found]:
        """The listed skills that retrieval finds for a request, best first."""
        await self._catalog.refresh()
        if not self._catalog.listed:
            return []
        if self._outcomes is None:
            await self.stats()
        return await self._catalog.search(query, k or self._retrieve, self._weights())

    async def code(self, skill: Skill) -> bytes:
        """The source of exactly this version. Raises SkillDamaged when the file is not what was admitted."""
        return await asyncio.to_thread(self._store.code, skill)

    async def tests(self, skill: Skill) -> bytes:
        """Its tests. Raises SkillDamaged."""
        return await asyncio.to_thread(self._store.tests, skill)

    async def history(self, name: str) -> list[Skill]:
        """Every version kept, oldest first. Raises SkillMissing, SkillDamaged."""
        await self.get(name)
        return await asyncio.to_thread(self._store.history, name)

    # Changing what there is.

    async def create(self, proposal: Proposal, progress: Progress = no_progress) -> Skill:
        """Admit a proposal: static checks, then the gate in a box, then an atomic write, then the index and the list.

        The name of an existing skill makes its next version, which must pass the earlier tests too unless
        `breaking`. Raises SkillRefused with everything to change, SkillChanged when another process was faster,
        SandboxError when no box can run.
        """
        proposal = replace(proposal, description=proposal.description.strip())
        problems = await asyncio.to_thread(check, proposal, self._static_names(), self.allowed)
        if problems:
            raise SkillRefused(proposal.name, problems)
        current = await self.find(proposal.name)
        earlier = None if current is None or proposal.breaking else (await self.tests(current)).decode()
        if current is not None and self._is_same(current, proposal):
            raise SkillRefused(proposal.name, [Problem("version", f"This is version {current.version} already.")])
        progress("running the tests in a box", 0.2)
        admission = await admit(proposal, self._sandbox, seed=self._seed(), earlier_tests=earlier)
        progress("saving the skill", 0.9)
        code, tests = proposal.code.encode(), proposal.tests.encode()
        skill = Skill(
            name=proposal.name,
            version=0,  # given when the store is locked
            state=SkillState.PROBATION,
            description=proposal.description,
            parameters=admission.parameters,
            plain=admission.plain,
            imports=tuple(sorted(imported_modules(proposal.code))),
            created=self._clock.now().isoformat(timespec="seconds"),
            code_sha256=hashlib.sha256(code).hexdigest(),
            tests_sha256=hashlib.sha256(tests).hexdigest(),
            tests=admission.tests,
            examples=proposal.examples,
            dependencies=admission.declared.dependencies,
            destinations=tuple(map(str, admission.declared.destinations)),
            environment=admission.environment,
            timeout_s=proposal.timeout_s,
            admission=admission.report,
        )
        saved = await asyncio.to_thread(self._publish, skill, code, tests, current.version if current else 0)
        await self._catalog.refresh()
        return saved

    async def set_state(self, name: str, state: SkillState) -> Skill:
        """Disable or enable. Raises SkillMissing, SkillDamaged."""
        await self.get(name)
        skill = await asyncio.to_thread(self._set_state, name, state)
        await self._catalog.refresh()
        return skill

    async def delete(self, name: str) -> Skill:
        """Take a skill away; its folder is kept as a tombstone. Raises SkillMissing, SkillDamaged."""
        skill = await self.get(name)
        await asyncio.to_thread(self._delete, name)
        await self._catalog.refresh()
        return skill

    async def restore(self, name: str) -> Skill:
        """Undo the latest delete. Raises SkillMissing, SkillChanged."""
        skill = await asyncio.to_thread(self._restore, name)
        await self._catalog.refresh()
        return skill

    async def rollback(self, name: str, version: int | None = None) -> Skill:
        """Make an earlier version, by default the one before the current, current again, under a new number.

        Raises SkillMissing, SkillDamaged, SkillChanged.
        """
        current = await self.get(name)
        skill = await asyncio.to_thread(self._rollback, current, version)
        await self._catalog.refresh()
        return skill

    async def verify(self) -> Reconciled:
        """Read and check every folder, set damaged ones aside, and make the records agree.

        The report names all that were set aside since this library was opened, also at its opening.
        """
        report = await asyncio.to_thread(reconcile, self._store, self._ledger, self._updates, thorough=True)
        await self._catalog.refresh()
        self._aside += report.aside
        return replace(report, aside=tuple(self._aside))

    async def reindex(self) -> tuple[Reconciled, int]:
        """As `verify`, then index every listed skill; how many there are."""
        report = await self.verify()
        return report, await self._catalog.rebuild_index()

    async def reconcile(self) -> Reconciled:
        """What is done at every start: cheap when nothing changed."""
        report = await asyncio.to_thread(reconcile, self._store, self._ledger, self._updates)
        await self._catalog.refresh()
        self._aside += report.aside
        return report

    # How they do.

    def log_telemetry(
        self,
        name: str,
        success: bool,
        *,
        version: int | None = None,
        latency_ms: float | None = None,
        failure_class: FailureClass | None = None,
    ) -> None:
        """Record one call; of the current version when none is given. Calls of unknown skills are not recorded."""
        skill = self._catalog.skills.get(name)
        number = version or (skill.version if skill else None)
        if number is None:
            return
        counts = success or counted(failure_class)
        ts = self._clock.now().isoformat(timespec="milliseconds")
        self._telemetry.log(SkillCall(name, number, ts, success, counts, latency_ms, failure_class))
        if self._outcomes is not None and counts:
            good, bad = self._outcomes.get(name, (0, 0))
            self._outcomes[name] = (good + success, bad + (not success))

    async def stats(self, name: str | None = None) -> list[VersionStats]:
        """Calls per version, newest version first; of one skill or of all."""
        await self._telemetry.flush()
        found = await asyncio.to_thread(self._ledger.stats, name)
        if name is None:
            self._outcomes = {
                one.name: (one.successes, one.failures)
                for one in found
                if one.name in self._catalog.skills and one.version == self._catalog.skills[one.name].version
            }
        return found

    async def aclose(self) -> None:
        """Write what waits. The parts it was given are their owners' to close."""
        await self._telemetry.aclose()

    # Inside.

    def _weights(self) -> Mapping[str, float]:
        """A skill that fails is found less: from 1 with no failure down towards a half."""
        outcomes = self._outcomes or {}
        return {name: 1 - 0.5 * bad / (good + bad + 2) for name, (good, bad) in outcomes.items() if bad}

    @staticmethod
    def _is_same(current: Skill, proposal: Proposal) -> bool:
        """Whether nothing would change, so that a repeated request does not pile up versions."""
        told = (current.description, current.examples, current.timeout_s)
        if told != (proposal.description, proposal.examples, proposal.timeout_s) or not current.state.listed:
            return False
        hashes = [hashlib.sha256(text.encode()).hexdigest() for text in (proposal.code, proposal.tests)]
        return hashes == [current.code_sha256, current.tests_sha256]

    def _publish(self, skill: Skill, code: bytes, tests: bytes, replaces: int) -> Skill:
        with self._store.lock():
            skill = replace(skill, version=self._store.next_version(skill.name))
            self._store.publish(skill, code, tests, replaces=replaces)
            self._put(skill)
        return skill

    def _rollback(self, current: Skill, version: int | None) -> Skill:
        with self._store.lock():
            older = {one.version: one for one in self._store.history(current.name) if one.version != current.version}
            target = older.get(version or max(older, default=0))
            if target is None:
                kept = ", ".join(map(str, older)) or "none"
                raise SkillMissing(f"`{current.name}` has no such earlier version; kept are: {kept}.")
            code, tests = self._store.code(target), self._store.tests(target)
            created = self._clock.now().isoformat(timespec="seconds")
            number = self._store.next_version(current.name)
            skill = replace(target, version=number, created=created, state=SkillState.PROBATION)
            self._store.publish(skill, code, tests, replaces=current.version)
            self._put(skill)
        return skill

    def _set_state(self, name: str, state: SkillState) -> Skill:
        with self._store.lock():
            skill = self._store.set_state(name, state)
            self._put(skill)
        return skill

    def _delete(self, name: str) -> None:
        with self._store.lock():
            self._store.delete(name)
            self._ledger.put({}, [name])
            self._tell(Update("tools", "delete", name))

    def _restore(self, name: str) -> Skill:
        with self._store.lock():
            skill = self._store.restore(name)
            self._put(skill)
        return skill

    def _put(self, skill: Skill) -> None:
        """Take a published skill on record and tell of it, by whoever holds the store's lock."""
        self._ledger.put({skill.name: (skill, self._store.stamp(skill.name))})
        self._tell(update_of(skill))

    def _tell(self, update: Update) -> None:
        if self._updates is not None:
            self._updates.tell_all([update], keeper=KEEPER)
