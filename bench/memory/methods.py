"""The methods that are compared: words alone, meaning alone, and the search of the memory."""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.memory.locomo import session_of
from engine.retrieval.bm25 import Bm25
from engine.retrieval.document import Field
from engine.retrieval.passage import Passage
from engine.retrieval.passage_encoder import PassageEncoder
from engine.retrieval.passage_index import PassageIndex
from engine.retrieval.terms import Terms
from engine.stores.embedder import Embedder

OURS, ENCODED = "ours", "ours, with the encoder"
DEEPEST = 60  # results of one search
_AT_ONCE = 256  # passages encoded at a time


@dataclass(frozen=True, slots=True)
class FoundTurns:
    """What a method finds for a question, best first.

    Attributes:
        fit: How certain the method is that the best turn answers the question.
    """

    turns: Sequence[str]
    sessions: Sequence[str]
    fit: float = 0.0


SearchTurns = Callable[[str], FoundTurns]
Texts = Mapping[str, str]


class PlainWords(Terms):
    """Words in lower case, without stemming and with stop words, as in most implementations of BM25."""

    def of(self, text: str) -> list[str]:
        """Return the words of a text."""
        return re.findall(r"\w+", text.lower())


def turn_texts(passages: Mapping[str, Passage]) -> Texts:
    """Return the text of each turn, with the speaker."""
    return {id_: f"{each.title}: {each.text}" for id_, each in passages.items()}


def session_texts(passages: Mapping[str, Passage]) -> Texts:
    """Return the text of each session: that of all its turns."""
    texts: dict[str, str] = {}
    for id_, text in turn_texts(passages).items():
        texts[session_of(id_)] = f"{texts.get(session_of(id_), '')} {text}"
    return texts


def by_words(passages: Mapping[str, Passage], terms: Terms) -> SearchTurns:
    """Search turns, and in another index whole sessions, by BM25 alone."""
    turns, sessions = (_words(texts, terms) for texts in (turn_texts(passages), session_texts(passages)))
    return lambda question: FoundTurns(turns(question), sessions(question))


def by_meaning(passages: Mapping[str, Passage], embedder: Embedder) -> SearchTurns:
    """Search turns, and whole sessions, by vectors alone."""
    turns, sessions = (_vectors(texts, embedder) for texts in (turn_texts(passages), session_texts(passages)))
    return lambda question: FoundTurns(turns(question), sessions(question))


@contextmanager
def ours(
    passages: Mapping[str, Passage], embedder: Embedder, encoder: PassageEncoder | None = None
) -> Iterator[SearchTurns]:
    """Search turns as the memory does. Sessions are ordered by their best turn."""
    with tempfile.TemporaryDirectory() as folder:
        index = PassageIndex(Path(folder) / "passages.db", embedder, encoder)
        index.apply(passages, {})
        if encoder is not None:
            encode(index, encoder, passages)

        def search(question: str) -> FoundTurns:
            found = index.search(question, DEEPEST)
            turns = [each.id for each in found]
            fit = max((each.fit for each in found), default=0.0)
            return FoundTurns(turns, list(dict.fromkeys(map(session_of, turns))), fit)

        yield search
        index.close()


def encode(
    index: PassageIndex,
    encoder: PassageEncoder,
    passages: Mapping[str, Passage],
    count: Callable[[int], object] = lambda _encoded: None,
) -> None:
    """Add the vectors of an encoder to an index.

    Args:
        index: An index that was made with the encoder.
        encoder: The encoder.
        passages: The passages of the index by id.
        count: Called with the number of passages of each batch.
    """
    index.use_encoder(encoder.identity)
    while missing := index.unencoded(_AT_ONCE):
        index.encode({each: passages[each.id] for each in missing})
        count(len(missing))


def _words(texts: Texts, terms: Terms) -> Callable[[str], list[str]]:
    usual = sum(len(terms.of(text)) for text in texts.values()) / max(len(texts), 1)
    index = Bm25(terms)
    for id_, text in texts.items():
        index.add(id_, [Field(text, usual=max(usual, 1.0))])
    return lambda question: [id_ for id_, _ in index.search(question, DEEPEST)]


def _vectors(texts: Texts, embedder: Embedder) -> Callable[[str], list[str]]:
    ids, vectors = list(texts), embedder.embed(list(texts.values()))

    def search(question: str) -> list[str]:
        near = np.argsort(-(vectors @ embedder.embed([question])[0]), kind="stable")
        return [ids[at] for at in near[:DEEPEST].tolist()]

    return search
