"""`FolderRecords`: makes the records of skills agree with their folders, which people and other processes change."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace

from acquired_skills.find.catalog import Catalog
from acquired_skills.store.ledger import Ledger, Row
from acquired_skills.store.reconcile import ReconcileReport, SetAside, mend, reconcile, reconcile_changes, stale
from acquired_skills.store.skill_store import SkillStore
from engine.contract.failure import ConfigError
from engine.registry.updates import RegistryUpdates
from engine.stores.locks import StoreBusy
from engine.stores.sqlite_file import DiskFull

log = logging.getLogger(__name__)

# How often a long-lived process looks for manual changes, in seconds, and how many folders it checks at a time.
_WATCH_AFTER_S, _WATCH_EVERY_S, _WATCH_PAUSE_S, _WATCHED_AT_ONCE = 10.0, 600.0, 0.05, 500


class FolderRecords:
    """Updates the records of the skills in one home from their folders."""

    def __init__(self, store: SkillStore, ledger: Ledger, catalog: Catalog, updates: RegistryUpdates | None) -> None:
        self._store = store
        self._ledger = ledger
        self._catalog = catalog
        self._updates = updates
        self._aside: list[SetAside] = []

    def current(self, name: str) -> Row | None:
        """Return the row of a skill, after making it agree with the folder. This blocks."""
        row = self._catalog.row(name)
        if self._store.stamp(name) == (row.stamp if row is not None else ""):
            return row
        self._mend([name])
        return self._catalog.row(name)

    async def refresh(self, stamps: Mapping[str, str]) -> bool:
        """Update the rows of these skills if their folders changed. Return whether any folder changed.

        Args:
            stamps: The stamps in the rows, by the name of the skill. A stamp changes when a file of the skill changes.
        """
        names = await asyncio.to_thread(stale, self._store, stamps)
        if names:
            await asyncio.to_thread(self._mend, names)
        return bool(names)

    async def reconcile(self) -> ReconcileReport:
        """Make the records agree with the folders when the engine starts. This is cheap if nothing changed."""
        report = await asyncio.to_thread(reconcile_changes, self._store, self._ledger, self._updates)
        self._aside += report.aside
        return report

    async def verify(self) -> ReconcileReport:
        """Read and check every folder, set damaged ones aside, and make the records agree with the folders.

        The report lists all folders that were set aside since this object was created.
        """
        report = await asyncio.to_thread(reconcile, self._store, self._ledger, self._updates, thorough=True)
        self._aside += report.aside
        return replace(report, aside=tuple(self._aside))

    async def watch(self) -> None:
        """Look for manual changes of folders periodically, in a few hundred folders at a time, until cancelled."""
        await asyncio.sleep(_WATCH_AFTER_S)
        while True:
            try:
                await self._refresh_all()
            except (StoreBusy, ConfigError):  # the next use of the skills reports the same error
                pass
            except Exception:  # the loop must go on, because the next check may succeed
                log.exception("Looking for manual changes of skills failed.")
            await asyncio.sleep(_WATCH_EVERY_S)

    async def _refresh_all(self) -> None:
        await self.reconcile()
        name = ""
        while stamps := await asyncio.to_thread(self._ledger.stamps, name, _WATCHED_AT_ONCE):
            await self.refresh(stamps)
            name = max(stamps)
            await asyncio.sleep(_WATCH_PAUSE_S)

    def _mend(self, names: Sequence[str]) -> None:
        with contextlib.suppress(DiskFull):  # the records then stay outdated, but a call checks the code that it runs
            self._aside += mend(self._store, self._ledger, self._updates, names).aside
