"""`ToolIndex`: searches tools with an index in memory. It is imported at the first search, because it needs numpy."""

from collections.abc import Sequence

from engine.contract.spec import ToolSpec
from engine.retrieval.document import tool_document
from engine.retrieval.index import HybridIndex
from engine.retrieval.memory import MemoryVectors
from engine.stores.embedder import Embedder


class ToolIndex:
    """A search index, updated at every search. Not thread-safe."""

    def __init__(self, embedder: Embedder) -> None:
        self._index = HybridIndex(MemoryVectors(embedder.dimensions), embedder)

    def ranked(self, query: str, specs: Sequence[ToolSpec], limit: int) -> list[tuple[str, float]]:
        """Return up to `limit` names of matching tools, best first, each with its `Ranked.fit`."""
        self._index.load([tool_document(spec.name, spec.description, spec.parameters) for spec in specs])
        return [(found.id, found.fit) for found in self._index.search(query, limit) if found.score > 0]
