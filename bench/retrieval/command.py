"""`knackbox bench retrieval`: measures methods of retrieval on public data, each alone and combined, in one run.

Parts: `bfcl` (precise requests), `short` (requests of one line, with known requests), `multi` (requests that need
several tools), `fit` (whether a method notices that nothing fits) and `speed` (latency and memory). A part whose folder
is missing is skipped.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from bench.retrieval import bfcl, multi_requests, refusals, short_requests, speed
from bench.retrieval.methods import CachedEmbedder, methods
from bench.retrieval.public_data import FILES, read_bfcl, read_multi, read_out_of_scope, read_short
from engine.stores.embedder import WordLlamaEmbedder
from engine.stores.sentence_embedder import SentenceEmbedder, installed

# The folder that each part needs.
PARTS = {"bfcl": "bfcl", "short": "short_requests", "multi": "multi_requests", "fit": "short_requests", "speed": "bfcl"}


def bench(rounds: int, console: Console, folders: Mapping[str, Path], parts: Sequence[str]) -> list[dict[str, Any]]:
    """Measure, print tables, and return their rows.

    Args:
        rounds: The number of requests timed by the part `speed`.
        console: Where to print.
        folders: The folders with public data, by name.
        parts: Names of the parts to measure; all if empty.
    """
    embedder, sentences = WordLlamaEmbedder(), SentenceEmbedder() if installed() else None
    if sentences is None:
        console.print(r"The sentence encoder is not measured: knackbox\[sentences] is not installed.")
    compared = methods(CachedEmbedder(embedder), CachedEmbedder(sentences) if sentences is not None else None)
    rows: list[dict[str, Any]] = []
    for part in parts or PARTS:
        folder = folders.get(PARTS[part])
        if folder is None:
            console.print(
                f"Skipped {part}: there is no {PARTS[part]}/{FILES[PARTS[part]]} in the folder with the data."
            )
        elif part == "bfcl":
            rows += bfcl.bench(read_bfcl(folder), compared, console)
        elif part == "short":
            rows += short_requests.bench(read_short(folder), compared, console)
        elif part == "multi":
            rows += multi_requests.bench(read_multi(folder), compared, console)
        elif part == "fit":
            outside = folders.get("out_of_scope")
            if outside is None:
                console.print("Skipped out-of-scope requests: there is no out_of_scope/requests.json.")
            texts = read_out_of_scope(outside) if outside is not None else []
            rows += refusals.bench(read_short(folder), texts, compared, console)
        else:
            rows += speed.bench(read_bfcl(folder), embedder, sentences, rounds, console)
    return rows
