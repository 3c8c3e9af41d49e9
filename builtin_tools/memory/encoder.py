"""`EncoderLoader`: the sentence encoder that `[packs.memory] encoder` chooses, loaded at its first use.

If it cannot be loaded, the memory works without it, as with the default setting.
"""

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from engine.contract.failure import ConfigError

if TYPE_CHECKING:
    from engine.retrieval.passage_encoder import PassageEncoder

EncoderName = Literal["words", "sentences"]  # the same names as in [skills]

log = logging.getLogger(__name__)


class EncoderLoader:
    """Loads an encoder once. Thread-safe."""

    def __init__(self, identity: Callable[[], str], load: "Callable[[], PassageEncoder]") -> None:
        """Create the object. Nothing is loaded yet.

        Args:
            identity: Returns the identity of the encoder without loading it.
            load: Loads the encoder. Raises ConfigError if that is impossible.
        """
        self.identity = identity
        self._load = load
        self._lock = threading.Lock()
        self._loaded: PassageEncoder | None = None
        self._problem = ""

    @property
    def problem(self) -> str:
        """Why the encoder cannot be loaded, and what to do; "" if it is loaded or was not needed yet."""
        return self._problem

    def get(self) -> "PassageEncoder | None":
        """Return the encoder; None if it cannot be loaded."""
        with self._lock:
            if self._loaded is None and not self._problem:
                try:
                    self._loaded = self._load()
                except ConfigError as error:
                    self._problem = str(error)
                    log.warning("The memory is searched without the sentence encoder: %s", error)
            return self._loaded


def encoder_of(name: EncoderName) -> EncoderLoader | None:
    """Return what loads the encoder with this name; None for ``"words"``, which needs none."""
    return None if name == "words" else EncoderLoader(_identity, load_sentences)


def load_sentences() -> "PassageEncoder":
    """Load all-MiniLM-L6-v2, with its model of the fit.

    Raises:
        ConfigError: Its files are missing, or are not the expected ones.
    """
    from engine.retrieval.passage_encoder import PassageEncoder  # noqa: PLC0415 -- numpy, which only a search needs
    from engine.retrieval.passage_fit import SENTENCE_FIT  # noqa: PLC0415 -- same
    from engine.stores.sentence_embedder import SentenceEmbedder  # noqa: PLC0415 -- same

    return PassageEncoder(SentenceEmbedder(), SENTENCE_FIT)


def _identity() -> str:
    from engine.retrieval.passage_encoder import identity_of  # noqa: PLC0415 -- numpy, which only a search needs
    from engine.stores.sentence_embedder import DIMENSIONS, NAME  # noqa: PLC0415 -- same

    return identity_of(NAME, DIMENSIONS)
