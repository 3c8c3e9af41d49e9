"""`passage_fits`: the probabilities that passages answer a request, so that a search can say that nothing fits.

They come from a logistic model of figures that are comparable between searches. docs/design/memory-search.md says how
the coefficients were fitted.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from engine.retrieval.passage_ranking import PassageFigures

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class FitModel:
    """The coefficients of the model. They hold for the cosines of one embedder.

    Attributes:
        meaning: For the cosine.
        matched: For the share of the request's words that match the passage.
        request: For the logarithm of the request's weight.
        relative: For the score relative to the best.
        foreign: For a passage whose title shares no word with the request, such as another speaker's name.
        alike: The cosine from which a passage of a small index fits whatever its probability. Where few passages are
            compared, all words are frequent, which makes the probabilities too low.
    """

    bias: float
    meaning: float
    matched: float
    request: float
    relative: float
    foreign: float
    alike: float


WORD_FIT = FitModel(-15.91, 1.51, 3.48, 1.80, 5.91, -1.13, alike=0.35)  # for WordLlama
SENTENCE_FIT = FitModel(-16.48, 4.02, 3.91, 1.63, 5.00, -1.13, alike=0.40)  # for all-MiniLM-L6-v2


def passage_fits(figures: PassageFigures, scores: Floats, request: float, model: FitModel = WORD_FIT) -> Floats:
    """Return, for each candidate, the probability from 0 to 1 that it answers the request.

    Args:
        figures: The figures of the candidates.
        scores: The scores of the candidates.
        request: Sum of the weights of the request's words. Longer requests and rarer words make it greater.
        model: The coefficients for the embedder that `figures.meaning` comes from.
    """
    best = float(scores.max(initial=0.0)) or 1.0
    evidence = model.meaning * figures.meaning + model.matched * figures.matched + model.foreign * figures.foreign
    evidence = evidence + model.relative * scores / best + (model.bias + model.request * np.log1p(request))
    found: Floats = (1 / (1 + np.exp(-evidence))).astype(np.float32)
    return found
