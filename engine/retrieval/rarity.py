"""How rare terms are among the documents there are."""

from typing import Any

import numpy as np

# Documents that are imagined beside those there are. Of three documents each word is in a third of them, so that all
# words of theirs would count for little beside a stranger's, and a request would never seem covered.
BACKGROUND = 500


def rarity(documents: int, holders: Any) -> Any:
    """How rare a term is (Lucene's idf, never negative). holders: documents that have it, one number or an array."""
    return np.log1p((documents + BACKGROUND - holders + 0.5) / (holders + 0.5))
