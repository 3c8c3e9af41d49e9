"""`fit`: how likely it is that a document is of any use for a request, so that nothing is offered where nothing fits.

A ranking only compares. This is a logistic model of three figures that mean the same for every query, fitted on one
half of BFCL's requests: to the best of all functions for each, and to the best of 100 that do not answer it.
"""

from math import exp

BIAS, SIMILARITY, MEANT, BOTH = -2.6, 0.5, 2.9, 9.8


def fit(similarity: float, covered: float, meant: float) -> float:
    """From 0 to 1. similarity: cosine of the request with the document's nearest vector. The others: `Matched`'s.

    What a document covers counts only as far as it is alike: a short request is soon covered by a chance word.
    """
    evidence = SIMILARITY * similarity + MEANT * meant + BOTH * similarity * covered
    return 1 / (1 + exp(-(BIAS + evidence)))
