"""`LearnedRanking`: a linear model that predicts the right document for a request, trained on the data of a home.

Each document has several samples: its description, and the requests that it answered. A sample is a vector of features:
its words, hashed (Weinberger et al., "Feature Hashing for Large Scale Multitask Learning", 2009), and its embedding.
Ridge regression with one output per document has a closed form: the weights of a document are the sum of its samples,
multiplied by the inverse of the matrix of second moments of all samples. The inverse reduces the weight of features
that many samples share. It is the same for all documents, so it is all that a model has to store, and training takes
milliseconds.
"""

import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.stores.embedder import Vectors

BUCKETS = 256  # number of buckets of hashed words; 512 and 1,024 gave the same recall
DENSE = 3.0  # weight of the embedding relative to the words, tuned on one half of MetaTool's requests
RIDGE = 10.0
WEIGHT = 0.2  # greatest weight of the model in the order of results; the other figures have the rest
MOST_SAMPLES = 4_000  # most samples used for the second moments
MOST_HELD = 200  # number of newest requests that a new model is tested with
LEAST_HELD = 10  # fewer requests would make a test unreliable
LEAST_SAMPLES = 20
GROWTH = 0.1  # share of samples that must have changed before a model is trained again
CHECKED = 0.01  # share of samples that must have changed before a model is compared with the one before it again
_SIGN = 1 << 30

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.integer]


def hashed(terms: Iterable[str]) -> list[int]:
    """Hash the terms of a text. Return the bucket (from 1) of each distinct term, with a sign from its hash."""
    codes = (zlib.crc32(term.encode()) for term in dict.fromkeys(terms))
    return [(code % BUCKETS + 1) * (1 if code & _SIGN else -1) for code in codes]


def features(words: Sequence[Sequence[int]], vectors: Vectors) -> Floats:
    """Return one row of features per text.

    Args:
        words: The result of `hashed` for each text.
        vectors: The embeddings.
    """
    found = np.zeros((len(words), BUCKETS + vectors.shape[1]), dtype=np.float32)
    for row, each in zip(found, words, strict=True):
        codes = np.array(each, dtype=np.int64)
        np.add.at(row, np.abs(codes) - 1, np.sign(codes) / max(len(codes), 1) ** 0.5)
    found[:, BUCKETS:] = vectors * np.float32(DENSE)
    return found


@dataclass(frozen=True, slots=True)
class LearnedRanking:
    """A trained version of the model.

    Attributes:
        version: The number of the version, starting at 1.
        matrix: The inverse of the samples' second moments.
        samples: Number of samples in the index when it was trained.
        documents: Number of documents in the index when it was trained.
    """

    version: int
    matrix: Floats
    samples: int
    documents: int

    @property
    def weight(self) -> float:
        """The weight of the model, which grows from 0 to `WEIGHT` with the mean number of requests per document."""
        return WEIGHT * (1 - self.documents / self.samples)

    def direction(self, request: Floats) -> Floats:
        """Return a vector for a request, given its features.

        Its dot product with the features of a training sample is what the sample adds to the score of its document.
        """
        found: Floats = self.matrix @ request
        return found


def second_moments(samples: Floats, background: Floats) -> Floats:
    """Return the inverse of the matrix of second moments of the samples.

    Args:
        samples: Features of samples of documents.
        background: Features of small talk, which belongs to no document.
    """
    used = samples[:: -(-len(samples) // MOST_SAMPLES)] if len(samples) else samples
    moments = used.T @ used + background.T @ background
    moments[np.diag_indices(len(moments))] += np.float32(RIDGE)
    found: Floats = np.linalg.inv(moments.astype(np.float64)).astype(np.float32)
    return found


def reciprocal_rank(matrix: Floats | None, samples: Floats, owners: Ints, held: Ints) -> float:
    """Return the mean reciprocal rank of the right documents for requests that were held out from training.

    Args:
        matrix: The matrix of a model. None ranks by the dot product with the sum of each document's samples.
        samples: Features of all samples.
        owners: For each sample, the number of its document, counted from 0.
        held: Which samples are the held-out requests, as indexes of `samples`; at most one per document.
    """
    sums = np.zeros((int(owners.max()) + 1, samples.shape[1]), dtype=np.float32)
    rest = np.ones(len(samples), dtype=bool)
    rest[held] = False
    np.add.at(sums, owners[rest], samples[rest])
    requests = samples[held]
    scores = (requests if matrix is None else requests @ matrix) @ sums.T
    right = scores[np.arange(len(held)), owners[held]]
    return float((1 / (scores >= right[:, np.newaxis]).sum(axis=1)).mean())


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """The model to use from now on, and why.

    Attributes:
        model: The model; None to rank without one.
        note: How it was chosen, as a sentence for people.
    """

    model: LearnedRanking | None
    note: str


def trained(
    old: LearnedRanking | None, samples: Floats, owners: Ints, held: Ints, background: Floats
) -> TrainingResult:
    """Train a model, and compare it with the old one on the latest requests, which are held out for this test.

    Returns:
        The new model; the old one with the new number of samples, if the new one is worse; no model if neither is
        better than none.
    """
    documents = int(owners.max()) + 1
    kept = np.ones(len(samples), dtype=bool)
    kept[held] = False
    version = old.version + 1 if old is not None else 1
    note = f"trained with {len(samples):,} texts"
    if len(held) >= LEAST_HELD:
        new = reciprocal_rank(second_moments(samples[kept], background), samples, owners, held)
        before = reciprocal_rank(old.matrix, samples, owners, held) if old is not None else 0.0
        plain = reciprocal_rank(None, samples, owners, held)
        scores = f"mean reciprocal rank of the {len(held):,} latest requests: {new:.3f}, without a model {plain:.3f}"
        if old is not None:
            scores += f", with the version before {before:.3f}"
        note = f"{note}; {scores}"
        if max(new, before) < plain:
            return TrainingResult(None, f"not used, since it ranks worse than no model ({scores})")
        if old is not None and new < before:
            model = LearnedRanking(old.version, old.matrix, len(samples), documents)
            return TrainingResult(model, f"kept, since a newly trained one ranks worse ({scores})")
    model = LearnedRanking(version, second_moments(samples, background), len(samples), documents)
    return TrainingResult(model, note)
