"""`PassageIndex`: finds passages, such as facts and parts of documents, in one file that all processes of a home share.

The file is an SQLite database, like that of a `StoredIndex`, so changes are atomic and immediately visible to all
processes. It contains what ranking needs, but not the texts. Everything in it can be rebuilt: a damaged file, or one
made with another embedder, is replaced by an empty one.
"""

import sqlite3
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from engine.retrieval.bm25 import rarity
from engine.retrieval.index_file import IndexFile, read_meta, select_in
from engine.retrieval.packed_postings import TermPostings
from engine.retrieval.passage import EVERYTHING, FoundPassage, Passage, PassageFilter
from engine.retrieval.passage_arrays import CodedVectors, Ints, Mask, PassageArrays, cosines, to_bytes
from engine.retrieval.passage_candidates import PRESELECTED, Meaning, by_words, preselected
from engine.retrieval.passage_context import gathered, neighbourhood
from engine.retrieval.passage_encoder import PassageEncoder
from engine.retrieval.passage_encoding import (
    EncodingState,
    PassageVectors,
    UnencodedPassage,
    read_state,
    replace_encoder,
    unencoded,
    write_vectors,
)
from engine.retrieval.passage_fit import WORD_FIT, FitModel, passage_fits
from engine.retrieval.passage_groups import GroupScores
from engine.retrieval.passage_ranking import PassageFigures
from engine.retrieval.passage_text import embedded_text
from engine.retrieval.passage_words import MatchedWords, PassageWords, RequestWord
from engine.retrieval.passage_writer import FORMAT, TABLES, PassageWriter
from engine.retrieval.ranking import rarest_of
from engine.retrieval.shared_index import SharedIndex
from engine.retrieval.terms import Terms, weight_of
from engine.stores.embedder import Embedder, Vectors

ERASE_DEADLINE_S = 30.0
CANDIDATES = 100  # passages taken from each ranking (words, meaning)
PER_RESULT = 2  # candidates per requested result, if that gives more than CANDIDATES
NEIGHBOURS = 3  # passages of one group are near each other up to this difference of positions
NEIGHBOUR = 0.1  # added to the score of such a passage


