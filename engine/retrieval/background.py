"""`Background`: lines of small talk that serve as examples of requests that need no tool.

The lines are greetings, opinions, feelings and general questions, and are part of the package. They are used in two
ways. A request that resembles them is less likely to need a tool. And their similarity to the documents of an index
shows how similar an unrelated text usually is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from engine.stores.embedder import Embedder, Vectors

LINES = Path(__file__).with_name("data") / "background.txt"
NEAREST = 5  # a request is compared with this many lines, because their mean varies less than a single similarity
PROBE_EVERY = 4  # every fourth line is compared with all vectors of an index
# Lower bounds of the mean and the standard deviation of cosines. In an index of a few documents, small talk is not
# similar to any document, so the mean would be near 0. The bounds were measured with 100 of BFCL's functions.
LEAST_MEAN, LEAST_SPREAD = 0.2, 0.08

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Usual:
    """The mean and the standard deviation of the cosines of lines of small talk and the vectors nearest to them."""

    mean: float = 0.0
    spread: float = 1.0

    @classmethod
    def of(cls, figures: Floats) -> "Usual":
        """Calculate the mean and the standard deviation of cosines. Both are raised to a lower bound if necessary."""
        if not len(figures):
            return cls()
        return cls(max(float(figures.mean()), LEAST_MEAN), max(float(figures.std()), LEAST_SPREAD))

    def deviation(self, figure: float) -> float:
        """Return how many standard deviations a cosine is above the mean."""
        return (figure - self.mean) / self.spread


class Background:
    """The lines of small talk, embedded by one embedder. Thread-safe."""

    def __init__(self, embedder: Embedder) -> None:
        """Embed the lines, which takes about 20 ms with WordLlama."""
        self.vectors = embedder.embed(background_lines())
        self.probes: Vectors = self.vectors[::PROBE_EVERY]
        similarity = self.vectors @ self.vectors.T
        np.fill_diagonal(similarity, -1.0)  # a line is not compared with itself
        self._usual = Usual.of(_of_nearest(similarity))

    def resemblance(self, vector: Vectors) -> float:
        """Return how much a request resembles small talk (`FitEvidence.chat`).

        Args:
            vector: The embedding of the request.
        """
        return self._usual.deviation(float(_of_nearest((self.vectors @ vector)[np.newaxis])[0]))


@cache
def background_lines() -> Sequence[str]:
    """Return the lines of small talk."""
    return tuple(line for line in LINES.read_text(encoding="utf-8").splitlines() if line)


def _of_nearest(similarity: Vectors) -> Floats:
    """Return, for each row, the mean of its `NEAREST` greatest values."""
    greatest = np.partition(similarity, similarity.shape[1] - NEAREST, axis=1)[:, -NEAREST:]
    found: Floats = greatest.mean(axis=1)
    return found
