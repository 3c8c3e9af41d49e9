"""`PassageWriter`: writes passages to the file of a `PassageIndex` in one transaction. Also defines the file's tables.

Terms, words and group names that no passage needs any longer are deleted in the same transaction.
"""

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.retrieval.bm25 import impacts
from engine.retrieval.index_file import read_meta, select_in
from engine.retrieval.packed_postings import merge_postings, quantized
from engine.retrieval.passage import Passage
from engine.retrieval.passage_arrays import NONE, to_bytes
from engine.retrieval.passage_encoding import TABLES as ENCODING_TABLES
from engine.retrieval.passage_encoding import EncodedRows
from engine.retrieval.passage_rows import ChunkRows, NumberedTexts, Slots
from engine.retrieval.passage_text import MOST_CHARACTERS, asks, embedded_text, fields_of
from engine.retrieval.terms import Terms
from engine.stores.embedder import Embedder

FORMAT = "passages 2"
TABLES = """
CREATE TABLE passages (
    slot INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, place INTEGER NOT NULL, position INTEGER NOT NULL,
    heads INTEGER NOT NULL, terms BLOB NOT NULL, words BLOB NOT NULL
);
CREATE INDEX passages_by_place ON passages (place, position);
CREATE TABLE terms (number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, holders INTEGER NOT NULL);
CREATE TABLE words (
    number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, holders INTEGER NOT NULL, term INTEGER, vector BLOB
);
CREATE TABLE names (number INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE, holders INTEGER NOT NULL);
CREATE TABLE postings (term INTEGER, chunk INTEGER, data BLOB NOT NULL, PRIMARY KEY (term, chunk)) WITHOUT ROWID;
CREATE TABLE chunks (chunk INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, columns BLOB NOT NULL, vectors BLOB NOT NULL);
CREATE INDEX chunks_by_epoch ON chunks (epoch);
CREATE TABLE free (slot INTEGER PRIMARY KEY);
""" + ENCODING_TABLES.lstrip()
MOST_LENGTH = 0xFFFF
_INFINITE = float("inf")

Ints = npt.NDArray[np.uint32]


@dataclass(frozen=True, slots=True)
class _StoredPassage:
    """A row of the table `passages`.

    Attributes:
        terms: The numbers of the passage's terms.
        words: For each term, the number of a word from which the term was stemmed.
        place: The number of the passage's group.
        position: The passage's position in the group.
    """

    slot: int
    terms: Ints
    words: Ints
    place: int
    position: int


class PassageWriter:
    """Writes passages within a transaction. Not thread-safe."""

    def __init__(self, embedder: Embedder, terms: Terms) -> None:
        self._embedder = embedder
        self._splitter = terms

    def write(
        self, connection: sqlite3.Connection, changes: Mapping[str, Passage | None], notes: Mapping[str, str]
    ) -> None:
        """Add and remove passages within the connection's transaction.

        Args:
            connection: Has an open transaction.
            changes: The passages by id. None removes the passage with that id.
            notes: Values for the table `meta`.
        """
        epoch = int(read_meta(connection, "epoch") or 0) + 1
        transaction = _Transaction(connection, self._embedder.dimensions, epoch)
        slots = Slots(connection)
        old = dict(_stored(connection, changes))
        for row in old.values():
            transaction.remove(row)
        added = {id_: passage for id_, passage in changes.items() if passage is not None}
        count = int(read_meta(connection, "passages") or 0) - len(old) + len(added)
        vectors = to_bytes(self._embedder.embed([embedded_text(passage) for passage in added.values()]))
        impact_of = {id_: impacts(fields_of(passage), self._splitter) for id_, passage in added.items()}
        words_of = {id_: self._words(passage) for id_, passage in added.items()}
        terms = transaction.terms.numbers(term for each in impact_of.values() for term in each)
        words = self._word_numbers(transaction, words_of.values(), terms)
        names = transaction.names.numbers(name for passage in added.values() for name in _names(passage))
        for (id_, passage), vector in zip(added.items(), vectors, strict=True):
            slot = old[id_].slot if id_ in old else slots.take()
            numbers = np.array([terms[term] for term in impact_of[id_]], dtype=np.uint32)
            of_words = np.array([words[word] for word in words_of[id_].values()], dtype=np.uint32)
            kind, space, group = (names[name] for name in _names(passage))
            row = _StoredPassage(slot, numbers, of_words, group, passage.position)
            values = np.fromiter(impact_of[id_].values(), dtype=np.float32, count=len(numbers))
            transaction.names.hold((kind, space, group))
            heads = len(self._splitter.with_words(passage.title[:MOST_CHARACTERS]))
            transaction.add(id_, row, heads, quantized(values), vector)
            columns = transaction.chunks.columns(slot)
            columns["time"] = passage.time
            columns["valid_from"] = -_INFINITE if passage.valid_from is None else passage.valid_from
            columns["valid_to"] = _INFINITE if passage.valid_to is None else passage.valid_to
            columns["kind"], columns["space"], columns["group"] = kind, space, group
            columns["position"], columns["used"] = passage.position, 1
            columns["length"], columns["asks"] = min(len(words_of[id_]), MOST_LENGTH), asks(passage)
            columns["before"] = columns["after"] = NONE
            if passage.group:
                transaction.link(row)
        for id_ in old.keys() - added.keys():
            transaction.chunks.clear(old[id_].slot)
            slots.give_back(old[id_].slot)
        transaction.store()
        meta = {**notes, "epoch": str(epoch), "passages": str(count)}
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", meta.items())

    def _words(self, passage: Passage) -> dict[str, str]:
        """Return the terms of a passage, each with the word that it was stemmed from."""
        return self._splitter.with_words(f"{passage.title[:MOST_CHARACTERS]} {passage.text[:MOST_CHARACTERS]}")

    def _word_numbers(
        self, transaction: "_Transaction", passages: Iterable[Mapping[str, str]], terms: Mapping[str, int]
    ) -> dict[str, int]:
        """Return the number of each word, after inserting and embedding the new words."""
        term_of = {word: terms[term] for each in passages for term, word in each.items()}
        numbers = transaction.words.numbers(term_of)
        connection = transaction.connection
        query = "SELECT text FROM words WHERE vector IS NULL AND text"
        new = [text for (text,) in select_in(connection, query, term_of)]
        vectors = to_bytes(self._embedder.embed(new))
        rows = [(term_of[word], vector.tobytes(), word) for word, vector in zip(new, vectors, strict=True)]
        connection.executemany("UPDATE words SET term = ?, vector = ? WHERE text = ?", rows)
        return numbers


