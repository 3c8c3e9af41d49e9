"""Adds a fact and, by rules, closes the facts that it contradicts: they are marked as no longer true, not deleted.

Two statements about the same subject and attribute contradict each other if their values differ and the attribute has
one value, or if one denies the other's value. The facts about an attribute form a timeline: each is true from its
beginning until the next one begins, in whatever order they are learned. If two texts differ only in their numbers but
no rule understands them, they are recorded as an open pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from builtin_tools.memory.changes import MemoryChange
from builtin_tools.memory.entries import Entry, NewEntry, Statement
from builtin_tools.memory.statement_words import differences, same_value, value_words
from builtin_tools.memory.statements import SOME_ATTRIBUTE

REPEATS = "repeats"  # key in the data of an entry: how often the fact was repeated
_FEWEST_WORDS = 3  # words besides numbers that two texts must share to be compared


@dataclass(frozen=True, slots=True)
class AddedFact:
    """The result of adding a fact.

    Attributes:
        entry: The stored fact.
        known: Whether the same text was already stored and is still true, so that nothing was added.
        closed: Facts that the new one replaced.
        open: Facts that the new one may contradict.
    """

    entry: Entry
    known: bool = False
    closed: tuple[Entry, ...] = ()
    open: tuple[Entry, ...] = ()


def add_fact(memory: MemoryChange, new: NewEntry, instead_of: str = "") -> AddedFact:
    """Add a fact in a transaction.

    Args:
        memory: The open transaction.
        new: The fact. If its beginning is unknown, it is true from when it was learned.
        instead_of: The old value that the text mentions, such as "Paris" in "moved from Paris to Rome".
    """
    learned = memory.now if new.learned is None else new.learned
    ended_before = new.holds_from is None and new.holds_to is not None and new.holds_to <= learned
    if new.holds_from is None and not ended_before:
        new = replace(new, holds_from=learned)
    alike = [each for each in memory.alike(new.owner, new.space, new.skeleton) if each.kind is new.kind]
    again = _repeated(alike, new, learned)
    if again is not None:
        data = {**again.data, REPEATS: int(again.data.get(REPEATS, 0)) + 1}
        memory.set_data(again, data)
        return AddedFact(replace(again, data=data), known=True)
    new = _with_attribute(memory, new, instead_of)
    rivals = _rivals(memory, new)
    begins = new.holds_from
    if begins is None:
        return AddedFact(memory.insert(new))
    before = [each for each in rivals if each.begins <= begins and each.holds_at(begins)]
    opened = [each for each in before if new.holds_to is not None and _outlasts(each, new.holds_to)]
    closed = [each for each in before if each not in opened]
    following = min((each for each in rivals if each.begins > begins), key=lambda each: each.begins, default=None)
    if following is not None and (new.holds_to is None or following.begins < new.holds_to):
        entry = memory.insert(replace(new, holds_to=following.begins))
        memory.close(entry, following.begins, following.id)
        entry = replace(entry, holds_to=following.begins, successor=following.id)
    else:
        entry = memory.insert(new)
    for each in closed:
        memory.close(each, begins, entry.id)
    if not rivals:
        closed += _close_denied(memory, entry, alike, begins)
    opened += [each for each in alike if each not in closed and _differs_in_numbers(each, entry, begins)]
    for each in opened:
        memory.open_pair(each, entry, "they differ in numbers" if each in alike else "their times overlap")
    return AddedFact(entry, closed=tuple(closed), open=tuple(opened))


def contradicts(one: Statement, other: Statement) -> bool:
    """Return whether two statements about the same subject and attribute cannot be true at the same time."""
    same = same_value(one.value, other.value)
    if one.negated or other.negated:
        return same and one.negated != other.negated
    return not same and not (one.multiple or other.multiple)


def _with_attribute(memory: MemoryChange, new: NewEntry, instead_of: str) -> NewEntry:
    """Return the new fact with the attribute of the known fact whose value is `instead_of`."""
    said = new.statement
    if said is None:
        return new
    if instead_of:
        for each in reversed(memory.about(new.owner, new.space, said.subject)):
            earlier = each.statement
            if earlier is not None and not earlier.negated and _mentions(earlier.value, instead_of):
                taken = replace(said, attribute=earlier.attribute, multiple=False)
                return replace(new, statement=taken)
    return replace(new, statement=None) if said.attribute == SOME_ATTRIBUTE else new


def _mentions(value: str, other: str) -> bool:
    return same_value(value, other) or set(value_words(other)) <= set(value_words(value))


def _rivals(memory: MemoryChange, new: NewEntry) -> list[Entry]:
    """Return the known facts that cannot be true at the same time as the new one, oldest first."""
    said = new.statement
    if said is None:
        return []
    known = memory.about(new.owner, new.space, said.subject, said.attribute)
    return [
        each
        for each in known
        if each.kind is new.kind and each.statement is not None and contradicts(each.statement, said)
    ]


def _repeated(alike: Sequence[Entry], new: NewEntry, learned: float) -> Entry | None:
    """Return the entry with the text of the new fact that is still true; None if the new fact states another time."""
    text = " ".join(new.text.lower().split()).strip(" .!")
    for each in alike:
        same = " ".join(each.text.lower().split()).strip(" .!") == text
        if same and each.holds_to is None and (new.holds_from in (learned, each.holds_from)) and new.holds_to is None:
            return each
    return None


def _outlasts(entry: Entry, end: float) -> bool:
    return entry.holds_to is None or entry.holds_to > end


def _close_denied(memory: MemoryChange, entry: Entry, alike: Sequence[Entry], begins: float) -> list[Entry]:
    """Close the facts that the new one denies, which are those whose text differs from its text only by a negation."""
    found = [
        each
        for each in alike
        if each.begins <= begins and each.holds_at(begins) and differences(each.text, entry.text) == "negation"
    ]
    for each in found:
        memory.close(each, begins, entry.id)
    return found


def _differs_in_numbers(one: Entry, other: Entry, time: float) -> bool:
    if len(other.skeleton.split()) < _FEWEST_WORDS or not one.holds_at(time):
        return False
    return differences(one.text, other.text) == "numbers" and not (
        one.statement is not None and one.statement == other.statement
    )
