"""`Changes`: what changes skills for good, each under the store's lock, put on record and told to whoever listens.

Every method blocks and may be called from any thread; nothing here judges, admits or indexes.
"""

from dataclasses import replace

from acquired_skills.catalog import Catalog
from acquired_skills.composed.cycles import refuse_cycle
from acquired_skills.folders.reconcile import KEEPER, update_of
from acquired_skills.folders.store import SkillStore
from acquired_skills.life.ledger import Ledger
from acquired_skills.provenance import MOST_CHARS
from acquired_skills.skill import Skill, SkillChanged, SkillError, SkillMissing, SkillState
from engine.contract.context import Clock
from engine.registry.updates import RegistryUpdates, Update


class Changes:
    """The folders of one home and the records of them, changed together."""

    def __init__(
        self, store: SkillStore, ledger: Ledger, catalog: Catalog, clock: Clock, updates: RegistryUpdates | None
    ) -> None:
        """updates: where every change is told, if anywhere."""
        self._store = store
        self._ledger = ledger
        self._catalog = catalog
        self._clock = clock
        self._updates = updates

    def now(self) -> str:
        """UTC, ISO 8601, as a skill says when it was created."""
        return self._clock.now().isoformat(timespec="seconds")

    def publish(self, skill: Skill, code: bytes, tests: bytes, replaces: int) -> Skill:
        """Keep an admitted skill as the version after `replaces`. Raises SkillChanged."""
        with self._store.lock():
            skill = replace(skill, version=self._store.next_version(skill.name))
            self._store.publish(skill, code, tests, replaces=replaces)
            self._put(skill)
        return skill

    def rollback(self, current: Skill, version: int | None, by: str) -> Skill:
        """Publish an earlier version anew; version: None for the one before. Raises SkillMissing, SkillDamaged."""
        with self._store.lock():
            older = self._store.earlier_numbers(current.name)
            number = version or max(older, default=0)
            if number not in older:
                kept = ", ".join(map(str, older)) or "none"
                raise SkillMissing(f"`{current.name}` has no such earlier version; kept are: {kept}.")
            target = self._store.earlier(current.name, number)
            told = {**target.provenance, "rolled_back": f"to version {number}{', ' if by else ''}{by}"[:MOST_CHARS]}
            code, tests = self._store.code(target), self._store.tests(target)
            refuse_cycle(target, self._catalog.skills)
            created = self.now()
            number = self._store.next_version(current.name)
            skill = replace(target, version=number, created=created, state=SkillState.PROBATION, provenance=told)
            self._store.publish(skill, code, tests, replaces=current.version)
            self._put(skill)
        return skill

    def set_state(self, name: str, state: SkillState, judged: Skill | None = None) -> Skill:
        """judged: what the state was decided of; raises SkillChanged when it is no longer so."""
        with self._store.lock():
            if judged is not None:
                now = self._store.read(name)
                if (now.version, now.state) != (judged.version, judged.state):
                    raise SkillChanged(f"`{name}` was changed by another process meanwhile.")
            skill = self._store.set_state(name, state)
            self._put(skill)
        return skill

    def delete(self, name: str) -> None:
        """Its folder is kept as a tombstone. Raises SkillMissing."""
        with self._store.lock():
            self._store.delete(name)
            self._ledger.put({}, [name])
            self._tell(Update("tools", "delete", name))

    def restore(self, name: str) -> Skill:
        """Undo the latest delete. Raises SkillMissing, SkillChanged, SkillError for one that would call itself."""
        with self._store.lock():
            skill = self._store.restore(name)
            try:
                refuse_cycle(skill, self._catalog.skills)
            except SkillError:
                self._store.delete(name)
                raise
            self._put(skill)
        return skill

    def sign(self, name: str) -> Skill:
        """Sign it, and its earlier versions. Raises SkillMissing, SkillDamaged, SkillUnsignable."""
        with self._store.lock():
            skill = self._store.sign(name)
            self._put(skill)
        return skill

    def _put(self, skill: Skill) -> None:
        """Take a published skill on record and tell of it, by whoever holds the store's lock."""
        self._ledger.put({skill.name: (skill, self._store.stamp(skill.name))})
        self._tell(update_of(skill))

    def _tell(self, update: Update) -> None:
        if self._updates is not None:
            self._updates.tell_all([update], keeper=KEEPER)
