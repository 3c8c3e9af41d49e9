"""`PassageEncoder`: a sentence encoder that a `PassageIndex` compares requests and passages with."""

import threading

from cachetools import LRUCache

from engine.retrieval.passage_fit import FitModel
from engine.stores.embedder import Embedder, Vectors

_REQUESTS = 64  # vectors of recent requests, which are needed for each index that a request searches


def identity_of(name: str, dimensions: int) -> str:
    """Return the identity of an encoder. Vectors with different identities must not be compared."""
    return f"{name}:{dimensions}"


class PassageEncoder:
    """An encoder, and what its cosines mean. Thread-safe, as its embedder must be.

    Attributes:
        embedder: The encoder itself.
        fit: The model of the probability that a passage answers a request, for cosines of this encoder.
        identity: The identity of the encoder (see `identity_of`).
    """

    def __init__(self, embedder: Embedder, fit: FitModel) -> None:
        self.embedder = embedder
        self.fit = fit
        self.identity = identity_of(embedder.name, embedder.dimensions)
        self._requests: LRUCache[str, Vectors] = LRUCache(_REQUESTS)
        self._lock = threading.Lock()

    def of_request(self, text: str) -> Vectors:
        """Return the vector of a request. It takes milliseconds, unless the request is one of the most recent ones."""
        with self._lock:
            known = self._requests.get(text)
        if known is None:
            known = self.embedder.embed([text])[0]
            with self._lock:
                self._requests[text] = known
        return known
