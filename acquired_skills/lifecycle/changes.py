"""`Changes`: makes all permanent changes to skills, in their folders, rows and events.

A change has four steps:

1. It is announced in the records. If that fails, for instance because the disk is full, nothing is changed.
2. The folder changes atomically. The change is then in effect, because the folder is authoritative.
3. The row is written and the announcement removed, in one transaction. If that fails, the folder is changed back.
4. Events are published.

If a process is killed between the first and the third step, the next process that changes or opens the skills finishes
the change: it updates the row to the contents of the folder. Every method blocks and is thread-safe. Judging, admission
and indexing happen elsewhere.
"""

import errno
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from acquired_skills.find.catalog import Catalog
from acquired_skills.model.cycles import refuse_cycle
from acquired_skills.model.program import SkillProgram
from acquired_skills.model.provenance import MOST_CHARS
from acquired_skills.model.skill import Skill, SkillChanged, SkillMissing, SkillState
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.reconcile import KEEPER, finish_announced, update_of
from acquired_skills.store.skill_store import SkillStore
from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.registry.updates import RegistryUpdates, Update
from engine.stores.locks import StoreBusy
from engine.stores.sqlite_file import DiskFull

log = logging.getLogger(__name__)


class Changes:
    """Changes the skill folders of one home together with their records."""

    def __init__(
        self, store: SkillStore, ledger: Ledger, catalog: Catalog, clock: Clock, updates: RegistryUpdates | None
    ) -> None:
        """Create the object from its parts.

        Args:
            updates: Publishes the changes; None if they are not published.
        """
        self._store = store
        self._ledger = ledger
        self._catalog = catalog
        self._clock = clock
        self._updates = updates

    def now(self) -> str:
        """Return the time in UTC, ISO 8601, as in `Skill.created`."""
        return self._clock.now().isoformat(timespec="seconds")

    def publish(self, skill: Skill, program: SkillProgram | bytes, tests: bytes, replaces: int) -> Skill:
        """Store an admitted skill as a new version. It replaces the version with the number `replaces` (0 for none).

        Raises:
            SkillChanged: `replaces` is no longer the current version.
        """
        with self._changing(skill.name):
            skill = replace(skill, version=self._store.next_version(skill.name))
            with self._store.publishing(skill, program, tests, replaces=replaces):
                self._record(skill)
            self._publish_update(update_of(skill))
        return skill

    def earlier(self, current: Skill, version: int | None) -> tuple[Skill, SkillProgram]:
        """Return an earlier version of a skill, with its program.

        Args:
            version: The earlier version; None for the latest kept version before the current one.

        Raises:
            SkillMissing: There is no such version.
            SkillDamaged: The files of that version were changed after they were admitted.
        """
        older = self._store.earlier_numbers(current.name)
        number = version or max(older, default=0)
        if number not in older:
            kept = ", ".join(map(str, older)) or "none"
            raise SkillMissing(f"`{current.name}` has no such earlier version. Earlier versions: {kept}.")
        target = self._store.earlier(current.name, number)
        return target, self._store.program(target)

    def rollback(self, current: Skill, version: int | None, by: str) -> Skill:
        """Publish an earlier version as a new one.

        Args:
            version: The earlier version; None for the latest kept version before the current one.

        Raises:
            SkillMissing: There is no such version.
            SkillDamaged: The files of that version were changed after they were admitted.
        """
        with self._changing(current.name):
            target, program = self.earlier(current, version)
            provenance = {
                **target.provenance,
                "rolled_back": f"to version {target.version}{', ' if by else ''}{by}"[:MOST_CHARS],
            }
            tests = self._store.tests(target)
            refuse_cycle(target, self._catalog.skills)
            created = self.now()
            number = self._store.next_version(current.name)
            skill = replace(target, version=number, created=created, state=SkillState.PROBATION, provenance=provenance)
            with self._store.publishing(skill, program, tests, replaces=current.version):
                self._record(skill)
            self._publish_update(update_of(skill))
        return skill

    def set_state(self, name: str, state: SkillState, judged: Skill | None = None) -> Skill:
        """Change the state of the current version.

        Args:
            judged: The skill as it was when the state was decided.

        Raises:
            SkillChanged: The skill has changed since `judged` was read.
        """
        with self._changing(name):
            if judged is not None:
                now = self._store.read(name)
                if (now.version, now.state) != (judged.version, judged.state):
                    text = f"`{name}` was changed by another process in the meantime. Look at it and try again."
                    raise SkillChanged(text)
            with self._store.sealing(name, lambda: self._store.set_state(name, state)) as skill:
                self._record(skill)
            self._publish_update(update_of(skill))
        return skill

    def delete(self, name: str) -> None:
        """Delete a skill. Its folder is moved to `.deleted`, from which it can be restored.

        Raises:
            SkillMissing: The skill does not exist.
        """
        with self._changing(name):
            with self._store.deleting(name):
                self._ledger.put({}, [name])
            self._publish_update(Update("tools", "delete", name))

    def withdraw(self, name: str, call: str) -> int:
        """Take back the version that a call published, as if it had never been published.

        Args:
            call: The `call` of the version's provenance.

        Returns:
            The number of the version; 0 if there is none of this call.

        Raises:
            SkillChanged: A later version has replaced it.
            SkillDamaged: The folder of the skill cannot be used.
        """
        with self._changing(name):
            try:
                current = self._store.read(name)
                older = [self._store.earlier(name, number) for number in self._store.earlier_numbers(name)]
            except SkillMissing:
                self._ledger.withdraw([name])
                return 0
            if any(each.provenance.get("call") == call for each in older):
                self._ledger.withdraw([name])
                raise SkillChanged(f"`{name}` has a later version, {current.version}. Delete or roll back that first.")
            if current.provenance.get("call") != call:
                self._ledger.withdraw([name])
                return 0
            with self._store.withdrawing(name) as before:
                if before is None:
                    self._ledger.put({}, [name])
                else:
                    self._record(before)
            self._publish_update(Update("tools", "delete", name) if before is None else update_of(before))
        return current.version

    def restore(self, name: str) -> Skill:
        """Undo the latest deletion of a skill of this name.

        Raises:
            SkillMissing: No skill of this name was deleted.
            SkillChanged: The name is in use again.
            SkillError: The restored skill would call itself through other skills.
        """
        with self._changing(name):
            with self._store.restoring(name) as skill:
                refuse_cycle(skill, self._catalog.skills)
                self._record(skill)
            self._publish_update(update_of(skill))
        return skill

    def sign(self, name: str) -> Skill:
        """Sign a skill and its earlier versions.

        Raises:
            SkillMissing: The skill does not exist.
            SkillDamaged: Its files were changed after they were admitted.
            SkillUnsignable: This home has no key to sign with.
        """
        with self._changing(name):
            with self._store.sealing(name, lambda: self._store.sign(name)) as skill:
                self._record(skill)
            self._publish_update(update_of(skill))
        return skill

    @contextmanager
    def _changing(self, name: str) -> Iterator[None]:
        """Lock the store and announce a change. If the change fails, make the skill's row agree with its folder."""
        try:
            with self._store.lock():
                finish_announced(self._store, self._ledger)
                self._ledger.announce(name)
                try:
                    yield
                except BaseException:
                    with suppress(Exception):  # the next change, or the next start, finishes it
                        finish_announced(self._store, self._ledger)
                    raise
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise DiskFull(
                f"{self._store.root}: the disk is full. It is uncertain whether `{name}` was changed; its folder "
                "shows its state. Free some space and try again."
            ) from error

    def _record(self, skill: Skill) -> None:
        self._ledger.put({skill.name: (skill, self._store.stamp(skill.name))})

    def _publish_update(self, update: Update) -> None:
        """Publish a finished change. If publishing fails, the reconciliation at the next start publishes it."""
        try:
            if self._updates is not None:
                self._updates.publish_all([update], keeper=KEEPER)
            self._ledger.mark_published([update.item_id])
        except (ConfigError, StoreBusy) as error:
            text = "The change to %s is saved, but it could not be published. The next start publishes it: %s"
            log.warning(text, update.item_id, error)