class PassageIndex(SharedIndex[Passage]):
    """A searchable set of passages in a file. Thread-safe. The file is opened on first use. Call `close` once."""

    def __init__(self, path: Path, embedder: Embedder, encoder: PassageEncoder | None = None) -> None:
        """Create an index.

        Args:
            path: The file.
            embedder: Embeds the passages and their words when they are added, and the requests.
            encoder: Replaces the embedder in `search`, once `encode` has added its vectors for all passages.
        """
        made_for = f"{FORMAT}:{embedder.name}:{embedder.dimensions}"
        self._terms = Terms()
        super().__init__(IndexFile(path, made_for, TABLES, secure_delete=True), PassageWriter(embedder, self._terms))
        self._embedder = embedder
        self._arrays = PassageArrays(embedder.dimensions)
        self._groups = GroupScores(self._arrays.columns, -1)
        self._words = PassageWords(embedder)
        self._encoded = None if encoder is None else PassageVectors(encoder)

    def __len__(self) -> int:
        with self._reading() as connection:
            return int(read_meta(connection, "passages") or 0)

    def ids(self) -> set[str]:
        """Return the ids of all passages."""
        with self._reading() as connection:
            return {id_ for (id_,) in connection.execute("SELECT id FROM passages")}

    def erase(self) -> None:
        """Rewrite the file without the content of removed passages, and empty its write-ahead log.

        Raises:
            StoreBusy: Other processes used the file for `ERASE_DEADLINE_S` seconds.
        """
        with self._lock:
            self._file.erase_deleted(ERASE_DEADLINE_S)

    def search(
        self, query: str, k: int, where: PassageFilter = EVERYTHING, *, near: str | None = None
    ) -> list[FoundPassage]:
        """Return the `k` best passages, best first.

        Args:
            query: The request.
            k: The number of results.
            where: Restricts what may be returned. Other passages do not influence the order either.
            near: The id of a passage that the request follows up on. The passages around it rank higher.
        """
        self._encode_request(query)
        # Use one BLAS thread, because these products take less time than synchronizing threads, especially under load.
        with self._reading() as connection, self._blas.limit(limits=1, user_api="blas"):
            self._catch_up(connection)
            arrays, count = self._arrays, max(CANDIDATES, PER_RESULT * k)
            columns, allowed = arrays.columns, arrays.allowed(connection, where)
            if not allowed.any():
                return []
            request, postings = self._request(connection, query, None if where == EVERYTHING else allowed)
            words = postings.scores(len(arrays))
            vectors, vector, fit_model = self._meaning(connection, query)
            meaning = Meaning(vectors, vector, columns, allowed)
            slots = np.union1d(by_words(words, columns, allowed, count), meaning.candidates(count))
            matched = self._match(connection, request, slots, allowed)
            figures = PassageFigures(
                gathered(words, slots, columns),
                meaning.of(slots),
                matched.covered,
                matched.titled,
                matched.foreign,
                self._groups.of(postings, slots, columns),
                columns["length"][slots],
                columns["asks"][slots],
            )
            scores = figures.scores
            fits = passage_fits(figures, scores, sum(each.weight for each in request), fit_model)
            if near is not None:
                scores = scores + NEIGHBOUR * self._near(connection, near)[slots]
            order = np.lexsort((slots, -scores))[:k]
            ids = dict(select_in(connection, "SELECT slot, id FROM passages WHERE slot", slots[order].tolist()))
            return [FoundPassage(ids[int(slots[at])], float(scores[at]), float(fits[at])) for at in order]

    def similar(self, text: str, k: int, where: PassageFilter = EVERYTHING) -> list[tuple[str, float]]:
        """Return the ids of the `k` passages that are nearest to a text, each with the cosine of the two vectors.

        The vectors are those of the embedder, never those of the encoder.
        """
        with self._reading() as connection, self._blas.limit(limits=1, user_api="blas"):
            self._catch_up(connection)
            allowed = self._arrays.allowed(connection, where)
            return self._nearest(connection, self._arrays.vectors, self._embedder.embed([text])[0], k, allowed)

    def alike(self, text: str, k: int) -> set[str]:
        """Return the ids of those of the `k` nearest passages that fit a text in a small index (`FitModel.alike`)."""
        self._encode_request(text)
        with self._reading() as connection, self._blas.limit(limits=1, user_api="blas"):
            self._catch_up(connection)
            vectors, vector, model = self._meaning(connection, text)
            near = self._nearest(connection, vectors, vector, k, self._arrays.allowed(connection, EVERYTHING))
            return {id_ for id_, cosine in near if cosine >= model.alike}

    # Vectors of the encoder.

    def encoding(self) -> EncodingState:
        """Return how far the vectors of an encoder are."""
        with self._reading() as connection:
            return read_state(connection)

    def use_encoder(self, identity: str) -> bool:
        """Delete all vectors of an encoder with another identity. Those of this encoder are then missing.

        Args:
            identity: The encoder's `PassageEncoder.identity`; "" for none.

        Returns:
            False if nothing was written, as for `apply`.
        """
        with self._lock:
            return self._file.write(lambda connection: replace_encoder(connection, identity))

    def unencoded(self, most: int) -> list[UnencodedPassage]:
        """Return up to `most` passages that have no vector of the file's encoder yet."""
        with self._reading() as connection:
            return unencoded(connection, most)

    def encode(self, passages: Mapping[UnencodedPassage, Passage]) -> bool:
        """Add the encoder's vectors of passages, all or none. Meanwhile searches are not blocked.

        Returns:
            False if nothing was written, as for `apply`.
        """
        if self._encoded is None:
            return False
        encoder = self._encoded.encoder
        vectors = to_bytes(encoder.embedder.embed([embedded_text(passage) for passage in passages.values()]))
        found = dict(zip(passages, vectors, strict=True))
        with self._lock:
            return self._file.write(lambda connection: write_vectors(connection, found, encoder))

    def _encode_request(self, text: str) -> None:
        """Encode a request before the index is locked, if a search will probably use the encoder."""
        if self._encoded is not None and self._encoded.used:
            self._encoded.encoder.of_request(text)

    def _meaning(self, connection: sqlite3.Connection, text: str) -> tuple[CodedVectors, Vectors, FitModel]:
        """Return the vectors to compare a request with, the vector of the request, and the model of the fit."""
        encoded, epoch = self._encoded, int(read_meta(connection, "epoch") or 0)
        if encoded is not None and encoded.catch_up(connection, epoch, len(self._arrays)):
            return encoded.vectors, encoded.encoder.of_request(text), encoded.encoder.fit
        return self._arrays.vectors, self._embedder.embed([text])[0], WORD_FIT

    def _nearest(
        self, connection: sqlite3.Connection, vectors: CodedVectors, vector: Vectors, k: int, allowed: Mask
    ) -> list[tuple[str, float]]:
        """Return the ids of the `k` allowed passages whose vectors are nearest to `vector`, each with its cosine."""
        slots = preselected(vectors, vector, allowed, max(PRESELECTED, 4 * k))
        similarity = cosines(vectors.rows[slots], vector)
        order = np.lexsort((slots, -similarity))[:k]
        ids = dict(select_in(connection, "SELECT slot, id FROM passages WHERE slot", slots[order].tolist()))
        return [(ids[int(slots[at])], float(similarity[at])) for at in order]

    def _request(
        self, connection: sqlite3.Connection, query: str, allowed: Mask | None
    ) -> tuple[list[RequestWord], TermPostings]:
        """Return the words of a request, rarest first, and the postings of their terms."""
        words = self._terms.with_words(query)
        passages = int(read_meta(connection, "passages") or 0)
        known = select_in(connection, "SELECT text, number, holders FROM terms WHERE text", words)
        numbers = {term: (number, holders) for term, number, holders in known}
        weights = {
            term: float(rarity(passages, numbers[term][1] if term in numbers else 0)) * weight_of(term)
            for term in words
        }
        rarest = rarest_of(weights)
        request = [RequestWord(words[term], weights[term], numbers.get(term, (-1,))[0]) for term in rarest]
        held = [term for term in rarest if term in numbers]
        by_number = {numbers[term][0]: weights[term] for term in held}
        return request, TermPostings.read(connection, by_number, dict(numbers[term] for term in held), allowed)

    def _match(
        self, connection: sqlite3.Connection, request: list[RequestWord], slots: Ints, allowed: Mask
    ) -> MatchedWords:
        """Compare a request with the passages in these slots. What their neighbours cover is added to `covered`."""
        every = neighbourhood(slots, self._arrays.columns)
        every = every[allowed[every]]
        matched = self._words.match(connection, request, every)
        covered = np.zeros(len(allowed) + 1, dtype=np.float32)
        covered[every] = matched.covered
        at = np.searchsorted(every, slots)
        with_neighbours = gathered(covered, slots, self._arrays.columns)
        return MatchedWords(with_neighbours, matched.titled[at], matched.foreign[at])

    def _near(self, connection: sqlite3.Connection, id_: str) -> Mask:
        """Return a mask of the slots whose passages are near the given one, in the same group."""
        columns = self._arrays.columns
        found = connection.execute("SELECT slot FROM passages WHERE id = ?", (id_,)).fetchone()
        if found is None or not self._groups.named(int(columns["group"][found[0]])):
            return np.zeros(len(self._arrays), dtype=np.bool_)
        distance = np.abs(columns["position"].astype(np.int64) - int(columns["position"][found[0]]))
        mask: Mask = (columns["group"] == columns["group"][found[0]]) & (distance <= NEIGHBOURS)
        return mask

    def _catch_up(self, connection: sqlite3.Connection) -> None:
        if self._arrays.catch_up(connection, int(read_meta(connection, "epoch") or 0)):
            alone = connection.execute("SELECT number FROM names WHERE text = ''").fetchone()
            self._groups = GroupScores(self._arrays.columns, alone[0] if alone is not None else -1)

    def _forget(self) -> None:
        self._arrays.forget()
        self._words.forget()
        if self._encoded is not None:
            self._encoded.forget()
