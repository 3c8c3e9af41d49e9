"""`Changes`: whatever changes skills for good: their folders, their rows and the events that tell of it, in one order.

    1. The change is announced in the records. If that fails, for instance because the disk is full, nothing happens.
    2. The folder changes, in one step. From here on the change is done, since the folder is the truth.
    3. The row is written and the announcement removed, in one transaction. If that fails, the folder is changed back.
    4. Events tell of it.

What a killed process announced and did not record is settled by whoever changes or opens the skills next: the row
becomes what the folder says. Every method blocks and may be called from any thread; nothing here judges, admits or
indexes.
"""

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from acquired_skills.find.catalog import Catalog
from acquired_skills.model.cycles import refuse_cycle
from acquired_skills.model.provenance import MOST_CHARS
from acquired_skills.model.skill import Skill, SkillChanged, SkillMissing, SkillState
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.reconcile import KEEPER, settle, update_of
from acquired_skills.store.skill_store import SkillStore
from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.registry.updates import RegistryUpdates, Update
from engine.stores.locks import StoreBusy
from engine.stores.sqlite_file import DiskFull

log = logging.getLogger(__name__)


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
        """Keep an admitted skill as the version after `replaces`.

        Raises:
            SkillChanged: another version is current now.
        """
        with self._changing(skill.name):
            skill = replace(skill, version=self._store.next_version(skill.name))
            with self._store.publishing(skill, code, tests, replaces=replaces):
                self._record(skill)
            self._tell(update_of(skill))
        return skill

    def rollback(self, current: Skill, version: int | None, by: str) -> Skill:
        """Publish an earlier version anew.

        Args:
            version: the one to go back to; None for the one before the current one.

        Raises:
            SkillMissing: no such version is kept.
            SkillDamaged: its files are not what was admitted.
        """
        with self._changing(current.name):
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
            with self._store.publishing(skill, code, tests, replaces=current.version):
                self._record(skill)
            self._tell(update_of(skill))
        return skill

    def set_state(self, name: str, state: SkillState, judged: Skill | None = None) -> Skill:
        """Change the state of the current version.

        Args:
            judged: the skill as it was when the state was decided.

        Raises:
            SkillChanged: it is no longer what was judged.
        """
        with self._changing(name):
            if judged is not None:
                now = self._store.read(name)
                if (now.version, now.state) != (judged.version, judged.state):
                    raise SkillChanged(f"`{name}` was changed by another process meanwhile.")
            with self._store.sealing(name, lambda: self._store.set_state(name, state)) as skill:
                self._record(skill)
            self._tell(update_of(skill))
        return skill

    def delete(self, name: str) -> None:
        """Delete a skill; its folder is kept as a tombstone.

        Raises:
            SkillMissing: there is no such skill.
        """
        with self._changing(name):
            with self._store.deleting(name):
                self._ledger.put({}, [name])
            self._tell(Update("tools", "delete", name))

    def restore(self, name: str) -> Skill:
        """Undo the latest delete.

        Raises:
            SkillMissing: no skill of this name was deleted.
            SkillChanged: the name is taken again.
            SkillError: the skill would call itself.
        """
        with self._changing(name):
            with self._store.restoring(name) as skill:
                refuse_cycle(skill, self._catalog.skills)
                self._record(skill)
            self._tell(update_of(skill))
        return skill

    def sign(self, name: str) -> Skill:
        """Sign a skill and its earlier versions.

        Raises:
            SkillMissing: there is no such skill.
            SkillDamaged: its files are not what was admitted.
            SkillUnsignable: nothing can be signed here.
        """
        with self._changing(name):
            with self._store.sealing(name, lambda: self._store.sign(name)) as skill:
                self._record(skill)
            self._tell(update_of(skill))
        return skill

    @contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        """Hold the store and announce the change; if it fails, see to it that the row agrees with the folder."""
        try:
            with self._store.lock():
                settle(self._store, self._ledger)
                self._ledger.announce(name)
                try:
                    yield
                except BaseException:
                    with suppress(Exception):  # the next change or start settles it
                        settle(self._store, self._ledger)
                    raise
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise DiskFull(
                f"{self._store.root}: the disk is full. `{name}` is as its folder says. Free some space and try again."
            ) from error

    def _record(self, skill: Skill) -> None:
        self._ledger.put({skill.name: (skill, self._store.stamp(skill.name))})

    def _tell(self, update: Update) -> None:
        """Tell of a change that is done. What cannot be told now is told by the reconciliation of the next start."""
        try:
            if self._updates is not None:
                self._updates.tell_all([update], keeper=KEEPER)
            self._ledger.told([update.item_id])
        except (ConfigError, StoreBusy) as error:
            log.warning("The change of %s is told later: %s", update.item_id, error)
