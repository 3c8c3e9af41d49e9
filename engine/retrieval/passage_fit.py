"""`passage_fits`: the probabilities that passages answer a request, so that a search can say that nothing fits.

They come from a logistic model of figures that are comparable between searches. docs/design/memory-search.md says how
the coefficients were fitted.
"""

import numpy as np
import numpy.typing as npt

from engine.retrieval.passage_ranking import PassageFigures

BIAS = -15.91
MEANING, MATCHED, REQUEST, RELATIVE = 1.51, 3.48, 1.80, 5.91
FOREIGN = -1.13  # for a passage whose title shares no word with the request, such as another speaker's name

Floats = npt.NDArray[np.float32]


def passage_fits(figures: PassageFigures, scores: Floats, request: float) -> Floats:
    """Return, for each candidate, the probability from 0 to 1 that it answers the request.

    Args:
        figures: The figures of the candidates.
        scores: The scores of the candidates.
        request: Sum of the weights of the request's words. Longer requests and rarer words make it greater.
    """
    best = float(scores.max(initial=0.0)) or 1.0
    evidence = MEANING * figures.meaning + MATCHED * figures.matched + FOREIGN * figures.foreign
    evidence = evidence + RELATIVE * scores / best + (BIAS + REQUEST * np.log1p(request))
    found: Floats = (1 / (1 + np.exp(-evidence))).astype(np.float32)
    return found
