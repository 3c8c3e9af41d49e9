"""`InstructionSearch`: finds instructions by the words and the meaning of their names and descriptions (SKILL-15).

The index is kept in memory, because instructions are few: a person imports them one by one.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from acquired_skills.model.skill import SkillDamaged, SkillMissing
from acquired_skills.store.instructions import Instructions
from engine.contract.failure import ConfigError
from engine.retrieval.document import tool_document

if TYPE_CHECKING:
    from engine.retrieval.index import HybridIndex

log = logging.getLogger(__name__)

_Stamps = dict[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class InstructionHit:
    """Instructions that a search found.

    Attributes:
        name: The name, written with hyphens.
        fit: As in `Ranked`; 0 without a query.
    """

    name: str
    description: str
    fit: float = 0.0


class InstructionSearch:
    """The instructions of one home, with an index of them. Every method blocks and is thread-safe."""

    def __init__(self, instructions: Instructions, open_index: "Callable[[], HybridIndex]") -> None:
        """Create the search.

        Args:
            open_index: Opens the index. It is called at the first search if there are any instructions.
        """
        self.instructions = instructions
        self._open_index = open_index
        self._index: HybridIndex | None = None
        self._lock = threading.Lock()
        self._stamps: _Stamps = {}
        self._all: tuple[InstructionHit, ...] = ()
        self._indexed: tuple[InstructionHit, ...] = ()

    def all(self) -> tuple[InstructionHit, ...]:
        """Return all instructions that can be read, sorted by name.

        While nothing changes, this is the same tuple object.
        """
        with self._lock:
            return self._read()

    def search(self, query: str, limit: int, fits: float = 0.0) -> tuple[InstructionHit, ...]:
        """Return the instructions nearest to a query, best first, except those whose `fit` is below `fits`."""
        with self._lock:
            known = {one.name: one for one in self._read()}
            if not known:
                return ()
            try:
                index = self._updated()
                found = index.search(query, limit)
            except ConfigError as error:
                log.warning("Instructions cannot be searched: %s", error)
                return ()
        return tuple(replace(known[one.id], fit=one.fit) for one in found if one.score > 0 and one.fit >= fits)

    def _read(self) -> tuple[InstructionHit, ...]:
        stamps = self.instructions.stamps()
        if stamps != self._stamps:
            before = {one.name: one for one in self._all if self._stamps.get(one.name) == stamps.get(one.name)}
            found = (before.get(name) or self._headed(name) for name in sorted(stamps))
            self._all, self._stamps = tuple(one for one in found if one is not None), stamps
        return self._all

    def _headed(self, name: str) -> InstructionHit | None:
        try:
            return InstructionHit(name, " ".join(self.instructions.read(name).description.split()))
        except (SkillDamaged, SkillMissing) as error:
            log.warning("Instructions are not offered: %s", error)
            return None

    def _updated(self) -> "HybridIndex":
        if self._index is None:
            self._index = self._open_index()
        if self._indexed is not self._all:
            self._index.load([tool_document(one.name, one.description, {}) for one in self._all])
            self._indexed = self._all
        return self._index
