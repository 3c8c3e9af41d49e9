"""Reads the postings of terms from the file of a `StoredIndex`, and scores documents by them (BM25F)."""

import sqlite3
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from engine.retrieval.index_file import select_in

Ints = npt.NDArray[np.integer]
Floats = npt.NDArray[np.float32]


def terms_of(connection: sqlite3.Connection, terms: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the number of each known term, and how many documents contain it."""
    found = select_in(connection, "SELECT term, number, holders FROM terms WHERE term", terms)
    return {term: (number, holders) for term, number, holders in found}


def postings_of(connection: sqlite3.Connection, terms: Iterable[int]) -> dict[int, list[tuple[Ints, Floats]]]:
    """Return the postings of each term in chunks: the slots of its documents, and its impact on each slot."""
    found: dict[int, list[tuple[Ints, Floats]]] = {}
    for term in terms:
        for (blob,) in connection.execute("SELECT data FROM postings WHERE term = ?", (term,)):
            half = len(blob) // 2
            slots = np.frombuffer(blob, dtype=np.uint32, count=half // 4)
            found.setdefault(term, []).append((slots, np.frombuffer(blob, dtype=np.float32, offset=half)))
    return found


def bm25_scores(postings: Mapping[int, Sequence[tuple[Ints, Floats]]], weights: Mapping[int, float]) -> Floats:
    """Return an array of BM25 scores, indexed by slot. It ends at the last document that contains one of the terms."""
    chunks = [
        (slots, impacts * np.float32(weights[term])) for term in weights for slots, impacts in postings.get(term, ())
    ]
    if not chunks:
        return np.zeros(0, dtype=np.float32)
    every, scores = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
    return np.bincount(every, weights=scores).astype(np.float32)


def best_of(scores: Floats, count: int) -> dict[int, float]:
    """Return the `count` best scores above 0 by slot, and all ties with the last one, so that the order is stable."""
    found = np.flatnonzero(scores)
    if len(found) > count:
        kth = np.partition(scores[found], len(found) - count)[len(found) - count]
        found = found[scores[found] >= kth]
    return {int(slot): float(scores[slot]) for slot in found}
