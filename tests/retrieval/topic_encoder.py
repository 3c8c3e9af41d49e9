"""`TopicEncoder`: a small encoder for tests. It knows a few synonyms that word vectors do not, and has 384 dimensions."""

import zlib
from collections.abc import Sequence

import numpy as np

from builtin_tools.memory.encoder import EncoderLoader
from engine.retrieval.passage_encoder import PassageEncoder
from engine.retrieval.passage_fit import SENTENCE_FIT
from engine.stores.embedder import Vectors

TOPICS = {
    word: topic
    for topic, words in enumerate(
        ("boiler heating radiator warm", "kickbox gymnast sport exercise", "dog vet leash", "lives home moved")
    )
    for word in words.split()
}


class TopicEncoder:
    """Sums one random vector for each word. Words of the same topic share a vector."""

    dimensions = 384

    def __init__(self, name: str = "topics") -> None:
        self.name = name

    def embed(self, texts: Sequence[str]) -> Vectors:
        found = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                found[row] += self._vector(word.strip(".,?:!"))
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return found / np.maximum(lengths, 1e-9)

    def _vector(self, word: str) -> Vectors:
        seed = f"{self.name}{TOPICS.get(word, word)}"
        weight = 3.0 if word in TOPICS else 1.0
        return weight * np.random.default_rng(zlib.crc32(seed.encode())).standard_normal(self.dimensions)


def topic_encoder(name: str = "topics") -> PassageEncoder:
    """Return the encoder for an index."""
    return PassageEncoder(TopicEncoder(name), SENTENCE_FIT)


def loader_of(encoder: PassageEncoder) -> EncoderLoader:
    """Return a loader of an encoder for a memory."""
    return EncoderLoader(lambda: encoder.identity, lambda: encoder)
