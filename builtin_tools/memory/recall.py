"""`Recaller`: searches all memories that a turn may read, and reports if nothing fits.

Each hit has its source, the period in which it is true, the facts that it may contradict, and, for documents, the
passages around it. Facts that are no longer true are omitted unless the request is about the past.
"""

import heapq
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from builtin_tools.memory.entries import Entry, EntryKind, OpenPair
from builtin_tools.memory.indexing import MemoryIndexes
from builtin_tools.memory.reading import TIMES
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.statement_words import skeleton_words, words
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import EntrySelection
from engine.contract.context import Clock
from engine.dispatch.refusals import wrong_arguments
from engine.retrieval.passage import FoundPassage, PassageFilter
from engine.times.time_expressions import TimeRange, find_ranges, resolve

FITS = 0.05  # minimum probability that an entry answers the request
# In a small memory all words are frequent, which makes the probabilities too low. There, an entry also fits if it
# shares a word with the request or is similar to it.
_SMALL = 1_000
MOST_RESULTS = 50
_MENTIONING = 200  # number of results that are checked for mentioning the requested time
_ABOUT_TIME = frozenset(
    words(
        "a about all an and any anything did do does everything for from happen happened happening have i is it know "
        "learn learned me my new note noted of on our remember remembered said say show something talk talked tell "
        "that the there thing things told was we were what when which who you"
    )
)

Owned = Mapping[str, tuple[str, ...]]  # owner -> spaces


@dataclass(frozen=True, slots=True)
class RecallRequest:
    """A request to search the memory.

    Attributes:
        text: The query; "" for the newest entries.
        kinds: Only entries of these kinds; None for all.
        spaces: Names or globs of spaces; None for all that the turn may read.
        document: Only passages of the document with this id; None for all entries.
        when: Only entries that were learned at this time or mention it. A time expression or ISO 8601; "" for any time.
        as_of: Only facts that were true at this time. A time expression or ISO 8601; "" for now, or for any time if
            `when` is given.
        history: Also return facts that are no longer true.
        limit: The maximum number of hits.
        around: How many passages before and after a passage of a document to return.
    """

    text: str
    kinds: Collection[EntryKind] | None = None
    spaces: Sequence[str] | None = None
    document: str | None = None
    when: str = ""
    as_of: str = ""
    history: bool = False
    limit: int = 8
    around: int = 0


@dataclass(frozen=True, slots=True)
class RecallHit:
    """An entry that a search found.

    Attributes:
        score: Ranks the hits of one request, higher is better; 0 if the newest entries were requested.
        fit: The probability that the entry answers the request; 1 if the newest entries were requested.
        holds: Whether the entry is true at the time that was asked for.
        document: The title and the path or URL of a passage's document; "" for other entries.
        contradicts: Entries that the hit may contradict.
        around: The passages before and after a passage, in order.
    """

    entry: Entry
    score: float
    fit: float
    holds: bool
    document: str = ""
    contradicts: tuple[Entry, ...] = ()
    around: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class RecallResult:
    """The result of a request.

    Attributes:
        hits: The entries that were found, best first.
        range: The time range to which the hits are limited; None for no limit.
        as_of: The time at which the hits are true; None for any time.
        note: A remark, such as that nothing fits; "" if there is none.
    """

    hits: tuple[RecallHit, ...]
    range: TimeRange | None = None
    as_of: datetime | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Search:
    """A request whose time expressions have been resolved.

    Attributes:
        text: The query without the time that it mentions.
    """

    request: RecallRequest
    text: str
    span: TimeRange | None
    as_of: datetime | None

    @property
    def limit(self) -> int:
        return max(1, min(self.request.limit, MOST_RESULTS))

    def bounds(self) -> tuple[float | None, float | None]:
        return (None, None) if self.span is None else (_seconds(self.span.start), _seconds(self.span.end))


