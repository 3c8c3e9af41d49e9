"""Make the records agree with the folders: after a crash, a lost database, or a person's own changes (SKILL-10)."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from acquired_skills.model.skill import NotOurs, Skill, SkillDamaged, SkillMissing
from acquired_skills.store.ledger import Ledger, Row
from acquired_skills.store.skill_store import SkillStore
from engine.registry.updates import RegistryUpdates, Update

log = logging.getLogger(__name__)

KEEPER = "skills"  # towards RegistryUpdates
_AT_ONCE = 500  # rows read at a time


@dataclass(frozen=True, slots=True)
class SetAside:
    """A folder that could not be used: why, and where it is kept now."""

    name: str
    reason: str
    kept: Path


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What was done. known: skills whose row agreed. read: names whose row was written anew. removed: rows without a
    folder. aside: damaged folders. foreign: folders that are not admitted skills, left alone, each with a line why.
    """

    known: int
    read: tuple[str, ...]
    removed: tuple[str, ...]
    aside: tuple[SetAside, ...]
    foreign: tuple[str, ...]


def update_of(skill: Skill) -> Update:
    """What is told of a skill that was written."""
    return Update("tools", "upsert" if skill.state.listed else "disable", skill.name, state=_state(skill))


def reconcile(
    store: SkillStore, ledger: Ledger, updates: RegistryUpdates | None = None, *, thorough: bool = False
) -> Reconciled:
    """Compare every folder with its row and mend, alone in the store. Raises StoreBusy, ConfigError.

    updates: where it is told what changed and was not told yet.

    thorough: read every folder and check its hashes; otherwise only folders whose files changed since.
    """
    with store.lock():
        stamp = _scan_stamp(store, updates)
        names = sorted({*store.names(), *ledger.names()})
        report = _mend(store, ledger, updates, names, thorough=thorough, everything=True)
        ledger.withdraw(ledger.unfinished())
        ledger.scan(str(store.root), stamp or f"{_space(updates)} unsettled")
    return report


def reconcile_changes(store: SkillStore, ledger: Ledger, updates: RegistryUpdates | None = None) -> Reconciled:
    """Mend what is known to have changed: new and missing folders, and changes that were not finished or not told.

    It costs one look at the folder of all skills while nothing changed. A change within a folder shows when the skill
    is used (`mend`), or in the next `reconcile`. Raises StoreBusy, ConfigError.
    """
    root, stamp = str(store.root), _scan_stamp(store, updates)
    if stamp and ledger.scanned(root) == stamp and not ledger.unfinished() and not ledger.untold():
        return Reconciled(ledger.count(), (), (), (), ())
    if ledger.scanned(root).partition(" ")[0] != _space(updates):
        return reconcile(store, ledger, updates)  # the first time, or in another space
    with store.lock():
        stamp = _scan_stamp(store, updates)
        there, known = set(store.names()), set(ledger.names())
        names = (there ^ known) | {*ledger.unfinished(), *ledger.untold()}
        report = _mend(store, ledger, updates, sorted(names))
        ledger.withdraw(ledger.unfinished())
        ledger.scan(root, stamp or f"{_space(updates)} unsettled")
    return replace(report, known=len(known - names) + report.known)


def mend(store: SkillStore, ledger: Ledger, updates: RegistryUpdates | None, names: Iterable[str]) -> Reconciled:
    """Make the rows of these skills agree with their folders, alone in the store. Raises StoreBusy, ConfigError."""
    with store.lock():
        return _mend(store, ledger, updates, sorted(set(names)))


def stale(store: SkillStore, stamps: Mapping[str, str]) -> list[str]:
    """Return the skills whose files changed after their rows were written. stamps: of the rows, by name."""
    return [name for name, stamp in stamps.items() if store.stamp(name) != stamp]


def _mend(
    store: SkillStore,
    ledger: Ledger,
    updates: RegistryUpdates | None,
    names: Sequence[str],
    *,
    thorough: bool = False,
    everything: bool = False,
) -> Reconciled:
    """names: of the folders and rows to compare; `everything`: they are all there are."""
    found = _Findings()
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        rows = ledger.find(some)
        for name in some:
            _compare(store, name, rows.get(name), found, thorough=thorough)
    if found.changed or found.removed:
        ledger.put(found.changed, found.removed)
    if updates is not None:
        among = None if everything else names
        updates.reconcile(KEEPER, "tools", found.truth, disabled=found.off, among=among)
    ledger.told(names)
    return Reconciled(
        len(found.known), tuple(found.changed), tuple(found.removed), tuple(found.aside), tuple(found.foreign)
    )


@dataclass(slots=True)
class _Findings:
    """What was found of the skills. truth: the state of every one that there is; off: those that are not listed."""

    known: set[str] = field(default_factory=set)
    changed: dict[str, tuple[Skill, str]] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    aside: list[SetAside] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    truth: dict[str, str] = field(default_factory=dict)
    off: set[str] = field(default_factory=set)


def _compare(store: SkillStore, name: str, row: Row | None, found: _Findings, *, thorough: bool) -> None:
    """Hold one folder against its row; a damaged folder is set aside."""
    skill, stamp = None, ""
    try:
        skill, stamp = _look(store, name, row, thorough=thorough)
    except NotOurs as reason:
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
    """The skill in a folder and the stamp of its files; None where there is no folder. Raises SkillDamaged."""
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
    """Says whether the names of the folders, and who is told of them, are as at the last scan; "" for "unknown"."""
    stamp = store.root_stamp()
    return f"{_space(updates)} {stamp}" if stamp else ""


def _space(updates: RegistryUpdates | None) -> str:
    return f"space:{updates.space_id}" if updates is not None else "nobody"


def settle(store: SkillStore, ledger: Ledger) -> None:
    """Finish the changes that a killed or failed process announced: rows become what the folders say.

    The caller holds the store's lock. A damaged folder is left to `reconcile`, which sets it aside.
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
    """A whole folder of before, signatures and all, is no way to bring back what was replaced. Raises SkillDamaged."""
    if skill.version < known.version:
        raise SkillDamaged(
            f"`{skill.name}` is version {skill.version}, and version {known.version} was there already: an older "
            "folder was put in its place. To have it back, `knackbox skills import` it."
        )


def _state(skill: Skill) -> str:
    return f"{skill.version}:{skill.state}"
