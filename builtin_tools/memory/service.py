"""`MemoryService`: the memory operations for tools and commands. Its methods are coroutines and do not block the event
loop.
"""

import asyncio
import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from zoneinfo import ZoneInfo

from builtin_tools.memory.contradictions import AddedFact, add_fact
from builtin_tools.memory.entries import Entry, EntryKind, EntrySource, KnownDocument, NewEntry, SourceKind, Statement
from builtin_tools.memory.erasure import ErasedMemories, Erasure
from builtin_tools.memory.home_scan import Progress
from builtin_tools.memory.indexing import MemoryIndexes
from builtin_tools.memory.intake import DocumentIntake
from builtin_tools.memory.model_verdicts import MOST_ASKED, ModelVerdict, verdicts_of
from builtin_tools.memory.reading import read_fact
from builtin_tools.memory.recall import Recaller, RecallRequest, RecallResult
from builtin_tools.memory.reindexing import Reindexing
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.statement_words import NOUNS
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.view import EntrySelection
from engine.contract.context import Clock
from engine.contract.ports import LlmClient, MemoryEntry
from engine.contract.turn import Turn
from engine.dispatch.refusals import wrong_arguments
from engine.retrieval.passage import PassageFilter
from engine.times.time_expressions import resolve

MOST_CHARACTERS = 8_000  # maximum characters of one fact; longer texts are documents
MOST_PREVIEWED = 20  # maximum entries that one `forget` by query can delete
_SIMILAR = 0.6  # minimum cosine similarity at which a model is asked about two facts
_CODE = 8  # characters of a confirmation code


@dataclass(frozen=True, slots=True)
class ForgetPreview:
    """The entries and documents that a request to forget would delete.

    Attributes:
        code: A code for confirming the deletion of exactly these entries and documents.
    """

    entries: tuple[Entry, ...]
    documents: tuple[KnownDocument, ...]
    code: str


@dataclass(frozen=True, slots=True)
class FactToAdd:
    """A fact as a person or a model states it.

    Attributes:
        space: "" for the default space.
        subject, attribute, value: The statement of the fact, if known; otherwise rules extract it from the text.
        since, until: The period in which the fact is true, as time expressions or ISO 8601; "" to use what the text
            says.
        call_id: The id of the call that adds the fact; "" if a person adds it.
    """

    text: str
    space: str = ""
    subject: str = ""
    attribute: str = ""
    value: str = ""
    since: str = ""
    until: str = ""
    call_id: str = ""


