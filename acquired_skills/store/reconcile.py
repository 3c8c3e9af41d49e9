"""Makes the records agree with the folders of skills after a crash, a lost database, or manual changes (SKILL-10)."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from acquired_skills.model.skill import NotAdmitted, Skill, SkillDamaged, SkillMissing
from acquired_skills.store.ledger import Ledger, Row
from acquired_skills.store.skill_store import SkillStore
from engine.registry.updates import RegistryUpdates, Update

log = logging.getLogger(__name__)

KEEPER = "skills"  # the name under which RegistryUpdates records these changes
_AT_ONCE = 500  # number of skills in a batch, during which the store is locked
_PAUSE_S = 0.01  # seconds between two batches, so that a waiting process gets the lock


@dataclass(frozen=True, slots=True)
class SetAside:
    """A folder that could not be used and was moved away.

    Attributes:
        reason: Why it could not be used.
        kept: Where the folder is now.
    """

    name: str
    reason: str
    kept: Path


@dataclass(frozen=True, slots=True)
class ReconcileReport:
    """The result of a reconciliation.

    Attributes:
        known: The number of skills that had a matching row.
        read: The names of the skills whose row was written again from the folder.
        removed: The names of rows without a folder.
        aside: The damaged folders, which were moved away.
        foreign: A line for each folder that is not an admitted skill, with the reason. These folders stay unchanged.
    """

    known: int
    read: tuple[str, ...]
    removed: tuple[str, ...]
    aside: tuple[SetAside, ...]
    foreign: tuple[str, ...]


def update_of(skill: Skill) -> Update:
    """Return the event to publish for a skill that was written."""
    return Update("tools", "upsert" if skill.state.listed else "disable", skill.name, state=_state(skill))


def reconcile(
    store: SkillStore, ledger: Ledger, updates: RegistryUpdates | None = None, *, thorough: bool = False
) -> ReconcileReport:
    """Compare every folder with its row and correct the rows, in batches.

    The store is locked only during a batch, so that other processes can use it in between.

    Args:
        updates: Publishes, as events, the changes that were not published yet.
        thorough: Whether to read every folder and check its hashes, and not only folders whose files changed.

    Raises:
        StoreBusy: Another process holds the lock of the store for too long.
        ConfigError: The folder of the skills cannot be used.
    """
    with store.lock():
        stamp = _scan_stamp(store, updates)
    published = updates.published_states(KEEPER, "tools") if updates is not None else {}
    names = {*store.names(), *ledger.names(), *ledger.unfinished(), *published}
    report = _mend_all(store, ledger, updates, sorted(names), thorough=thorough)
    if updates is not None:
        updates.leave_other_spaces(KEEPER, "tools")
    ledger.scan(str(store.root), stamp or f"{_space(updates)} unsettled")
    return report


def reconcile_changes(store: SkillStore, ledger: Ledger, updates: RegistryUpdates | None = None) -> ReconcileReport:
    """Correct the rows of new and missing folders, and of changes that were not finished or not published.

    While nothing changes, this only checks the root folder. A change inside a skill's folder is found when the skill is
    used (`mend`), or by the next `reconcile`.

    Raises:
        StoreBusy: Another process holds the lock of the store for too long.
        ConfigError: The folder of the skills cannot be used.
    """
    root, stamp = str(store.root), _scan_stamp(store, updates)
    if stamp and ledger.scanned(root) == stamp and not ledger.unfinished() and not ledger.unpublished():
        return ReconcileReport(ledger.count(), (), (), (), ())
    if ledger.scanned(root).partition(" ")[0] != _space(updates):
        return reconcile(store, ledger, updates)  # this is the first comparison, or the event space has changed
    with store.lock():
        stamp = _scan_stamp(store, updates)
        there, known = set(store.names()), set(ledger.names())
        names = (there ^ known) | {*ledger.unfinished(), *ledger.unpublished()}
    report = _mend_all(store, ledger, updates, sorted(names))
    ledger.scan(root, stamp or f"{_space(updates)} unsettled")
    return replace(report, known=len(known - names) + report.known)


def mend(store: SkillStore, ledger: Ledger, updates: RegistryUpdates | None, names: Iterable[str]) -> ReconcileReport:
    """Make the rows of these skills agree with their folders, in batches.

    Raises:
        StoreBusy: Another process holds the lock of the store for too long.
        ConfigError: The folder of the skills cannot be used.
    """
    return _mend_all(store, ledger, updates, sorted(set(names)))


def stale(store: SkillStore, stamps: Mapping[str, str]) -> list[str]:
    """Return the names of the skills whose files changed after their rows were written.

    Args:
        stamps: The stamps in the rows, by name.
    """
    return [name for name, stamp in stamps.items() if store.stamp(name) != stamp]


def _mend_all(
    store: SkillStore,
    ledger: Ledger,
    updates: RegistryUpdates | None,
    names: Sequence[str],
    *,
    thorough: bool = False,
) -> ReconcileReport:
    """Correct the rows in batches. Each batch is written completely or not at all, even if the process is killed."""
    known = 0
    read: list[str] = []
    removed: list[str] = []
    aside: list[SetAside] = []
    foreign: list[str] = []
    for start in range(0, len(names), _AT_ONCE):
        if start:
            time.sleep(_PAUSE_S)
        with store.lock():
            found = _mend(store, ledger, updates, names[start : start + _AT_ONCE], thorough=thorough)
        known += len(found.known)
        read += found.changed
        removed += found.removed
        aside += found.aside
        foreign += found.foreign
    return ReconcileReport(known, tuple(read), tuple(removed), tuple(aside), tuple(foreign))


def _mend(
    store: SkillStore, ledger: Ledger, updates: RegistryUpdates | None, names: Sequence[str], *, thorough: bool
) -> "_Findings":
    """Correct one batch. The caller holds the store's lock."""
    found = _Findings()
    rows = ledger.find(names)
    for name in names:
        _compare(store, name, rows.get(name), found, thorough=thorough)
    if found.changed or found.removed:
        ledger.put(found.changed, found.removed)
    if updates is not None:
        updates.reconcile(KEEPER, "tools", found.truth, disabled=found.off, among=names)
    ledger.mark_published(names)
    announced = set(ledger.unfinished()).intersection(names)
    if announced:
        ledger.withdraw(announced)
    return found


