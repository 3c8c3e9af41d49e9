"""Orders the candidates of a search for passages by their combined figures.

docs/design/memory-search.md says how the weights were chosen.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

WORDS, MEANING, MATCHED = 0.35, 0.25, 0.40  # weights of the figures; each is divided by its best value
GROUP = 0.2  # weight of the group's score
LENGTH = 0.05  # for each e-fold of a passage's terms: a short one rarely says something
ASKS = 0.07  # what a passage loses that asks something instead of saying it
TITLED = 0.1  # for a passage whose title has a word of the request, such as its speaker

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PassageFigures:
    """The figures of the candidates for one request, as parallel arrays.

    Attributes:
        words: BM25 scores.
        meaning: Cosines.
        matched: The share of the request's words that match.
        titled: Whether a word of its title is in the request.
        foreign: Whether it has a title, of which no word is in the request.
        group: The score of the group that a candidate is in.
        length: The number of terms.
        asks: Whether it ends with a question.
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
    """Divide figures by the best one. Negative ones become 0."""
    best = float(figures.max(initial=0.0))
    found: Floats = (np.maximum(figures, 0) / (best or 1.0)).astype(np.float32)
    return found
