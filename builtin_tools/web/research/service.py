"""`ResearchService`: what the tools `deep_research` and `fact_check` need, provided by the web pack."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from builtin_tools.web.contract import PageReader, WebSearch

if TYPE_CHECKING:
    from engine.stores.embedder import Embedder  # imports numpy, which listing tools must not load


@dataclass(frozen=True, slots=True)
class ResearchService:
    """The parts of a research that do not depend on the call.

    Attributes:
        embedder: Returns the embedder that ranks passages, which takes a second to load.
        folder: The folder of the journals.
    """

    reader: PageReader
    search: WebSearch
    embedder: "Callable[[], Embedder]"
    folder: Path
