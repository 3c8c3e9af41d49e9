"""Adds the scores of neighbouring passages to a passage's own: what was said before and after is part of its meaning.

An answer often has no word of the request, because these words are in the question before it. Therefore a passage that
follows a question gets a larger share of the question's score. Scores are added when a search runs, so the terms and
the vector that are stored for a passage do not depend on its neighbours.
"""

import numpy as np
import numpy.typing as npt

from engine.retrieval.passage_arrays import NONE, Columns, Ints

BEFORE, AFTER = 0.3, 0.3  # weights of the passages before and after
ANSWERED = 0.3  # additional weight of the passage before, if it is a question

Floats = npt.NDArray[np.float32]


def gathered(figures: Floats, slots: Ints, columns: Columns) -> Floats:
    """Return the figures of some slots, with the weighted figures of their neighbours added.

    Args:
        figures: One figure for each slot, and a 0 at the end that stands for missing neighbours.
        slots: The slots.
        columns: The columns of all slots.
    """
    none = len(figures) - 1
    before, after = (np.minimum(columns[name][slots], none) for name in ("before", "after"))
    asked = columns["asks"][np.minimum(before, none - 1)]  # without a neighbour, the value does not matter
    found: Floats = figures[slots] + (BEFORE + ANSWERED * asked) * figures[before] + AFTER * figures[after]
    return found.astype(np.float32)


def neighbourhood(slots: Ints, columns: Columns) -> Ints:
    """Return these slots and their neighbours' slots, each once, in order."""
    every = np.unique(np.concatenate([slots, columns["before"][slots], columns["after"][slots]]))
    found: Ints = every[every != NONE]
    return found
