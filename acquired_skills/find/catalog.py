"""`Catalog`: finds skills by name and by search. The rows of skills in the records are read on demand."""

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cachetools import LRUCache

from acquired_skills.find.indexing import Progress, SkillIndexing
from acquired_skills.model.skill import Skill
from acquired_skills.store.ledger import Ledger, Row
from acquired_skills.store.past_requests import PastRequests
from engine.contract.failure import ConfigError
from engine.retrieval.fit import FitEvidence
from engine.retrieval.naming import folded, names_in
from engine.retrieval.ranked import LearnedShares, Ranked, Weigh
from engine.stores.locks import StoreBusy

if TYPE_CHECKING:
    from engine.retrieval.mirror import VectorMirror
    from engine.retrieval.reranking import SentenceReranker
    from engine.retrieval.stored_index import StoredIndex

AT_ONCE = 200  # maximum number of changes that a search indexes itself; more are indexed in the background
MIRROR_AFTER_S = 5.0  # seconds from a search to the update of the vector store; short commands end earlier
_ROWS_KEPT = 2_000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SkillHit:
    """A skill that a search found, ranked by `score`. The other fields are those of `Ranked`."""

    skill: Skill
    score: float
    similarity: float = 0.0
    covered: float = 0.0
    fit: float = 0.0
    named: bool = False
    weight: float = 1.0
    evidence: FitEvidence | None = None
    learned: float = 0.0


class SkillsByName(Mapping[str, Skill]):
    """A mapping of all skills by name. Each skill is read from its row in the records on access."""

    def __init__(self, catalog: "Catalog", ledger: Ledger) -> None:
        self._catalog = catalog
        self._ledger = ledger

    def __getitem__(self, name: str) -> Skill:
        row = self._catalog.row(name)
        if row is None or row.skill is None:
            raise KeyError(name)
        return row.skill

    def __iter__(self) -> Iterator[str]:
        return iter(self._ledger.names())

    def __len__(self) -> int:
        return self._ledger.count()