class MemoryService:
    """Adds, finds and erases entries in the memory of a home."""

    def __init__(
        self,
        store: MemoryStore,
        indexes: MemoryIndexes,
        erasure: Erasure,
        clock: Clock,
        zone_of: Callable[[str], ZoneInfo],
        *,
        documents: DocumentIntake | None = None,
    ) -> None:
        """Create the service.

        Args:
            zone_of: Returns the time zone of a user.
            documents: Reads documents; None if documents cannot be stored.
        """
        self.store = store
        self.indexes = indexes
        self.erasure = erasure
        self.reindexing = Reindexing(store, indexes)
        self.recaller = Recaller(store, indexes, clock, zone_of)
        self.documents = documents
        self._clock = clock
        self._zone_of = zone_of

    # Facts.

    async def add(self, turn: Turn, fact: FactToAdd, model: LlmClient | None = None) -> AddedFact:
        """Add a fact, and mark the facts that it contradicts as no longer true.

        Args:
            model: Compares facts that the rules cannot compare; None to use only the rules.

        Raises:
            ToolFailure: The fact is empty or too long, a time is not understood, or the agent may not use the space.
        """
        added = await asyncio.to_thread(self._add, turn, fact)
        if model is None or added.known or added.closed:
            return added
        return await self._ask(added, model)

    async def recall(self, turn: Turn, request: RecallRequest) -> RecallResult:
        """Search the memories that the turn may read.

        Raises:
            ToolFailure: A time expression is not understood (DIAGNOSTIC).
        """
        return await asyncio.to_thread(self.recaller.recall, MemoryScope.of(turn), request)

    async def entries(
        self,
        turn: Turn,
        kinds: Collection[EntryKind] | None = None,
        spaces: Sequence[str] | None = None,
        *,
        after: tuple[float, str] | None = None,
        limit: int = 50,
    ) -> list[Entry]:
        """Return a page of entries that the turn may read, newest first, including those that are no longer true."""

        def read() -> list[Entry]:
            with self.store.reading() as memory:
                owned = MemoryScope.of(turn).readable(memory, spaces)
                names = [space for each in owned.values() for space in each]
                return memory.entries(list(owned), EntrySelection(kinds, names), after=after, limit=limit)

        return await asyncio.to_thread(read)

    async def history(self, turn: Turn, entry_id: str) -> list[Entry]:
        """Return an entry, those it replaced and those that replaced it, oldest first; [] if the turn may not read
        it.
        """

        def read() -> list[Entry]:
            with self.store.reading() as memory:
                owned = MemoryScope.of(turn).readable(memory)
                entry = memory.one(list(owned), entry_id)
                if entry is None or entry.space not in owned[entry.owner]:
                    return []
                return [each for each in memory.history(entry) if each.space in owned[entry.owner]]

        return await asyncio.to_thread(read)

    async def list_documents(self, turn: Turn, spaces: Sequence[str] | None = None) -> list[KnownDocument]:
        """Return the documents that the turn may read, newest first."""

        def read() -> list[KnownDocument]:
            with self.store.reading() as memory:
                owned = MemoryScope.of(turn).readable(memory, spaces)
                return memory.documents(list(owned), [space for each in owned.values() for space in each])

        return await asyncio.to_thread(read)

    # Forgetting.

    async def preview(
        self,
        turn: Turn,
        *,
        query: str = "",
        ids: Sequence[str] = (),
        document: str = "",
        spaces: Sequence[str] | None = None,
    ) -> ForgetPreview:
        """Return what `forget` would delete.

        Args:
            query: Selects entries that contain this text or, if there are none, that fit it.
            ids: The ids of entries.
            document: The id, path or URL of a document.
            spaces: Restrict the selection to these spaces. If no other argument is given, everything in these spaces is
                selected. If `spaces` is also None, everything in the user's own spaces is selected.
        """
        return await asyncio.to_thread(self._preview, turn, query, ids, document, spaces)

    async def forget(self, preview: ForgetPreview, progress: Progress | None = None) -> ErasedMemories:
        """Erase the entries and documents of a preview.

        Raises:
            ToolFailure: Other processes used a file for too long (RETRYABLE).
        """
        return await asyncio.to_thread(self.erasure.erase, preview.entries, preview.documents, progress)

    async def forget_user(self, user: str, progress: Progress | None = None) -> ErasedMemories:
        """Erase everything in a user's own spaces."""
        return await asyncio.to_thread(self.erasure.erase_owner, MemoryScope(user, "").personal_owner, progress)

    def port(self, turn: Turn) -> "TurnMemory":
        """Return the memories that a turn may use, for `CallContext.memory_system`."""
        return TurnMemory(self, turn)

    async def aclose(self) -> None:
        """Close all files."""
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self.reindexing.close()
        self.indexes.close()
        self.store.close()

    def _add(self, turn: Turn, fact: FactToAdd) -> AddedFact:
        scope = MemoryScope.of(turn)
        space = fact.space or scope.default_space()
        owner = scope.owner(space)
        text = fact.text.strip()
        if not text or len(text) > MOST_CHARACTERS:
            raise wrong_arguments(
                f"A fact must have 1 to {MOST_CHARACTERS} characters, but this one has {len(text)}. Store longer texts "
                "as documents, or split them into statements."
            )
        now, zone = self._clock.now(), self._zone_of(turn.user)
        read = read_fact(text, now, zone)
        statement = read.statement
        if fact.subject and fact.attribute and fact.value:
            subject = " ".join(fact.subject.lower().split())
            attribute = " ".join(fact.attribute.lower().split())
            statement = Statement(subject, NOUNS.get(attribute, attribute), fact.value)
            if read.statement is not None and read.statement.attribute == statement.attribute:
                statement = replace(statement, negated=read.statement.negated, multiple=read.statement.multiple)
        since, until = self._moment(fact.since, now, zone, end=False), self._moment(fact.until, now, zone, end=True)
        source = EntrySource(SourceKind.TOOL if fact.call_id else SourceKind.USER, turn.user, turn.agent, fact.call_id)
        new = NewEntry(
            owner,
            space,
            EntryKind.FACT,
            text,
            source,
            holds_from=read.holds_from if since is None else since,
            holds_to=read.holds_to if until is None else until,
            statement=statement,
            skeleton=read.skeleton,
            data=read.data,
        )
        with self.store.changing() as memory:
            return add_fact(memory, new, read.instead_of)

    def _moment(self, text: str, now: datetime, zone: ZoneInfo, *, end: bool) -> float | None:
        if not text:
            return None
        found = resolve(text, now, zone)
        moment = None if found is None else (found.end if end and found.start is None else found.start or found.end)
        if moment is None:
            raise wrong_arguments(
                f"The time {text[:100]!r} is not understood. Use ISO 8601, such as 2024-03-05, or an expression "
                "such as `March 2024` or `two weeks ago`."
            )
        return moment.timestamp()

    async def _ask(self, added: AddedFact, model: LlmClient) -> AddedFact:
        """Ask the model which older facts a new fact replaces, and mark those as no longer true.

        The older facts are those that form an open pair with the new fact or, if there are none, similar facts.
        """
        older = list(added.open) or await asyncio.to_thread(self._similar, added.entry)
        if not older:
            return added
        verdicts = await verdicts_of(model, added.entry, older[:MOST_ASKED])
        return await asyncio.to_thread(self._follow, added, older[:MOST_ASKED], verdicts)

    def _similar(self, entry: Entry) -> list[Entry]:
        now = self._clock.now().timestamp()
        where = PassageFilter([EntryKind.FACT.value], [entry.space], as_of=now)
        found = self.indexes.similar(entry.owner, entry.text, MOST_ASKED + 1, where)
        near = [each for each, similarity in found if similarity >= _SIMILAR and each != entry.id]
        with self.store.reading() as memory:
            entries = memory.get([entry.owner], near)
        return [entries[each] for each in near if each in entries]

    def _follow(self, added: AddedFact, older: Sequence[Entry], verdicts: Sequence[ModelVerdict]) -> AddedFact:
        closed: list[Entry] = []
        settled: set[str] = set()
        with self.store.changing() as memory:
            entry = memory.one([added.entry.owner], added.entry.id)
            for each, verdict in zip(older, verdicts, strict=True):
                known = memory.one([each.owner], each.id)
                if entry is None or known is None or verdict is ModelVerdict.UNSURE:
                    continue
                if verdict is ModelVerdict.REPLACES and known.holds_to is None and known.begins <= entry.begins:
                    memory.close(known, entry.begins, entry.id)
                    closed.append(known)
                memory.settle_pair(known.id, entry.id)
                settled.add(known.id)
        return replace(
            added,
            closed=(*added.closed, *closed),
            open=tuple(each for each in added.open if each.id not in settled),
        )

    def _preview(
        self, turn: Turn, query: str, ids: Sequence[str], document: str, spaces: Sequence[str] | None
    ) -> ForgetPreview:
        scope = MemoryScope.of(turn)
        entries: dict[str, Entry] = {}
        documents: list[KnownDocument] = []
        fitting: list[str] = []
        if query:
            request = RecallRequest(query, spaces=spaces, history=True, limit=MOST_PREVIEWED)
            hits = self.recaller.recall(scope, request).hits
            fitting = [hit.entry.id for hit in hits if hit.entry.kind is not EntryKind.PASSAGE]
        with self.store.reading() as memory:
            owned = scope.readable(memory, spaces)
            owners = list(owned)
            if query:
                containing = memory.containing(owners, query, MOST_PREVIEWED)
                entries = {each.id: each for each in containing} or memory.get(owners, fitting)
            elif ids:
                entries = memory.get(owners, ids)
            elif document:
                documents = [each for each in memory.documents(owners) if document in (each.id, each.uri)]
            else:
                mine = [scope.personal_owner] if spaces is None else owners
                entries = {each.id: each for each in memory.entries([owner for owner in mine if owner in owned])}
                documents = memory.documents([owner for owner in mine if owner in owned])
        chosen = tuple(each for each in entries.values() if each.space in owned[each.owner])
        texts = tuple(each for each in documents if each.space in owned[each.owner])
        return ForgetPreview(chosen, texts, _code([*(each.id for each in chosen), *(each.id for each in texts)]))


@dataclass(frozen=True, slots=True)
class TurnMemory:
    """The memories that one turn may use. Implements the port `MemorySystem`."""

    service: MemoryService
    turn: Turn

    async def recall(self, query: str, limit: int = 8) -> list[MemoryEntry]:
        """Return the memories that fit the query, best first."""
        found = await self.service.recall(self.turn, RecallRequest(query, limit=limit))
        return [MemoryEntry(hit.entry.id, hit.entry.text, hit.entry.space, hit.fit) for hit in found.hits]

    async def remember(self, text: str, space: str) -> str:
        """Store a fact and return its id.

        Raises:
            ToolFailure: The text or the space is invalid, or the agent may not use the space.
        """
        added = await self.service.add(self.turn, FactToAdd(text, space))
        return added.entry.id

    async def forget(self, memory_id: str, space: str) -> bool:
        """Erase an entry of a space. Return False if the space has no entry with this id."""
        preview = await self.service.preview(self.turn, ids=[memory_id], spaces=[space])
        if not preview.entries:
            return False
        await self.service.forget(preview)
        return True


def _code(ids: Collection[str]) -> str:
    return hashlib.sha256(" ".join(sorted(ids)).encode()).hexdigest()[:_CODE]
