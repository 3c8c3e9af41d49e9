"""`LessonBook`: stores lessons, merges similar ones, and counts how often they are shown, followed and helpful
(MEM-7).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from builtin_tools.memory.changes import MemoryChange
from builtin_tools.memory.entries import Entry, EntryKind, EntrySource, NewEntry
from builtin_tools.memory.lessons.lesson import Lesson, LessonOrigin, NewLesson, lesson_of
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import EntrySelection, MemoryView
from engine.retrieval.terms import Terms

LESSONS = "personal:lessons"  # the space of lessons
MOST_LESSONS = 2_000  # maximum lessons of one owner; beyond that, lessons with the least worth are removed
_SAME_MISTAKE = 0.6  # minimum share of common terms of two mistakes that count as the same
_SAME_FIX = 0.6
_NEAR = 0.86  # minimum cosine of two lessons that count as the same although their words differ

# Called with an owner and a text. Returns the ids of the owner's similar lessons with their cosines.
Similar = Callable[[str, str], Sequence[tuple[str, float]]]


def nothing_similar(owner: str, text: str) -> Sequence[tuple[str, float]]:
    """Return no similar lessons. Used if there is no index."""
    del owner, text
    return ()


class LessonReplaced(Exception):
    """What was learned cannot be taken back, because it has been replaced since."""


class LessonBook:
    """Stores and reads the lessons in the memory. Every method blocks."""

    def __init__(self, store: MemoryStore, similar: Similar = nothing_similar) -> None:
        self._store = store
        self._similar = similar

    def learn(
        self, owner: str, space: str, new: NewLesson, source: EntrySource, draft: str = ""
    ) -> tuple[Lesson, bool]:
        """Store a lesson.

        If a similar lesson is known, its count is raised by one. If the fix differs, the new lesson replaces the known
        one and continues its count; the known one is kept in the history.

        Args:
            owner: The owner of the lesson.
            space: The memory space of the lesson.
            new: The lesson.
            source: Who learned it.
            draft: The id of a draft that the lesson completes and that is then removed; "" for none.

        Returns:
            The lesson as stored, and whether it was merged with a known one.
        """
        near = {entry_id for entry_id, cosine in self._similar(owner, new.text) if cosine >= _NEAR}
        with self._store.changing() as memory:
            drafts = [each for each in _lessons(memory, owner, space) if each.draft and each.id == draft]
            for each in drafts:
                new = replace(new, evidence=(*new.evidence, *each.what.evidence), reason=new.reason or each.what.reason)
                _remove(memory, owner, each.id)
            known = self._same(memory, owner, space, new, near)
            if known is None:
                lesson = _inserted(memory, owner, space, Lesson("", new, updated=memory.now), source)
                _make_room(memory, owner, space)
                return lesson, False
            again = known.again(new, memory.now)
            if _alike(known.what.fix, new.fix) >= _SAME_FIX:
                _write(memory, owner, again)
                return again, True
            changed = replace(again, what=replace(new, evidence=again.what.evidence), shown=0, followed=0, helped=0)
            lesson = _inserted(memory, owner, space, changed, source)
            old = memory.one([owner], known.id)
            if old is not None:
                memory.close(old, memory.now, lesson.id)
            return lesson, True

    def draft(self, owner: str, space: str, new: NewLesson, source: EntrySource) -> Lesson | None:
        """Store a draft: failures whose fix is not known yet. If the draft exists, its count is raised by one.

        Returns:
            The draft; None if a lesson for this tool and reason exists, so that no draft is needed.
        """
        with self._store.changing() as memory:
            about = [
                each
                for each in _lessons(memory, owner, space)
                if (each.what.tool, each.what.reason) == (new.tool, new.reason)
            ]
            if any(not each.draft for each in about):
                return None
            if about:
                again = about[0].again(new, memory.now)
                _write(memory, owner, again)
                return again
            return _inserted(memory, owner, space, Lesson("", new, draft=True, updated=memory.now), source)

    def all(
        self, owners: Mapping[str, Collection[str]], since: float | None = None, origin: LessonOrigin | None = None
    ) -> list[Lesson]:
        """Return the current lessons and drafts, most recently learned first.

        Args:
            owners: The spaces to read, by owner.
            since: Only lessons learned, or learned again, since this time, in seconds since the epoch.
            origin: Only lessons with this origin.
        """
        found: list[Lesson] = []
        with self._store.reading() as memory:
            for owner, spaces in owners.items():
                found += [each for space in spaces for each in _lessons(memory, owner, space)]
        chosen = [
            each
            for each in found
            if (since is None or each.updated >= since) and (origin is None or each.what.origin is origin)
        ]
        return sorted(chosen, key=lambda each: (-each.updated, each.id))

    def get(self, owner: str, ids: Collection[str]) -> dict[str, Lesson]:
        """Return the current lessons with these ids."""
        with self._store.reading() as memory:
            found = memory.get([owner], ids)
        return {key: lesson_of(entry) for key, entry in found.items() if _current(entry)}

    def count(
        self, owner: str, *, shown: Collection[str] = (), followed: Collection[str] = (), helped: Collection[str] = ()
    ) -> None:
        """Count that lessons were shown, followed or helpful. Lessons that no longer exist are ignored.

        Args:
            owner: The owner of the lessons.
            shown: Ids of the lessons whose count `shown` is raised by one.
            followed: Ids of the lessons whose count `followed` is raised by one.
            helped: Ids of the lessons whose count `helped` is raised by one.
        """
        with self._store.changing() as memory:
            for key, entry in memory.get([owner], {*shown, *followed, *helped}).items():
                lesson = lesson_of(entry)
                changed = replace(
                    lesson,
                    shown=lesson.shown + (key in shown),
                    followed=lesson.followed + (key in followed),
                    helped=lesson.helped + (key in helped),
                )
                memory.set_data(entry, changed.data())

    def touched(self, owner: str, space: str, call: str) -> dict[str, Entry]:
        """Return the entries that one call of `learn` made, merged or replaced, by id, as they are now.

        Args:
            owner, space: As for `learn`.
            call: The `call_id` of the source that was given to `learn`, and one of the lesson's evidence.
        """
        with self._store.reading() as memory:
            return _touched(memory, owner, space, call)

    def entries(self, owner: str, space: str) -> dict[str, Entry]:
        """Return all lessons by id as they are stored, with drafts and replaced lessons."""
        with self._store.reading() as memory:
            return _entries(memory, owner, space)

    def take_back(self, owner: str, space: str, call: str, before: Mapping[str, Entry]) -> int:
        """Undo what one call of `learn` changed, but keep what has been counted and learned of other lessons since.

        Args:
            owner, space, call: As for `touched`.
            before: The entries before the call, by id; at least those that it changed.

        Returns:
            The number of entries that were restored or removed.

        Raises:
            LessonReplaced: A lesson that the call made has been replaced since. Nothing was changed.
        """
        with self._store.changing() as memory:
            now = _touched(memory, owner, space, call)
            made = [each for key, each in now.items() if key not in before]
            for each in made:
                if each.holds_to is not None:
                    text = f"the lesson {each.id} has been replaced since by the lesson {each.successor}"
                    raise LessonReplaced(text)
            memory.remove(made)
            for key, entry in now.items():
                if key in before:
                    _put_back(memory, before[key], entry, call)
        return len(now)

    def _same(self, memory: MemoryView, owner: str, space: str, new: NewLesson, near: Collection[str]) -> Lesson | None:
        """Return the most similar known lesson about the same mistake; None if there is none."""
        best: tuple[float, Lesson] | None = None
        for each in _lessons(memory, owner, space):
            if each.draft or (each.what.tool and new.tool and each.what.tool != new.tool):
                continue
            alike = max(_alike(each.what.mistake, new.mistake), 1.0 if each.id in near else 0.0)
            if alike >= _SAME_MISTAKE and (best is None or alike > best[0]):
                best = (alike, each)
        return None if best is None else best[1]


def _lessons(memory: MemoryView, owner: str, space: str) -> list[Lesson]:
    chosen = EntrySelection(kinds=[EntryKind.LESSON], spaces=[space])
    return [lesson_of(entry) for entry in memory.entries([owner], chosen) if _current(entry)]


def _entries(memory: MemoryView, owner: str, space: str) -> dict[str, Entry]:
    chosen = EntrySelection(kinds=[EntryKind.LESSON], spaces=[space])
    return {entry.id: entry for entry in memory.entries([owner], chosen)}


def _touched(memory: MemoryView, owner: str, space: str, call: str) -> dict[str, Entry]:
    every = _entries(memory, owner, space)
    made = {key for key, entry in every.items() if entry.source.call_id == call}
    return {
        key: entry
        for key, entry in every.items()
        if key in made or entry.successor in made or call in entry.data.get("evidence", ())
    }


def _put_back(memory: MemoryChange, before: Entry, now: Entry, call: str) -> None:
    """Restore an entry, but keep what was counted and learned since."""
    was, current = dict(before.data), now.data
    data = {**was, **{key: current[key] for key in ("shown", "followed", "helped") if key in current}}
    learned_since = int(current["count"]) - int(was["count"]) - (call in current["evidence"])
    if learned_since:
        evidence = [each for each in current["evidence"] if each != call]
        data |= {"count": int(was["count"]) + learned_since, "evidence": evidence, "updated": current["updated"]}
    if (now.holds_to, now.successor) == (before.holds_to, before.successor):
        memory.set_data(before, data)
    else:
        memory.put(replace(before, data=data))


def _current(entry: Entry) -> bool:
    return entry.kind is EntryKind.LESSON and entry.holds_to is None


def _inserted(memory: MemoryChange, owner: str, space: str, lesson: Lesson, source: EntrySource) -> Lesson:
    entry = memory.insert(
        NewEntry(owner, space, EntryKind.LESSON, lesson.what.text, source, title=lesson.what.where, data=lesson.data())
    )
    return replace(lesson, id=entry.id, learned=entry.learned)


def _write(memory: MemoryChange, owner: str, lesson: Lesson) -> None:
    entry = memory.one([owner], lesson.id)
    if entry is not None:
        memory.set_data(entry, lesson.data())


def _remove(memory: MemoryChange, owner: str, lesson_id: str) -> None:
    memory.remove(memory.get([owner], [lesson_id]).values())


def _make_room(memory: MemoryChange, owner: str, space: str) -> None:
    every = _lessons(memory, owner, space)
    for each in sorted(every, key=lambda one: (one.worth, one.updated))[: max(0, len(every) - MOST_LESSONS)]:
        _remove(memory, owner, each.id)


def _alike(one: str, other: str) -> float:
    """Return the share of the terms of two texts that occur in both (Jaccard index); 1 if neither has any."""
    splitter = Terms()
    left, right = frozenset(splitter.of(one)), frozenset(splitter.of(other))
    both = left | right
    return len(left & right) / len(both) if both else 1.0
