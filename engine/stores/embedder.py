"""`Embedder`: turns text into unit vectors. `WordLlamaEmbedder` implements it with the weights of a Python package.

WordLlama (https://github.com/dleemiller/WordLlama) averages one 256-dimensional vector per token. Its files are read
without its code: importing the code takes over a second and configures the root logger, and the code pads every text
of a batch to the length of the longest.
"""

import zlib
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from engine.contract.failure import ConfigError

Vectors = npt.NDArray[np.float32]

WEIGHTS = "weights/l2_supercat_256.safetensors"
TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
MODEL = "wordllama-l2-supercat-256"
TENSOR = "embedding.weight"
MAX_CHARACTERS = 8_000  # the mean vector of a longer text says little about the text, and queries must be fast


class Embedder(Protocol):
    """Turns texts into vectors whose dot product is the similarity of their meanings."""

    @property
    def name(self) -> str:
        """The name of the model. Vectors of different models must not be compared."""
        ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts.

        Returns:
            float32 of shape (len(texts), dimensions). Rows have length 1, or are zero for texts without words.
        """
        ...


class WordLlamaEmbedder:
    """Embeds text with WordLlama, in 256 dimensions, offline. Thread-safe.

    Loading the model takes about 0.2 s, and embedding a query about 0.05 ms.
    """

    def __init__(self) -> None:
        """Load the model.

        Raises:
            ConfigError: The files of the model are missing from the installation.
        """
        from safetensors import SafetensorError, safe_open  # noqa: PLC0415 - heavy, kept out of start-up
        from tokenizers import Tokenizer  # noqa: PLC0415 - heavy, kept out of start-up

        folder = _package_folder()
        try:
            with safe_open(folder / WEIGHTS, framework="numpy") as file:
                self._table: Vectors = np.ascontiguousarray(file.get_tensor(TENSOR), dtype=np.float32)
        except (OSError, SafetensorError) as error:
            raise _broken(folder / WEIGHTS, error) from error
        try:
            tokenizer = (folder / TOKENIZER).read_bytes()
        except FileNotFoundError as error:
            raise _broken(folder / TOKENIZER, "it is missing") from error
        self._tokenizer = Tokenizer.from_str(tokenizer.decode())
        # A release with different weights is a different model, whose vectors must not be compared with these.
        self._name = f"{MODEL}-{zlib.crc32(tokenizer, zlib.crc32(self._table.data)):08x}"
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()

    @property
    def name(self) -> str:
        return self._name

    @property
    def dimensions(self) -> int:
        return int(self._table.shape[1])

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed texts (see `Embedder.embed`), each truncated to `MAX_CHARACTERS`."""
        result = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        last = len(self._table) - 1
        for row, text in enumerate(texts):
            tokens = self._tokenizer.encode(text[:MAX_CHARACTERS], add_special_tokens=False).ids
            if tokens:
                # np.add.reduce and a dot product take half as long as mean and norm.
                total = np.add.reduce(self._table[np.minimum(tokens, last)], axis=0)
                result[row] = total
        lengths = np.sqrt(np.einsum("ij,ij->i", result, result))
        result /= np.maximum(lengths, np.finfo(np.float32).tiny)[:, np.newaxis]
        return result


@cache
def shared_wordllama() -> WordLlamaEmbedder:
    """Return the embedder that all engines of this process share. It takes 50 MB, and never changes.

    Raises:
        ConfigError: The files of the model are missing from the installation.
    """
    return WordLlamaEmbedder()


def _package_folder() -> Path:
    spec = find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise ConfigError(
            "The package wordllama is not installed, so nothing can be embedded. Run `pip install wordllama`."
        )
    return Path(spec.origin).parent


def _broken(path: Path, why: object) -> ConfigError:
    return ConfigError(
        f"{path}: the embedding model cannot be read ({why}). Run `pip install --force-reinstall wordllama`."
    )