@dataclass(slots=True)
class _Findings:
    """The findings of a comparison of folders with their rows.

    Attributes:
        truth: The version and the state of every existing skill.
        off: The names of the skills that are not listed.
    """

    known: set[str] = field(default_factory=set)
    changed: dict[str, tuple[Skill, str]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    aside: list[SetAside] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    truth: dict[str, str] = field(default_factory=dict)
    off: set[str] = field(default_factory=set)


def _compare(store: SkillStore, name: str, row: Row | None, found: _Findings, *, thorough: bool) -> None:
    """Compare one folder with its row, and set a damaged folder aside."""
    skill, stamp = None, ""
    try:
        skill, stamp = _look(store, name, row, thorough=thorough)
    except NotAdmitted as reason:
        found.foreign.append(str(reason))
    except SkillDamaged as reason:
        kept = store.set_aside(name)
        log.warning("Skill %s was set aside as %s: %s", name, kept, reason)
        found.aside.append(SetAside(name, str(reason), kept))
    if skill is None:
        if row is not None:
            found.removed.append(name)
        return
    if row is not None and row.stamp == stamp and row.skill == skill:
        found.known.add(name)
    else:
        found.changed[name] = (skill, stamp)
    found.truth[name] = _state(skill)
    if not skill.state.listed:
        found.off.add(name)


def _look(store: SkillStore, name: str, row: Row | None, *, thorough: bool) -> tuple[Skill | None, str]:
    """Return the skill in a folder and the stamp of its files. The skill is None if there is no folder.

    Raises:
        SkillDamaged: The folder cannot be used.
    """
    stamp = store.stamp(name)
    if row is not None and row.stamp == stamp and stamp and not thorough:
        return row.skill, stamp
    try:
        skill = store.read(name)
    except SkillMissing:
        return None, ""
    if store.trust.checks and row is not None and row.skill is not None:
        _not_older(skill, row.skill)
    return skill, stamp


def _scan_stamp(store: SkillStore, updates: RegistryUpdates | None) -> str:
    """Return the stamp of the root folder, with the space in which changes are published; "" shortly after a change."""
    stamp = store.root_stamp()
    return f"{_space(updates)} {stamp}" if stamp else ""


def _space(updates: RegistryUpdates | None) -> str:
    return f"space:{updates.space_id}" if updates is not None else "nobody"


def finish_announced(store: SkillStore, ledger: Ledger) -> None:
    """Finish the changes that a killed or failed process announced, by updating the rows from the folders.

    The caller holds the store's lock. Damaged folders are not handled here, because `reconcile` sets them aside.
    """
    names = ledger.unfinished()
    if not names:
        return
    written: dict[str, tuple[Skill, str]] = {}
    removed: list[str] = []
    for name in names:
        try:
            written[name] = (store.read(name), store.stamp(name))
        except SkillMissing:
            removed.append(name)
        except SkillDamaged:
            continue
    known = {name: row.stamp for name, row in ledger.find(names).items()}
    right = [name for name, (_, stamp) in written.items() if known.get(name) == stamp]
    right += [name for name in removed if name not in known]
    ledger.withdraw(right)
    changed = {name: each for name, each in written.items() if name not in right}
    gone = [name for name in removed if name not in right]
    if changed or gone:
        ledger.put(changed, gone)


def _not_older(skill: Skill, known: Skill) -> None:
    """Check that nobody replaced a folder with an earlier copy. The signatures of such a copy are still valid.

    Raises:
        SkillDamaged: The skill has an older version than its row.
    """
    if skill.version < known.version:
        raise SkillDamaged(
            f"The folder of `{skill.name}` has version {skill.version}, but version {known.version} existed already, "
            "so an older folder replaced it. To use the older version, import it with `knackbox skills import`."
        )


def _state(skill: Skill) -> str:
    return f"{skill.version}:{skill.state}"
