"""Requests and the tools that answer them, read from a folder, for the benchmark of retrieval."""

import json
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.retrieval.document import Document, tool_document

HELP = (
    "retrieval needs --data DIR, a folder with tools.jsonl (id, name, description, parameters; an object a line) "
    "and queries.jsonl (id, query, relevant: ids of tools). The figures in docs/design/retrieval.md are of the "
    "Berkeley Function-Calling Leaderboard, v4, its Python categories without the multi-turn ones, pooled "
    "(https://github.com/ShishirPatil/gorilla, berkeley-function-call-leaderboard/bfcl_eval/data)."
)


@dataclass(frozen=True, slots=True)
class Request:
    """relevant: ids of the documents that answer it. tuned_on: in the half that weights were chosen on."""

    text: str
    relevant: frozenset[str]
    tuned_on: bool


@dataclass(frozen=True, slots=True)
class Data:
    documents: tuple[Document, ...]
    requests: tuple[Request, ...]


def read(folder: Path) -> Data:
    """Raises OSError, ValueError and KeyError for a folder that does not hold it.

    The halves are by the name of the first answer, so that no function is in both.
    """
    tools = _lines(folder / "tools.jsonl")
    documents = tuple(
        tool_document(tool["name"], tool["description"], tool["parameters"], id_=tool["id"]) for tool in tools
    )
    names = {each.id: each.called for each in documents}
    requests = tuple(
        Request(one["query"], frozenset(one["relevant"]), _half(min(names[id_] for id_ in one["relevant"])) == 0)
        for one in _lines(folder / "queries.jsonl")
    )
    return Data(documents, requests)


def multiplied(documents: tuple[Document, ...], count: int) -> list[Document]:
    """So many documents: these, then these again under other names and in other words."""
    made: list[Document] = []
    vocabulary = sorted({word for each in documents for word in each.text.split()})
    for number in range(count):
        of = documents[number % len(documents)]
        turn = number // len(documents)
        if not turn:
            made.append(replace(of, name=of.id))
            continue
        words = of.text.split()
        for at in range(turn % 3, len(words), 3):  # every third word is another one
            words[at] = vocabulary[int.from_bytes(sha256(f"{number} {at}".encode()).digest()[:4]) % len(vocabulary)]
        made.append(replace(of, id=f"{of.id}_{turn}", name=f"{of.id}_{turn}", text=" ".join(words)))
    return made


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _half(name: str) -> int:
    return int(sha256(name.encode()).hexdigest(), 16) % 2