class Catalog:
    """All skills by name, with an index of the listed ones (active or on probation). Call `aclose` once at the end."""

    def __init__(
        self,
        ledger: Ledger,
        open_index: "Callable[[], StoredIndex]",
        past: PastRequests | None = None,
        *,
        use_past: bool = True,
        mirror: "Callable[[StoredIndex], VectorMirror] | None" = None,
        reranker: "Callable[[], SentenceReranker | None]" = lambda: None,
    ) -> None:
        """Create a catalog from its parts.

        Args:
            open_index: Opens the index. It is called in a thread at the first search.
            past: The requests for which skills were called.
            use_past: Whether searches also match these requests.
            mirror: Creates the copy of the index's vectors in a vector store; None for no copy.
            reranker: Creates the model that reorders the best results. It is called in a thread at the first search.
        """
        self._ledger = ledger
        self._open_index = open_index
        self._open_mirror = mirror
        self._open_reranker = reranker
        self._reranker: SentenceReranker | None = None
        self._past = past
        self._use_past = use_past
        self._indexing: SkillIndexing | None = None
        self._mirror: VectorMirror | None = None
        self._opening = threading.Lock()
        self._rows: LRUCache[str, Row | None] = LRUCache(_ROWS_KEPT)
        self._rows_lock = threading.Lock()
        self._rows_of = -1
        self._listed_lock = threading.Lock()
        self._listed: tuple[int, tuple[Skill, ...]] = (-1, ())
        self._filling: asyncio.Task[None] | None = None
        self._mirroring: asyncio.Task[None] | None = None
        self._training: asyncio.Task[None] | None = None
        self._training_due = False
        self.skills: Mapping[str, Skill] = SkillsByName(self, ledger)
        self.gap = ""
        self.ranking = ""  # which version of the learned ranking the last search used, and why

    def row(self, name: str) -> Row | None:
        """Return the row of a skill; None if it does not exist.

        This blocks, but usually reads at most one row.
        """
        return self.rows([name]).get(name)

    def rows(self, names: Collection[str]) -> dict[str, Row]:
        """Return the rows of the skills with these names; names of missing skills are ignored."""
        generation = self._ledger.generation()
        with self._rows_lock:
            if generation != self._rows_of:
                self._rows.clear()
                self._rows_of = generation
            known = {name: self._rows[name] for name in names if name in self._rows}
        missing = [name for name in names if name not in known]
        if missing:
            found = self._ledger.find(missing)
            known |= {name: found.get(name) for name in missing}
            with self._rows_lock:
                if generation == self._rows_of:
                    self._rows.update({name: known[name] for name in missing})
        return {name: row for name, row in known.items() if row is not None}

    def listed(self) -> tuple[Skill, ...]:
        """Return all skills that are active or on probation, sorted by name.

        While nothing changes, this is the same tuple object.
        """
        with self._listed_lock:
            generation, (at, listed) = self._ledger.generation(), self._listed
            if generation != at:
                after = at if at <= generation else -1  # a lower generation means that the database was replaced
                by_name = {skill.name: skill for skill in listed} if after >= 0 else {}
                for row in self._ledger.rows(max(after, 0)):
                    if row.skill is None or not row.skill.state.listed:
                        by_name.pop(row.name, None)
                    elif row.skill != by_name.get(row.name):
                        by_name[row.name] = row.skill
                found = tuple(by_name[name] for name in sorted(by_name))
                self._listed = (generation, listed if found == listed else found)
            return self._listed[1]

    async def search(self, query: str, k: int, weigh: Weigh | None = None, fits: float = 0.0) -> list[SkillHit]:
        """Return the listed skills (active or on probation) nearest to the query, best first.

        A search cannot find skills that are not indexed yet. If there are any, `gap` says so.

        Args:
            k: The maximum number of skills.
            weigh: Returns the factors by which the scores of the candidates are multiplied. It is called in a thread.
            fits: The minimum `fit` of a skill in the result.
        """
        found = await asyncio.to_thread(self._search, query, k, weigh, fits)
        if self.gap and (self._filling is None or self._filling.done()):
            self._filling = asyncio.create_task(self._fill())
        if self._training_due and (self._training is None or self._training.done()):
            self._training = asyncio.create_task(self._train())
        if self._open_mirror is not None and (self._mirroring is None or self._mirroring.done()):
            self._mirroring = asyncio.create_task(self._mirror_later())
        return found

    async def learned_shares(self, query: str, names: Collection[str]) -> dict[str, LearnedShares]:
        """Return how the words and the meaning of a query contribute to the learned scores of these skills.

        The result is empty if no ranking model is trained.
        """
        return await asyncio.to_thread(lambda: self._opened().index.learned_shares(query, names))

    async def rebuild_index(self, progress: Progress | None = None) -> int:
        """Rebuild the index and the vectors of all listed skills, and return the number of these skills."""
        await asyncio.to_thread(self._rebuild, progress)
        return await asyncio.to_thread(lambda: self._ledger.count(listed=True))

    def mirror(self) -> None:
        """Bring the vector store up to date with the index. This blocks."""
        indexing = self._opened()
        indexing.catch_up()
        if self._mirror is not None:
            self._mirror.sync()

    async def aclose(self) -> None:
        """Stop background work and close the index."""
        if self._training is not None:
            await asyncio.wait([self._training])  # not cancelled: its thread may be writing
        for task in (self._mirroring, self._filling):
            if task is not None:
                task.cancel()
        if self._mirror is not None:
            self._mirror.stop()
        if self._indexing is not None:
            self._indexing.stop()
            await asyncio.to_thread(self._indexing.index.close)
        if self._reranker is not None:
            await asyncio.to_thread(self._reranker.close)

    def _search(self, query: str, k: int, weigh: Weigh | None, fits: float) -> list[SkillHit]:
        indexing = self._opened()
        factors: dict[str, float] = {}

        def kept(names: Sequence[str]) -> Mapping[str, float]:
            factors.update(weigh(names) if weigh is not None else {})
            return factors

        depth = max(k, self._reranker.depth) if self._reranker is not None else k
        ranked = self._ranked(indexing, query, depth, kept)
        rows = self.rows([one.id for one in ranked])
        if self._reranker is not None:
            documents = indexing.documents({name: row.skill for name, row in rows.items()})
            texts = {name: each.sentences for name, each in documents.items() if each is not None}
            ranked = self._reranker.rerank(query, ranked, texts, factors)[:k]
        return [
            SkillHit(
                skill,
                one.score,
                one.similarity,
                one.covered,
                one.fit,
                one.named,
                factors.get(one.id, 1.0),
                one.evidence,
                one.learned,
            )
            for one in ranked
            if one.id in rows and (skill := rows[one.id].skill) is not None and skill.state.listed and one.fit >= fits
        ]

    def _ranked(self, indexing: SkillIndexing, query: str, k: int, weigh: Weigh) -> list[Ranked]:
        try:
            self._update(indexing)
            found = indexing.index.search(query, k, weigh)
            self._training_due = not self.gap and indexing.index.training_due()
            self.ranking = indexing.index.ranking_note()
        except ConfigError as error:
            log.warning("%s", error)
        else:
            return found
        try:
            self._update(indexing)  # a damaged index was replaced by a new one
            return indexing.index.search(query, k, weigh)
        except ConfigError as error:
            self.gap = f"skills cannot be searched now, but they can be called by name: {error}"
            return self._named(query, k)

    def _named(self, query: str, k: int) -> list[Ranked]:
        """Return the skills whose names the query contains."""
        rows = self.rows({folded(name) for name in names_in(query)})
        return [Ranked(name, 1.0, fit=1.0, named=True) for name in sorted(rows)][:k]

    def _update(self, indexing: SkillIndexing) -> None:
        missing = 0
        if not indexing.current():
            missing = indexing.missing()
            if missing <= AT_ONCE:
                missing = 0 if indexing.catch_up(AT_ONCE) else indexing.missing()
        counted = "1 skill is" if missing == 1 else f"{missing} skills are"
        self.gap = f"{counted} not in the index yet, but can be called by name" if missing else ""

    async def _fill(self) -> None:
        indexing = self._opened()
        try:
            await asyncio.to_thread(indexing.catch_up)
        except (ConfigError, StoreBusy) as error:
            log.warning("The index of the skills could not be brought up to date: %s", error)

    async def _train(self) -> None:
        try:
            await asyncio.to_thread(self._opened().index.train)
        except (ConfigError, StoreBusy) as error:
            log.warning("The ranking of the skills could not be trained: %s", error)

    async def _mirror_later(self) -> None:
        await asyncio.sleep(MIRROR_AFTER_S)
        if self._mirror is not None:
            self._mirror.sync_in_background()

    def _rebuild(self, progress: Progress | None) -> None:
        indexing = self._opened()
        indexing.index.clear()
        while not indexing.catch_up(progress=progress):
            if indexing.missing():
                raise StoreBusy("Another process is building the index of the skills. Try again when it has finished.")
        if self._mirror is not None:
            self._mirror.rebuild()

    def _opened(self) -> SkillIndexing:
        with self._opening:
            if self._indexing is None:
                index = self._open_index()
                self._reranker = self._open_reranker()
                self._indexing = SkillIndexing(index, self._ledger, self._past, use_past=self._use_past)
                self._mirror = self._open_mirror(index) if self._open_mirror is not None else None
            return self._indexing
