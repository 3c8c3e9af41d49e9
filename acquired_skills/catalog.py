"""`Catalog`: the skills as this process knows them, in memory, brought up to date when another process changed them."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from acquired_skills.life.ledger import Ledger
from acquired_skills.skill import Skill
from engine.retrieval.index import Document, HybridIndex


@dataclass(frozen=True, slots=True)
class Found:
    """A listed skill that a query brought up, best first."""

    skill: Skill
    score: float


class Catalog:
    """All skills by name, the listed ones in order, and an index over the listed ones only."""

    def __init__(self, ledger: Ledger, open_index: Callable[[], HybridIndex]) -> None:
        """open_index: called in a thread at the first search, since it takes a second."""
        self._ledger = ledger
        self._open_index = open_index
        self._index: HybridIndex | None = None
        self._seen = -1
        self._lock = asyncio.Lock()
        self.skills: Mapping[str, Skill] = {}
        self.listed: tuple[Skill, ...] = ()

    async def refresh(self) -> None:
        """Take over what changed since the last time; microseconds when nothing did."""
        if self._ledger.generation() != self._seen:
            async with self._lock:
                await asyncio.to_thread(self._take_over)

    async def search(self, query: str, k: int, weights: Mapping[str, float] | None = None) -> list[Found]:
        """The k listed skills nearest to the query, best first."""
        async with self._lock:
            if self._index is None:
                self._index = await asyncio.to_thread(self._load_index)
            ranked = await asyncio.to_thread(self._index.search, query, k, weights)
        return [Found(self.skills[one.id], one.score) for one in ranked if one.id in self.skills]

    async def rebuild_index(self) -> int:
        """Embed and index every listed skill anew; how many there are."""
        async with self._lock:
            self._index = await asyncio.to_thread(self._load_index)
        return len(self.listed)

    def _take_over(self) -> None:
        generation = self._ledger.generation()
        if generation == self._seen:
            return
        after = self._seen if self._seen <= generation else -1  # lower: the database was replaced by a new one
        changes = self._ledger.rows(after)
        skills = {} if after < 0 else dict(self.skills)
        for row in changes:
            if row.skill is None:
                skills.pop(row.name, None)
            else:
                skills[row.name] = row.skill
        if self._index is not None:
            names = {row.name for row in changes} | (self.skills.keys() - skills.keys())
            self._update_index(self._index, names, skills)
        self.skills = skills
        self.listed = tuple(skills[name] for name in sorted(skills) if skills[name].state.listed)
        self._seen = generation

    @staticmethod
    def _update_index(index: HybridIndex, names: Iterable[str], skills: Mapping[str, Skill]) -> None:
        for name in sorted(names):
            skill = skills.get(name)
            if skill is not None and skill.state.listed:
                index.upsert(document(skill))
            else:
                index.remove(name)

    def _load_index(self) -> HybridIndex:
        index = self._index or self._open_index()
        index.load([document(skill) for skill in self.listed])
        return index


def document(skill: Skill) -> Document:
    """What a skill is found by: its name, its description, and the requests it was proposed for."""
    return Document(skill.name, skill.description, skill.examples)
