"""Splits pages into passages, and ranks them for the questions of a research."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from builtin_tools.web.research.budget import tokens_of
from builtin_tools.web.research.verification.claims import NumberedPage
from builtin_tools.web.research.verification.quotes import MOST_SEARCHED
from builtin_tools.web.research.verification.sentences import sentence_ranges

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder  # imports numpy, which listing tools must not load

USUAL = 600  # characters; sentences are joined until a passage has this length
MOST_PER_PAGE = 400  # passages; the rest of a very long page is not searched
PER_QUESTION = 12  # passages that one question contributes before others are considered


@dataclass(frozen=True, slots=True)
class SourcePassage:
    """A range of the text of a source.

    Attributes:
        source: The number of the source.
        start, end: The range, in characters; `end` is excluded.
    """

    source: int
    start: int
    end: int
    text: str


def split_pages(sources: Sequence[NumberedPage]) -> list[SourcePassage]:
    """Return the passages of pages, in order. Each begins and ends with a sentence."""
    return [passage for source in sources for passage in _split(source)]


def ranked(
    questions: Sequence[str], passages: Sequence[SourcePassage], embedder: "Embedder", tokens: int, folder: Path
) -> list[SourcePassage]:
    """Return the best passages for all questions that fit into a number of tokens, best first.

    The questions take turns, so that each contributes its best passages.

    Args:
        questions: What to look for.
        passages: All passages.
        embedder: Embeds them.
        tokens: The tokens of all results together.
        folder: Where a temporary index is made.
    """
    from engine.retrieval.passage import Passage  # noqa: PLC0415 -- imports numpy, which listing tools must not load
    from engine.retrieval.passage_index import PassageIndex  # noqa: PLC0415 -- for the same reason

    with tempfile.TemporaryDirectory(prefix="passages-", dir=folder) as temporary:
        index = PassageIndex(Path(temporary) / "passages.db", embedder)
        try:
            index.apply(
                {
                    str(at): Passage(str(at), each.text, group=str(each.source), position=at)
                    for at, each in enumerate(passages)
                },
                {},
            )
            lists = [[passages[int(found.id)] for found in index.search(each, PER_QUESTION)] for each in questions]
        finally:
            index.close()
    best: list[SourcePassage] = []
    for rank in range(PER_QUESTION):
        for found in lists:
            if rank < len(found) and found[rank] not in best and tokens_of(found[rank].text) <= tokens:
                best.append(found[rank])
                tokens -= tokens_of(found[rank].text)
    return best


def _split(source: NumberedPage) -> Iterator[SourcePassage]:
    text, count = source.page.text[:MOST_SEARCHED], 0
    start = end = -1
    for sentence in sentence_ranges(text):
        if start >= 0 and sentence.end - start > 2 * USUAL:
            yield SourcePassage(source.number, start, end, text[start:end])
            start, count = -1, count + 1
        if count >= MOST_PER_PAGE:
            return
        start = sentence.start if start < 0 else start
        end = sentence.end
        if end - start >= USUAL:
            yield SourcePassage(source.number, start, end, text[start:end])
            start, count = -1, count + 1
    if start >= 0 and count < MOST_PER_PAGE:
        yield SourcePassage(source.number, start, end, text[start:end])
