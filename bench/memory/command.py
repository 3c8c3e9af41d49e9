"""`knackbox bench memory`: measures how well and how fast the memory finds what was said, on LoCoMo.

Recall is measured on the conversations, latency on many entries that are made of their turns.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.memory import recall, speed
from bench.memory.locomo import read_locomo
from engine.retrieval.passage_encoder import PassageEncoder
from engine.stores.embedder import WordLlamaEmbedder


def bench(
    rounds: int, console: Console, folder: Path, sizes: Sequence[int], encoder: PassageEncoder | None = None
) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows.

    Args:
        rounds: The number of questions timed at each size.
        console: Where to print.
        folder: The folder with the JSON files of LoCoMo.
        sizes: Numbers of entries at which latency is measured.
        encoder: An encoder that is measured beside the default.
    """
    conversations, embedder = read_locomo(folder), WordLlamaEmbedder()
    rows = recall.bench(conversations, embedder, console, encoder)
    return [*rows, *speed.bench(conversations, embedder, sizes, rounds, console, encoder=encoder)]
