"""`ToolIndex`: searches tools with an index in memory. It is imported at the first search, because it needs numpy."""

import logging
from collections.abc import Sequence

from engine.contract.failure import ConfigError
from engine.contract.spec import ToolSpec
from engine.contract.tool_requests import ToolRequests
from engine.retrieval.document import tool_document
from engine.retrieval.index import HybridIndex
from engine.retrieval.memory import MemoryVectors
from engine.stores.embedder import Embedder
from engine.stores.locks import StoreBusy
from engine.turn.tool_fit import ToolFit

log = logging.getLogger(__name__)


class ToolIndex:
    """A search index, updated at every search. Not thread-safe."""

    def __init__(self, embedder: Embedder, requests: ToolRequests | None = None) -> None:
        """Create an empty index.

        Args:
            embedder: Makes the vectors.
            requests: The requests for which tools have succeeded; None if they are not stored.
        """
        self._index = HybridIndex(MemoryVectors(embedder.dimensions), embedder)
        self._requests = requests
        self._known: dict[str, tuple[str, ...]] = {}  # requests by tool, as of `_generation`
        self._generation = -1

    def ranked(self, query: str, specs: Sequence[ToolSpec], limit: int) -> list[ToolFit]:
        """Return up to `limit` matching tools, best first."""
        self._read_requests([spec.name for spec in specs])
        self._index.load(
            [
                tool_document(spec.name, spec.description, spec.parameters, self._known.get(spec.name, ()))
                for spec in specs
            ]
        )
        return [
            ToolFit(found.id, found.fit, found.evidence.terms if found.evidence is not None else {})
            for found in self._index.search(query, limit)
            if found.score > 0
        ]

    def _read_requests(self, names: Sequence[str]) -> None:
        """Read the requests of these tools, unless they are known and no process has changed any.

        If they cannot be read, the search goes on with those that are known.
        """
        if self._requests is None:
            return
        try:
            generation = self._requests.generation()
            fresh = {} if generation != self._generation else self._known
            if new := [name for name in names if name not in fresh]:
                found = self._requests.of(new)
                fresh = {**fresh, **{name: found.get(name, ()) for name in new}}
        except (StoreBusy, ConfigError) as error:
            log.warning("Past requests cannot be read, so the search does without new ones: %s", error)
        else:
            self._known, self._generation = fresh, generation