class _Transaction:
    """The changes of one transaction, written by `store`."""

    def __init__(self, connection: sqlite3.Connection, dimensions: int, epoch: int) -> None:
        self.connection = connection
        self._epoch = epoch
        self._encoded = EncodedRows(connection)
        self.chunks = ChunkRows(connection, dimensions)
        self.terms, self.words, self.names = (NumberedTexts(connection, name) for name in ("terms", "words", "names"))
        self._postings: dict[tuple[int, int], int] = {}  # (term, slot) -> impact; 0 removes the posting

    def remove(self, row: _StoredPassage) -> None:
        """Remove a passage, except for its columns and vector."""
        self.connection.execute("DELETE FROM passages WHERE slot = ?", (row.slot,))
        self._encoded.clear(row.slot)
        self.terms.release(row.terms.tolist())
        self.words.release(row.words.tolist())
        columns = self.chunks.columns(row.slot)
        self.names.release(int(columns[name][0]) for name in ("kind", "space", "group"))
        self._postings.update(dict.fromkeys(((term, row.slot) for term in row.terms.tolist()), 0))
        for name, back in (("before", "after"), ("after", "before")):
            neighbour = int(columns[name][0])
            if neighbour != NONE:
                self.chunks.columns(neighbour)[back] = NONE

    def add(
        self, id_: str, row: _StoredPassage, heads: int, impacts: npt.NDArray[np.uint8], vector: npt.NDArray[np.int8]
    ) -> None:
        """Add a passage.

        Args:
            id_: The id of the passage.
            row: The passage's row.
            heads: The number of terms in the title. They come first in `row.terms`.
            impacts: The impact of each term.
            vector: The embedding of the passage.
        """
        self.terms.hold(row.terms.tolist())
        self.words.hold(row.words.tolist())
        for term, impact in zip(row.terms.tolist(), impacts.tolist(), strict=True):
            self._postings[term, row.slot] = impact
        self.chunks.put(row.slot, vector)
        self._encoded.miss(row.slot, self._epoch)
        values = (row.slot, id_, row.place, row.position, heads, row.terms.tobytes(), row.words.tobytes())
        self.connection.execute("INSERT INTO passages VALUES (?, ?, ?, ?, ?, ?, ?)", values)

    def link(self, row: _StoredPassage) -> None:
        """Write the slots of a passage's neighbours to its columns, and its slot to the columns of its neighbours."""
        query = "SELECT slot FROM passages WHERE place = ? AND position = ? LIMIT 1"
        for name, back, step in (("before", "after", -1), ("after", "before", 1)):
            found = self.connection.execute(query, (row.place, row.position + step)).fetchone()
            if found is not None:
                self.chunks.columns(row.slot)[name] = found[0]
                self.chunks.columns(found[0])[back] = row.slot

    def store(self) -> None:
        """Write the collected changes."""
        keys = np.array(list(self._postings), dtype=np.int64).reshape(-1, 2)
        values = np.fromiter(self._postings.values(), dtype=np.uint8, count=len(self._postings))
        merge_postings(self.connection, keys[:, 0], keys[:, 1], values)
        self.chunks.store(self._epoch)
        self._encoded.store(self._epoch)
        for each in (self.terms, self.words, self.names):
            each.store()


def _names(passage: Passage) -> tuple[str, str, str]:
    return (passage.kind, passage.space, passage.group)


def _stored(connection: sqlite3.Connection, ids: Iterable[str]) -> Iterator[tuple[str, _StoredPassage]]:
    query = "SELECT id, slot, terms, words, place, position FROM passages WHERE id"
    for id_, slot, terms, words, place, position in select_in(connection, query, ids):
        found = (np.frombuffer(terms, dtype=np.uint32), np.frombuffer(words, dtype=np.uint32))
        yield id_, _StoredPassage(slot, *found, place, position)
