"""`DreamPlans`: stores plans in the memory database, and applies and undoes their steps.

Each step is one transaction that also records the step's state, so a killed process leaves no step half applied.
Applying or undoing a plan again continues where it stopped.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Float,
    MetaData,
    Row,
    String,
    Table,
    Text,
    delete,
    insert,
    select,
    update,
)

from builtin_tools.memory.changes import MemoryChange
from builtin_tools.memory.contradictions import REPEATS
from builtin_tools.memory.dream.plan import DreamPlan, DreamStep, StepKind, StepState, steps_of, steps_text
from builtin_tools.memory.entries import Entry, EntryKind, EntrySource, NewEntry, SourceKind, Statement
from builtin_tools.memory.lessons.lesson import lesson_of
from builtin_tools.memory.profile import PROFILE
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.tables import ID

MOST_PLANS = 50  # plans kept for each owner; older plans are deleted and can then no longer be undone
SCHEMA = MetaData()
PLANS = Table(
    "memory_plans",
    SCHEMA,
    Column("id", String(ID), primary_key=True),
    Column("owner", Text, nullable=False, index=True),
    Column("made", Float, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("steps", Text, nullable=False),  # JSON
)

# Called with an owner, an agent, keys, and whether to hide (True) or show the scratchpad notes with these keys.
HideNotes = Callable[[str, str, Collection[str], bool], int]


class DreamPlans:
    """Stores, applies and undoes the plans of all owners. Every method blocks."""

    def __init__(self, store: MemoryStore, hide_notes: HideNotes) -> None:
        """Create the table if it is missing.

        Args:
            store: The memory.
            hide_notes: Hides scratchpad notes, or shows them again.
        """
        self._store = store
        self._hide_notes = hide_notes
        store.create(SCHEMA)

    def add(self, owner: str, steps: tuple[DreamStep, ...], *, complete: bool) -> DreamPlan:
        """Store a new plan."""
        with self._store.changing() as memory:
            plan = DreamPlan(memory.new_id(), owner, memory.now, steps, complete)
            row = {"id": plan.id, "owner": owner, "made": plan.made, "complete": complete, "steps": steps_text(steps)}
            memory.connection.execute(insert(PLANS), [row])
            newest = select(PLANS.c.id).where(PLANS.c.owner == owner).order_by(PLANS.c.made.desc()).limit(MOST_PLANS)
            memory.connection.execute(delete(PLANS).where(PLANS.c.owner == owner, PLANS.c.id.not_in(newest)))
        return plan

    def all(self, owner: str) -> list[DreamPlan]:
        """Return the plans of an owner, newest first."""
        query = select(PLANS).where(PLANS.c.owner == owner).order_by(PLANS.c.made.desc(), PLANS.c.id)
        with self._store.reading() as memory:
            return [_plan(row) for row in memory.connection.execute(query)]

    def get(self, owner: str, plan_id: str = "") -> DreamPlan | None:
        """Return a plan of an owner by its id, or the newest if no id is given; None if there is none."""
        return next((plan for plan in self.all(owner) if plan_id in ("", plan.id)), None)

    def forget(self, owner: str) -> None:
        """Delete the plans of an owner. Called when entries are erased, because plans may contain words from them."""
        with self._store.changing() as memory:
            memory.connection.execute(delete(PLANS).where(PLANS.c.owner == owner))

    def apply(self, plan: DreamPlan) -> DreamPlan:
        """Apply every planned step, each in its own transaction."""
        for at in range(len(plan.steps)):
            plan = self._change(plan, at, StepState.PLANNED, self._applied)
        return plan

    def undo(self, plan: DreamPlan) -> DreamPlan:
        """Undo every applied step, last step first."""
        for at in reversed(range(len(plan.steps))):
            plan = self._change(plan, at, StepState.APPLIED, self._undone)
        return plan

    def _change(
        self,
        plan: DreamPlan,
        at: int,
        state: StepState,
        change: Callable[[MemoryChange, DreamPlan, DreamStep], DreamStep],
    ) -> DreamPlan:
        """Apply `change` to the step at index `at` if that step is still in `state`, and store the changed step.

        Both happen in one transaction.
        """
        if plan.steps[at].state is not state:
            return plan
        with self._store.changing() as memory:
            current = _read(memory.connection, plan)
            if current.steps[at].state is state:
                current = current.with_step(at, change(memory, current, current.steps[at]))
                text = steps_text(current.steps)
                memory.connection.execute(update(PLANS).where(PLANS.c.id == plan.id).values(steps=text))
        return current

    def _applied(self, memory: MemoryChange, plan: DreamPlan, step: DreamStep) -> DreamStep:
        owner = plan.owner
        match step.kind:
            case StepKind.MERGE | StepKind.CLOSE:
                return _close(memory, owner, step)
            case StepKind.PROFILE:
                return _promote(memory, owner, step)
            case StepKind.LESSON:
                return _complete(memory, owner, step)
            case StepKind.EXPIRE:
                keys = [str(key) for key in step.data["keys"]]
                self._hide_notes(owner, str(step.data["agent"]), keys, True)
                return replace(step, state=StepState.APPLIED, before={"keys": keys})
            case StepKind.SUGGEST:
                return replace(step, state=StepState.APPLIED)

    def _undone(self, memory: MemoryChange, plan: DreamPlan, step: DreamStep) -> DreamStep:
        if step.kind is StepKind.EXPIRE:
            keys = [str(key) for key in step.before["keys"]]
            self._hide_notes(plan.owner, str(step.data["agent"]), keys, False)
        made = step.before.get("made", "")
        if made:
            memory.remove(memory.get([plan.owner], [made]).values())
        for entry_id, was in step.before.get("entries", {}).items():
            entry = memory.one([plan.owner], entry_id)
            if entry is not None:  # the entry may have been erased since
                data = {**entry.data, **was["data"]} if was["data"] else entry.data
                memory.put(replace(entry, holds_to=was["holds_to"], successor=was["successor"], data=data))
        return replace(step, state=StepState.UNDONE, before={})


def _close(memory: MemoryChange, owner: str, step: DreamStep) -> DreamStep:
    keep = memory.one([owner], step.keep)
    closing = [entry for entry in memory.get([owner], step.entries).values() if entry.holds_to is None]
    if keep is None or keep.holds_to is not None or len(closing) < len(step.entries):
        return replace(step, state=StepState.STALE)
    before = {"entries": {entry.id: _was(entry) for entry in closing}}
    if step.kind is StepKind.MERGE:
        before["entries"][keep.id] = {**_was(keep), "data": {REPEATS: int(keep.data.get(REPEATS, 0))}}
        repeats = sum(1 + int(entry.data.get(REPEATS, 0)) for entry in closing)
        memory.set_data(keep, {**keep.data, REPEATS: int(keep.data.get(REPEATS, 0)) + repeats})
    at = memory.now if step.kind is StepKind.MERGE else max(keep.begins, *(entry.begins for entry in closing))
    for entry in closing:
        memory.close(entry, at, keep.id)
        if step.kind is StepKind.CLOSE:
            memory.settle_pair(entry.id, keep.id)
    return replace(step, state=StepState.APPLIED, before=before)


def _promote(memory: MemoryChange, owner: str, step: DreamStep) -> DreamStep:
    fact = memory.one([owner], step.keep)
    if fact is None or fact.statement is None or fact.holds_to is not None:
        return replace(step, state=StepState.STALE)
    key, value = str(step.data["key"]), fact.statement.value
    old = [
        entry
        for entry in memory.about(owner, PROFILE, "user", key)
        if entry.kind is EntryKind.PROFILE and entry.holds_to is None
    ]
    if any(entry.statement is not None and entry.statement.value == value for entry in old):
        return replace(step, state=StepState.STALE)
    made = memory.insert(
        NewEntry(
            owner=owner,
            space=PROFILE,
            kind=EntryKind.PROFILE,
            text=f"{key}: {value}",
            source=EntrySource(SourceKind.CONSOLIDATION, of=(fact.id,)),
            statement=Statement("user", key, value),
        )
    )
    before = {"made": made.id, "entries": {entry.id: _was(entry) for entry in old}}
    for entry in old:
        memory.close(entry, memory.now, made.id)
    return replace(step, state=StepState.APPLIED, before=before)


def _complete(memory: MemoryChange, owner: str, step: DreamStep) -> DreamStep:
    draft = memory.one([owner], step.keep)
    if draft is None or draft.holds_to is not None or not draft.data.get("draft"):
        return replace(step, state=StepState.STALE)
    lesson = lesson_of(draft)
    what = replace(lesson.what, mistake=str(step.data["mistake"]), fix=str(step.data["fix"]))
    data = replace(lesson, what=what, draft=False).data()
    made = memory.insert(
        NewEntry(
            owner=owner,
            space=draft.space,
            kind=EntryKind.LESSON,
            text=what.text,
            source=EntrySource(SourceKind.CONSOLIDATION, of=(draft.id,)),
            title=what.where,
            data=data,
        )
    )
    memory.close(draft, memory.now, made.id)
    return replace(step, state=StepState.APPLIED, before={"made": made.id, "entries": {draft.id: _was(draft)}})


def _was(entry: Entry) -> dict[str, object]:
    return {"holds_to": entry.holds_to, "successor": entry.successor, "data": {}}


def _read(connection: Connection, plan: DreamPlan) -> DreamPlan:
    row = connection.execute(select(PLANS).where(PLANS.c.id == plan.id)).one_or_none()
    return plan if row is None else _plan(row)


def _plan(row: Row[tuple[object, ...]]) -> DreamPlan:
    return DreamPlan(row.id, row.owner, row.made, steps_of(row.steps), row.complete)
