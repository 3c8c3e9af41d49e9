"""Orders the candidates of a search for passages by their combined figures.

docs/design/memory-search.md says how the weights were chosen.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WORDS, MEANING, MATCHED = 0.35, 0.25, 0.40  # weights of the figures; each is divided by its best value
GROUP = 0.2  # weight of the group's score
LENGTH = 0.05  # times the logarithm of a passage's length in terms: short passages say little
ASKS = 0.07  # subtracted for a passage that ends with a question
TITLED = 0.1  # added for a passage whose title has a word of the request, such as the name of the speaker

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PassageFigures:
    """The figures of the candidates for one request, as parallel arrays.

    Attributes:
        words: BM25 scores.
        meaning: Cosines of the candidates and the request.
        matched: The share of the request's words that match the candidate.
        titled: 1 if a word of the candidate's title is in the request, otherwise 0.
        foreign: 1 if the candidate has a title, but no word of it is in the request, otherwise 0.
        group: The score of the group that a candidate is in.
        length: The number of terms in the candidate.
        asks: 1 if the candidate ends with a question, otherwise 0.
    """

    words: Floats
    meaning: Floats
    matched: Floats
    titled: Floats
    foreign: Floats
    group: Floats
    length: npt.NDArray[np.integer]
    asks: npt.NDArray[np.integer]

    @property
    def scores(self) -> Floats:
        """The scores by which the candidates are ordered."""
        said = WORDS * _of_best(self.words) + MEANING * _of_best(self.meaning) + MATCHED * _of_best(self.matched)
        place = GROUP * _of_best(self.group) + TITLED * self.titled
        found: Floats = said + place + (LENGTH * np.log1p(self.length) - ASKS * self.asks).astype(np.float32)
        return found


def _of_best(figures: Floats) -> Floats:
    """Divide figures by the greatest one. Negative figures become 0."""
    best = float(figures.max(initial=0.0))
    found: Floats = (np.maximum(figures, 0) / (best or 1.0)).astype(np.float32)
    return found
