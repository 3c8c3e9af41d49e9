"""Finds the steps of consolidation plans by rules, and the cases that a model may decide (MEM-9)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from builtin_tools.memory.contradictions import REPEATS
from builtin_tools.memory.dream.plan import DreamStep, StepKind
from builtin_tools.memory.entries import Entry, EntryKind
from builtin_tools.memory.lessons.lesson import Lesson
from builtin_tools.memory.lessons.lesson_book import LESSONS, LessonBook
from builtin_tools.memory.profile import ProfileError, ProfileItem, checked_key
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import EntrySelection

if TYPE_CHECKING:
    from builtin_tools.memory.dream.near_duplicates import NearDuplicates

SAID_OFTEN = 3  # a fact about the user that was said this often belongs in the profile
_CANDIDATES = 12  # number of similar facts with which each fact is compared
_NEAR = 0.7  # minimum cosine of two facts to be compared

# Called with an owner, a space, a text and a limit. Returns the ids of similar facts with their cosines.
Neighbours = Callable[[str, str, str, int], Sequence[tuple[str, float]]]


@dataclass(slots=True)
class DreamFindings:
    """The findings of the rules for one owner.

    Attributes:
        pairs: Open pairs that a model may decide, each with the older fact first.
        drafts: Drafts of lessons that a model may complete with a fix.
        complete: False if time ran out before all facts were compared.
    """

    steps: list[DreamStep] = field(default_factory=list)
    pairs: list[tuple[Entry, Entry]] = field(default_factory=list)
    drafts: list[Lesson] = field(default_factory=list)
    complete: bool = True


class DreamPlanner:
    """Finds the steps of consolidation plans by rules. Every method blocks."""

    def __init__(
        self, store: MemoryStore, book: LessonBook, compare: "Callable[[], NearDuplicates]", neighbours: Neighbours
    ) -> None:
        self._store = store
        self._book = book
        self._compare = compare
        self._neighbours = neighbours

    def findings(
        self, owner: str, spaces: Collection[str], profile: Iterable[ProfileItem], out_of_time: Callable[[], bool]
    ) -> DreamFindings:
        """Examine the current facts, the open pairs and the drafts of lessons of an owner.

        Args:
            owner: The owner of the memories.
            spaces: The spaces to examine.
            profile: The current items of the profile.
            out_of_time: Returns whether to stop.
        """
        found = DreamFindings()
        facts: list[Entry] = []
        for space in sorted(spaces):
            with self._store.reading() as memory:
                chosen = EntrySelection(kinds=[EntryKind.FACT], spaces=[space])
                current = [each for each in memory.entries([owner], chosen) if each.holds_to is None]
            facts += current
            found.steps += self._merges(owner, space, current, found, out_of_time)
        found.steps += _promotions(facts, {item.key: item.value for item in profile})
        with self._store.reading() as memory:
            pairs = memory.open_pairs([owner])
            entries = memory.get([owner], {key for pair in pairs for key in (pair.older, pair.newer)})
        merged = {key for step in found.steps for key in step.entries}
        for pair in pairs:
            both = [entries[key] for key in (pair.older, pair.newer) if key in entries and key not in merged]
            if len(both) == 2 and all(each.holds_to is None for each in both):  # noqa: PLR2004 -- a pair
                found.pairs.append((both[0], both[1]))
        if LESSONS in spaces:
            found.drafts = [each for each in self._book.all({owner: [LESSONS]}) if each.draft]
        return found

    def _merges(
        self, owner: str, space: str, facts: Sequence[Entry], found: DreamFindings, out_of_time: Callable[[], bool]
    ) -> list[DreamStep]:
        """Return a step for each group of facts that say the same thing.

        The fact that stays is one with a statement if possible, then the longest, then the one learned first.
        """
        compare = self._compare()
        by_id = {entry.id: entry for entry in facts}
        group_of: dict[str, list[str]] = {}
        for entry in sorted(facts, key=lambda each: (each.learned, each.id)):
            if out_of_time():
                found.complete = False
                break
            if entry.id in group_of:
                continue
            group = group_of[entry.id] = [entry.id]
            for other, cosine in self._neighbours(owner, space, entry.text, _CANDIDATES):
                new = other in by_id and other not in group_of and cosine >= _NEAR
                if new and all(compare.same(by_id[known], by_id[other]) for known in group):
                    group.append(other)
                    group_of[other] = group
        groups = {id(group): group for group in group_of.values() if len(group) > 1}
        return [_merge(group, by_id) for group in groups.values()]


def _merge(group: Sequence[str], by_id: Mapping[str, Entry]) -> DreamStep:
    keep = max(group, key=lambda key: (by_id[key].statement is not None, len(by_id[key].text), -by_id[key].learned))
    return DreamStep(StepKind.MERGE, tuple(key for key in group if key != keep), keep)


def _promotions(facts: Iterable[Entry], profile: Mapping[str, str]) -> list[DreamStep]:
    """Return a step for each fact about the user that was stated often and is not in the profile."""
    said: dict[tuple[str, str], list[Entry]] = {}
    for entry in facts:
        what = entry.statement
        if what is not None and what.subject == "user" and not what.negated and not what.multiple:
            said.setdefault((what.attribute, " ".join(what.value.lower().split())), []).append(entry)
    steps = []
    for (attribute, value), entries in sorted(said.items()):
        times = sum(1 + int(entry.data.get(REPEATS, 0)) for entry in entries)
        try:
            key = checked_key(attribute)
        except ProfileError:
            continue
        if times >= SAID_OFTEN and " ".join(profile.get(key, "").lower().split()) != value:
            newest = max(entries, key=lambda entry: (entry.begins, entry.id))
            steps.append(DreamStep(StepKind.PROFILE, keep=newest.id, data={"key": key, "times": times}))
    return steps
