"""`Entry`: one thing that is remembered, with its source and the period in which it is true.

All times are in seconds since the epoch. An entry's text never changes: a new statement becomes a new entry that
replaces the old one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from engine.retrieval.passage import Passage


class EntryKind(StrEnum):
    """The kind of an entry.

    Attributes:
        FACT: A statement that somebody made.
        PASSAGE: A part of a document.
        LESSON: A mistake and its fix.
        PROFILE: An item of the user's profile, whose attribute is its key.
    """

    FACT = "fact"
    PASSAGE = "passage"
    LESSON = "lesson"
    PROFILE = "profile"


class SourceKind(StrEnum):
    """The kind of source of an entry.

    Attributes:
        USER: A person entered it.
        TOOL: A tool call stored it.
        DOCUMENT: It is a range of characters of a document.
        CONSOLIDATION: It was derived from other entries.
    """

    USER = "user"
    TOOL = "tool"
    DOCUMENT = "document"
    CONSOLIDATION = "consolidation"


@dataclass(frozen=True, slots=True)
class EntrySource:
    """The provenance of an entry.

    Attributes:
        user, agent: The user for whom the entry was stored, and the agent that stored it.
        call_id: The id of the call that stored the entry; "" if it was not stored by a call.
        page: The page of the document, from 1; None if the document has no pages.
        start, end: The range of characters in the document's extracted text; `end` is excluded.
        of: Ids of the entries from which the entry was derived.
    """

    kind: SourceKind
    user: str = ""
    agent: str = ""
    call_id: str = ""
    page: int | None = None
    start: int | None = None
    end: int | None = None
    of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """The subject, attribute and value of a fact, for comparing statements about the same thing.

    Attributes:
        subject: What the fact is about, in lower case; ``"user"`` for the user who speaks.
        attribute: The property, in lower case, such as ``"home"``.
        value: The value of the attribute, as it was written.
        negated: Whether the fact denies this value.
        multiple: Whether the attribute can have several values at once. If so, a new value does not replace the old
            ones.
    """

    subject: str
    attribute: str
    value: str
    negated: bool = False
    multiple: bool = False


@dataclass(frozen=True, slots=True)
class NewEntry:
    """An entry to be stored.

    Attributes:
        owner: ``user:<name>`` or a shared space (`builtin_tools.memory.scope`).
        title: The context of the text, such as the headings above a passage. Searches include it.
        document: The id of the document that a passage is part of; "" for other kinds of entries.
        position: The index of a passage in its document, from 0.
        learned: When the entry was learned; None for now.
        holds_from, holds_to: The period in which the entry is true; None for an open end. `holds_to` is excluded.
        skeleton: A key that is equal for texts that differ only in numbers or negation; "" for none.
        data: JSON values for this kind of entry, such as the counts of a lesson.
    """

    owner: str
    space: str
    kind: EntryKind
    text: str
    source: EntrySource
    title: str = ""
    document: str = ""
    position: int = 0
    learned: float | None = None
    holds_from: float | None = None
    holds_to: float | None = None
    statement: Statement | None = None
    skeleton: str = ""
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Entry:
    """A stored entry. See `NewEntry` for the other attributes.

    Attributes:
        successor: The id of the entry that replaced this one; "" if there is none.
        generation: The number of the last change to this entry. Later changes to the store have higher numbers.
    """

    id: str
    owner: str
    space: str
    kind: EntryKind
    text: str
    source: EntrySource
    title: str
    document: str
    position: int
    learned: float
    holds_from: float | None
    holds_to: float | None
    successor: str
    statement: Statement | None
    skeleton: str
    data: Mapping[str, Any]
    generation: int

    @property
    def begins(self) -> float:
        """When the entry becomes true. If that is unknown, when it was learned."""
        return self.learned if self.holds_from is None else self.holds_from

    def holds_at(self, time: float) -> bool:
        """Return whether the entry is true at a time."""
        after = self.holds_from is None or self.holds_from <= time
        return after and (self.holds_to is None or time < self.holds_to)

    def passage(self) -> Passage:
        """Return the entry in the form that the search index takes."""
        return Passage(
            id=self.id,
            text=self.text,
            title=self.title,
            group=self.document,
            position=self.position,
            kind=self.kind.value,
            space=self.space,
            time=self.learned,
            valid_from=self.holds_from,
            valid_to=self.holds_to,
        )


@dataclass(frozen=True, slots=True)
class KnownDocument:
    """A document whose passages are stored as entries.

    Attributes:
        uri: The path in the workspace or the URL from which the document was read.
        digest: SHA-256 of the document's bytes, in hexadecimal digits.
        media_type: The format that was detected, such as ``"application/pdf"``.
        text: The extracted text. The offsets of passages refer to it.
        learned: When this version of the document was stored.
        data: JSON values, such as the number of pages.
    """

    id: str
    owner: str
    space: str
    uri: str
    title: str
    digest: str
    media_type: str
    text: str
    learned: float
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OpenPair:
    """Two facts that may contradict each other.

    Attributes:
        older, newer: The ids of the two facts.
        why: Why they may contradict each other, in words for people.
    """

    older: str
    newer: str
    why: str
