"""`FitEvidence`: the evidence for and against a document being useful for a request, and the resulting probability.

A ranking only compares documents with each other, so it cannot say that none of them fits. The probability comes from a
logistic model of five figures. Similarity is measured relative to small talk, in standard deviations, instead of as an
absolute cosine: the more vectors an index has, the nearer the nearest one is to any text, even to an unrelated one.
docs/design/retrieval.md says how the coefficients were fitted.
"""

from dataclasses import dataclass
from math import exp, log1p

BIAS = -3.0
WORDS, REQUEST, NEARNESS, HEAD, CHAT = 0.29, 0.50, 0.86, 2.50, -0.36  # coefficients, in the order of the fields
# Added for a document that shares no word with the request, and whose name and description have no similar word.
# Chosen by hand: in the public data sets such documents are too rare to fit a coefficient, but in a home with a single
# skill, every unrelated request finds such a document.
UNMATCHED = -1.2


@dataclass(frozen=True, slots=True)
class FitEvidence:
    """The figures for one document and one request.

    Attributes:
        words: BM25 score of the document.
        request: Sum of the weights of the request's terms, which grows with its length and the rarity of its words.
        nearness: Cosine of the request and the document's nearest vector, in standard deviations above the mean cosine
            of lines of small talk and their nearest vectors in this index.
        head: Share of the words in the document's name and description that match the request, from 0 to 1.
        chat: How much the request resembles small talk, in standard deviations above the mean with which a line of
            small talk resembles the other lines.
    """

    words: float
    request: float
    nearness: float
    head: float
    chat: float

    @property
    def terms(self) -> dict[str, float]:
        """The summands of the logistic model, by name. Positive ones are evidence that the document is useful."""
        return {
            "words": WORDS * log1p(self.words),
            "request": REQUEST * log1p(self.request),
            "nearness": NEARNESS * self.nearness,
            "head": HEAD * self.head,
            "chat": CHAT * self.chat,
            "unmatched": 0.0 if self.words or self.head else UNMATCHED,
        }

    @property
    def probability(self) -> float:
        """The probability, from 0 to 1, that the document is useful for the request."""
        return 1 / (1 + exp(-(BIAS + sum(self.terms.values()))))
