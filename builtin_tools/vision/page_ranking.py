"""Ranks the pages of a document by how well their text matches a query, by words (BM25) and by meaning (vectors).

Importing this module takes seconds, because it needs numpy.
"""

from collections.abc import Sequence
from itertools import chain

from builtin_tools.documents.extraction import ExtractedText
from builtin_tools.memory.documents.passages import USUAL, split
from engine.retrieval.bm25 import Bm25
from engine.retrieval.document import Field
from engine.retrieval.fusion import fuse
from engine.stores.embedder import Embedder

_USUAL_TERMS = USUAL / 10  # of a passage; stop words are no terms
_CHARACTERS_OF_A_VECTOR = USUAL * 2


def best_pages(texts: Sequence[str], query: str, most: int, embedder: Embedder) -> list[int]:
    """Return the numbers of the pages that match a query best, from 1, best first.

    A page counts as much as its best passage. Pages without text are never returned.

    Args:
        texts: The text of each page.
        query: What the pages should be about.
        most: The largest number of pages.
        embedder: Embeds the query and the passages.
    """
    passages = list(chain.from_iterable(_passages(number, text) for number, text in enumerate(texts, 1)))
    index = Bm25()
    for at, (_, text) in enumerate(passages):
        index.add(str(at), [Field(text, usual=_USUAL_TERMS)])
    sparse = dict(index.search(query, len(passages)))
    vectors = embedder.embed([query, *(text[:_CHARACTERS_OF_A_VECTOR] for _, text in passages)])
    dense = {str(at): float(near) for at, near in enumerate(vectors[1:] @ vectors[0])}
    best: dict[int, float] = {}
    for key, score in fuse(sparse, dense).items():
        number = passages[int(key)][0]
        best[number] = max(best.get(number, 0.0), score)
    return sorted(best, key=lambda number: (-best[number], number))[:most]


def _passages(number: int, text: str) -> list[tuple[int, str]]:
    return [(number, passage.text) for passage in split(ExtractedText(text))]