class Recaller:
    """Answers requests from the store and the indexes. Every method blocks."""

    def __init__(
        self, store: MemoryStore, indexes: MemoryIndexes, clock: Clock, zone_of: Callable[[str], ZoneInfo]
    ) -> None:
        """Create a recaller.

        Args:
            zone_of: Returns the time zone of a user.
        """
        self._store = store
        self._indexes = indexes
        self._clock = clock
        self._zone_of = zone_of

    def recall(self, scope: MemoryScope, request: RecallRequest) -> RecallResult:
        """Search the memories that the scope may read.

        Raises:
            ToolFailure: A time expression is not understood (DIAGNOSTIC).
        """
        now, zone = self._clock.now(), self._zone_of(scope.user)
        with self._store.reading() as memory:
            owned = scope.readable(memory, request.spaces)
        if not owned:
            return RecallResult((), note="The memory is empty.")
        span = self._range(request.when, now, zone) if request.when else None
        implied, text = (None, request.text) if span is not None else _implied(request.text, now, zone)
        as_of = self._as_of(request, now, zone, timeless=(span or implied) is not None)
        note = ""
        found = self._found(owned, _Search(request, text, span or implied, as_of))
        if not found and implied is not None:
            as_of = self._as_of(request, now, zone, timeless=False)
            found = self._found(owned, _Search(request, request.text, None, as_of))
            note = f"Nothing is from {implied.text!r}. These results are from any time." if found else ""
            implied = None
        hits = self._hits(owned, found, as_of or now, request.around)
        if not hits:
            note = "Nothing in the memory fits."
        if text.strip():
            note = f"{note} {self._encoding_note(owned)}".strip()
        return RecallResult(tuple(hits), span or implied, as_of, note)

    def _encoding_note(self, owned: Owned) -> str:
        """Return a remark if the sentence encoder was not used because its vectors are not complete; "" otherwise."""
        state = self._indexes.encoding(owned.keys())
        if state is None:
            return ""
        return (
            "The memory is being re-indexed, so this search used words and not the sentence encoder "
            f"({state.encoded:,} of {state.passages:,} entries are ready)."
        )

    def _range(self, text: str, now: datetime, zone: ZoneInfo) -> TimeRange:
        found = resolve(text, now, zone)
        if found is None:
            raise wrong_arguments(
                f"The time {text[:100]!r} is not understood. Use an expression such as `yesterday morning`, `last "
                "week`, `since Monday`, `in March 2024`, or ISO 8601."
            )
        return found

    def _as_of(self, request: RecallRequest, now: datetime, zone: ZoneInfo, *, timeless: bool) -> datetime | None:
        if request.history:
            return None
        if not request.as_of:
            return None if timeless else now
        span = self._range(request.as_of, now, zone)
        exact = re.search(r"\dT\d|\d:\d", request.as_of) is not None
        if exact and span.start is not None:
            return span.start
        if span.contains(now) or span.end is None:
            return now
        return datetime.fromtimestamp(span.end.timestamp() - 1, UTC)  # the last second of the day, month or year

    def _found(self, owned: Owned, search: _Search) -> list[FoundPassage]:
        """Return the entries that fit the request, each by its id and its fit, best first."""
        if not search.text.strip():
            return self._listed(owned, search)
        every = [self._fitting(owner, search, self._search(owner, spaces, search)) for owner, spaces in owned.items()]
        merged = heapq.merge(*every, key=lambda one: -one.fit) if len(every) > 1 else every[0]
        return list(merged)[: search.limit]

    def _fitting(self, owner: str, search: _Search, found: list[FoundPassage]) -> list[FoundPassage]:
        """Return the results that fit the request."""
        others = [one.id for one in found if one.fit < FITS]
        if not others or self._indexes.size(owner) >= _SMALL:
            return [one for one in found if one.fit >= FITS]
        wanted = skeleton_words(search.text) - _ABOUT_TIME
        with self._store.reading() as memory:
            entries = memory.get([owner], others)
        fitting = self._indexes.alike(owner, search.text, len(found) + search.limit)
        fitting |= {each.id for each in entries.values() if wanted & skeleton_words(f"{each.title} {each.text}")}
        return [one for one in found if one.fit >= FITS or one.id in fitting]

    def _search(self, owner: str, spaces: tuple[str, ...], search: _Search) -> list[FoundPassage]:
        """Search the entries of one owner. A time range selects entries that were learned in it or mention it."""
        request, (since, until) = search.request, search.bounds()
        anywhen = PassageFilter(
            kinds=None if request.kinds is None else [kind.value for kind in request.kinds],
            spaces=spaces,
            groups=None if request.document is None else [request.document],
            as_of=_seconds(search.as_of),
        )
        if search.span is None:
            return self._indexes.search(owner, search.text, search.limit, anywhen)
        found = self._indexes.search(owner, search.text, search.limit, replace(anywhen, since=since, until=until))
        others = self._indexes.search(owner, search.text, _MENTIONING, anywhen)
        known = {one.id for one in found}
        with self._store.reading() as memory:
            entries = memory.get([owner], [one.id for one in others if one.id not in known])
        found += [one for one in others if one.id in entries and _mentions(entries[one.id], since, until)]
        return sorted(found, key=lambda one: -one.fit)

    def _listed(self, owned: Owned, search: _Search) -> list[FoundPassage]:
        """Return the newest entries."""
        request, (since, until) = search.request, search.bounds()
        names = [space for spaces in owned.values() for space in spaces]
        chosen = EntrySelection(request.kinds, names, request.document, _seconds(search.as_of), since, until)
        with self._store.reading() as memory:
            return [FoundPassage(each.id, 0.0, 1.0) for each in memory.entries(list(owned), chosen, limit=search.limit)]

    def _hits(self, owned: Owned, found: Sequence[FoundPassage], at: datetime, around: int) -> list[RecallHit]:
        """Return the hits for the entries that were found. Entries that have been removed meanwhile are omitted."""
        owners = list(owned)
        with self._store.reading() as memory:
            entries = memory.get(owners, [one.id for one in found])
            pairs = memory.open_pairs(owners, list(entries))
            rivals = memory.get(owners, {each for pair in pairs for each in (pair.older, pair.newer)})
            hits = []
            for one in found:
                entry = entries.get(one.id)
                if entry is None or entry.space not in owned.get(entry.owner, ()):
                    continue
                others = [rivals[each] for each in _partners(entry, pairs) if each in rivals]
                near: list[Entry] = []
                if around and entry.document:
                    near = memory.passages(entry.document, entry.position - around, entry.position + around)
                hits.append(
                    RecallHit(
                        entry,
                        one.score,
                        one.fit,
                        entry.holds_at(at.timestamp()),
                        (memory.document_place(entry.document) or "") if entry.document else "",
                        tuple(each for each in others if each.space in owned.get(each.owner, ())),
                        tuple(each for each in near if each.id != entry.id),
                    )
                )
            return hits


def _implied(text: str, now: datetime, zone: ZoneInfo) -> tuple[TimeRange | None, str]:
    """Return the time that a query mentions, and the rest of the query. The rest is "" if it names no topic."""
    spans = [each for each in find_ranges(text, now, zone) if each.text.lower() not in ("today", "now")]
    if not spans:
        return None, text
    rest = text.replace(spans[0].text, " ")
    words = set(re.findall(r"\w+", rest.lower()))
    return spans[0], "" if words <= _ABOUT_TIME else rest


def _partners(entry: Entry, pairs: Sequence[OpenPair]) -> list[str]:
    """Return the ids of the entries that form an open pair with this one."""
    both = [each for pair in pairs if entry.id in (pair.older, pair.newer) for each in (pair.older, pair.newer)]
    return [each for each in both if each != entry.id]


def _mentions(entry: Entry, since: float | None, until: float | None) -> bool:
    """Return whether the text of an entry mentions a time that overlaps the range."""
    for start, end in entry.data.get(TIMES, ()):
        if (end is None or since is None or end > since) and (start is None or until is None or start < until):
            return True
    return False


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
