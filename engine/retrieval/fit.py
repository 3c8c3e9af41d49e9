"""`fit`: how likely it is that a document is of any use for a request, so that nothing is offered where nothing fits.

A ranking only compares. This is a logistic model of three figures that mean the same for every query, fitted on one
half of BFCL's requests: to the best document of each with all functions there, and with those that answer it taken out.
"""

from math import exp

BIAS, SIMILARITY, COVERED, MEANT = -5.0, 4.0, 4.0, 3.0


def fit(similarity: float, covered: float, meant: float) -> float:
    """From 0 to 1. similarity: cosine of the request with the document's nearest vector. The others: `Matched`'s."""
    return 1 / (1 + exp(-(BIAS + SIMILARITY * similarity + COVERED * covered + MEANT * meant)))
