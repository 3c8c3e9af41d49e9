"""Make the records agree with the folders: after a crash, a lost database, or a person's own changes (SKILL-10)."""

import logging
from dataclasses import dataclass
from pathlib import Path

from acquired_skills.folders.store import SkillStore
from acquired_skills.life.ledger import Ledger
from acquired_skills.skill import NotOurs, Skill, SkillDamaged, SkillMissing
from engine.registry.updates import RegistryUpdates, Update

log = logging.getLogger(__name__)

KEEPER = "skills"  # towards RegistryUpdates


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
    """Compare and mend, alone in the store. Raises StoreBusy, ConfigError.

    updates: where it is told what changed and was not told yet.

    thorough: read every folder and check its hashes; otherwise only folders whose files changed since.
    """
    with store.lock():
        rows = {row.name: row for row in ledger.rows() if row.skill is not None}
        changed: dict[str, tuple[Skill, str]] = {}
        aside: list[SetAside] = []
        foreign: list[str] = []
        known: set[str] = set()
        for name in store.names():
            row, stamp = rows.get(name), store.stamp(name)
            if row is not None and stamp and row.stamp == stamp and not thorough:
                known.add(name)
                continue
            try:
                skill = store.read(name)
                if store.trust.checks and row is not None and row.skill is not None:
                    _not_older(skill, row.skill)
            except NotOurs as reason:
                foreign.append(str(reason))
            except SkillDamaged as reason:
                kept = store.set_aside(name)
                log.warning("Skill %s was set aside as %s: %s", name, kept, reason)
                aside.append(SetAside(name, str(reason), kept))
            else:
                if row is not None and row.stamp == stamp and row.skill == skill:
                    known.add(name)
                else:
                    changed[name] = (skill, stamp)
        removed = tuple(sorted(rows.keys() - known - changed.keys()))
        if changed or removed:
            ledger.put(changed, removed)
        ledger.withdraw(ledger.unfinished())
        if updates is not None:
            skills = {name: row.skill for name, row in rows.items() if name in known and row.skill is not None}
            skills |= {name: skill for name, (skill, _) in changed.items()}
            off = frozenset(name for name, skill in skills.items() if not skill.state.listed)
            truth = {name: _state(skill) for name, skill in skills.items()}
            updates.reconcile(KEEPER, "tools", truth, disabled=off)
    return Reconciled(len(known), tuple(changed), removed, tuple(aside), tuple(foreign))


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
    known = {row.name: (row.stamp, row.skill is None) for row in ledger.rows() if row.name in names}
    right = [name for name, (_, stamp) in written.items() if known.get(name) == (stamp, False)]
    right += [name for name in removed if known.get(name, ("", True))[1]]
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
