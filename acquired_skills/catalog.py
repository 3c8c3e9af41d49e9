"""`Catalog`: the skills as this process knows them, in memory, brought up to date when another process changed them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from acquired_skills.life.ledger import Ledger
from acquired_skills.life.past_requests import PastRequests
from acquired_skills.skill import Skill
from engine.retrieval.document import Document, tool_document
from engine.retrieval.index import HybridIndex, Progress, Weigh


@dataclass(frozen=True, slots=True)
class Found:
    """A listed skill that a query brought up. score: its place is by this. The others: those of `Ranked`."""

    skill: Skill
    score: float
    similarity: float = 0.0
    covered: float = 0.0
    fit: float = 0.0
    named: bool = False
    weight: float = 1.0


class Catalog:
    """All skills by name, the listed ones in order, and an index over the listed ones only."""

    def __init__(
        self,
        ledger: Ledger,
        open_index: Callable[[], HybridIndex],
        past: PastRequests | None = None,
        *,
        use_past: bool = True,
    ) -> None:
        """open_index: called in a thread at the first search, since it takes a second. past: the requests that skills
        were called for; forgotten with them. use_past: whether skills are found by these.
        """
        self._ledger = ledger
        self._open_index = open_index
        self._past = past
        self._use_past = use_past
        self._index: HybridIndex | None = None
        self._seen = -1
        self._seen_requests = -1
        self._requests: dict[str, tuple[str, ...]] = {}
        self._lock = asyncio.Lock()
        self.skills: Mapping[str, Skill] = {}
        self.listed: tuple[Skill, ...] = ()

    async def refresh(self) -> None:
        """Take over what changed since the last time; microseconds when nothing did."""
        if self._changed():
            async with self._lock:
                await asyncio.to_thread(self._take_over)

    async def search(self, query: str, k: int, weigh: Weigh | None = None, fits: float = 0.0) -> list[Found]:
        """The k listed skills nearest to the query, best first, without those whose `fit` is below `fits`.

        weigh: asked in a thread for the factors of the candidates' scores.
        """
        factors: dict[str, float] = {}

        def kept(names: Sequence[str]) -> Mapping[str, float]:
            if weigh is not None:
                factors.update(weigh(names))
            return factors

        async with self._lock:
            if self._index is None:
                self._index = await asyncio.to_thread(self._load_index)
            ranked = await asyncio.to_thread(self._index.search, query, k, kept)
        return [
            Found(
                self.skills[one.id],
                one.score,
                one.similarity,
                one.covered,
                one.fit,
                one.named,
                factors.get(one.id, 1.0),
            )
            for one in ranked
            if one.id in self.skills and one.fit >= fits
        ]

    async def rebuild_index(self, progress: Progress | None = None) -> int:
        """Embed and index every listed skill anew; how many there are. Killed half-way, the next search goes on."""
        async with self._lock:
            index, self._index = self._index, None  # until it is whole
            self._index = await asyncio.to_thread(self._rebuilt, index, progress)
        return len(self.listed)

    def _changed(self) -> bool:
        if self._ledger.generation() != self._seen:
            return True
        return self._past is not None and self._past.generation() != self._seen_requests

    def _take_over(self) -> None:
        if not self._changed():
            return
        generation = self._ledger.generation()
        after = self._seen if self._seen <= generation else -1  # lower: the database was replaced by a new one
        changes = self._ledger.rows(after) if generation != self._seen else []
        skills = {} if after < 0 else dict(self.skills)
        for row in changes:
            if row.skill is None:
                skills.pop(row.name, None)
            else:
                skills[row.name] = row.skill
        names = {row.name for row in changes} | (self.skills.keys() - skills.keys())
        names |= self._take_over_requests({row.name for row in changes if row.skill is None}, skills)
        if self._index is not None:
            self._update_index(self._index, names, skills)
        self.skills = skills
        listed = tuple(skills[name] for name in sorted(skills) if skills[name].state.listed)
        self.listed = self.listed if listed == self.listed else listed
        self._seen = generation

    def _take_over_requests(self, removed: set[str], skills: Mapping[str, Skill]) -> set[str]:
        """Learn of new requests, and forget those of deleted skills; whose changed."""
        if self._past is None:
            return set()
        generation = self._past.generation()
        if generation < self._seen_requests:
            self._requests, self._seen_requests = {}, -1
        changed = self._past.changed(self._seen_requests) if generation != self._seen_requests else {}
        self._requests.update(changed)
        gone = self._requests.keys() & removed  # not those of skills that are unknown: they may be too new
        if gone:
            self._past.forget(gone)
            for name in gone:
                del self._requests[name]
        self._seen_requests = generation
        return changed.keys() & skills.keys() if self._use_past else set()

    def _update_index(self, index: HybridIndex, names: Iterable[str], skills: Mapping[str, Skill]) -> None:
        for name in sorted(names):
            skill = skills.get(name)
            if skill is not None and skill.state.listed:
                index.upsert(self._document(skill))
            else:
                index.remove(name)

    def _documents(self) -> list[Document]:
        return [self._document(skill) for skill in self.listed]

    def _document(self, skill: Skill) -> Document:
        return document(skill, self._requests.get(skill.name, ()) if self._use_past else ())

    def _rebuilt(self, index: HybridIndex | None, progress: Progress | None) -> HybridIndex:
        index = index or self._open_index()
        index.rebuild(self._documents(), progress)
        return index

    def _load_index(self) -> HybridIndex:
        index = self._index or self._open_index()
        index.load(self._documents())
        return index


def document(skill: Skill, requests: tuple[str, ...] = ()) -> Document:
    """What a skill is found by: its name, description and parameters, the requests it was proposed for, and others that
    it was called for with success."""
    examples = tuple(dict.fromkeys((*skill.examples, *requests)))
    return tool_document(skill.name, skill.description, skill.parameters, examples)
