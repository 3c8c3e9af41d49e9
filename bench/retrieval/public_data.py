"""Reads tools, and requests with the tools that answer them, from folders with public data.

Requests are divided into two halves: weights are chosen on one, and the other is reported as "unseen".
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from engine.retrieval.document import Document, tool_document

HELP = (
    "retrieval needs --data DIR with at least one of these folders: bfcl (tools.jsonl, one object per line: id, name, "
    "description, parameters; and queries.jsonl: id, query, relevant: ids of tools; from the Berkeley Function-Calling "
    "Leaderboard v4 without multi-turn categories, https://github.com/ShishirPatil/gorilla), short_requests "
    "(requests.json: tools, and requests with query and tool; from https://github.com/HowieHwong/MetaTool), "
    "multi_requests (requests.json: apis, and requests with request and needs; G2 of "
    "https://github.com/THUNLP-MT/StableToolBench), out_of_scope (requests.json: a list; from "
    "https://github.com/clinc/oos-eval)."
)
FILES = {
    "bfcl": "tools.jsonl",
    "short_requests": "requests.json",
    "multi_requests": "requests.json",
    "out_of_scope": "requests.json",
}
# Messages to agents that do not ask for anything a tool does.
SMALL_TALK = """hello there
thanks, that is all for today
how are you doing?
good morning
tell me a joke
who are you
what do you think about love?
I feel tired today
you are wrong
ok, continue
yes please go ahead
write a poem about autumn
that looks great, well done
what is your name
can you explain that again?
no, stop it
let us talk about something else
why did you do that
I had eggs for breakfast
my dog ran away""".splitlines()


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the data set.

    Attributes:
        relevant: Ids of the documents that answer it.
        tuned_on: Whether the request is in the half used to choose the weights.
    """

    text: str
    relevant: frozenset[str]
    tuned_on: bool


@dataclass(frozen=True, slots=True)
class Data:
    documents: tuple[Document, ...]
    requests: tuple[Request, ...]


def folders_in(data: Path) -> dict[str, Path]:
    """Return the folders with public data by name. `data` itself may also be the folder `bfcl`."""
    found = {name: data / name for name, file in FILES.items() if (data / name / file).is_file()}
    if "bfcl" not in found and (data / FILES["bfcl"]).is_file():
        found["bfcl"] = data
    return found


def read_bfcl(folder: Path) -> Data:
    """Read the Berkeley Function-Calling Leaderboard: its requests are often precise and contain arguments.

    The half of a request depends on the name of its first answer, so that no function is in both halves.

    Raises:
        OSError: A file is missing.
        ValueError: A line is not JSON.
        KeyError: A field is missing.
    """
    tools = _lines(folder / "tools.jsonl")
    documents = tuple(
        tool_document(tool["name"], tool["description"], tool["parameters"], id_=tool["id"]) for tool in tools
    )
    names = {each.id: each.called for each in documents}
    requests = tuple(
        Request(one["query"], frozenset(one["relevant"]), _tuned_on(min(names[id_] for id_ in one["relevant"])))
        for one in _lines(folder / "queries.jsonl")
    )
    return Data(documents, requests)


def read_short(folder: Path) -> Data:
    """Read requests of one line, each answered by one tool. The tools have no parameters.

    The half of a request depends on its tool. It raises the same exceptions as `read_bfcl`.
    """
    content = json.loads((folder / "requests.json").read_text())
    documents = tuple(tool_document(name, text, {}) for name, text in content["tools"].items())
    requests = tuple(
        Request(one["query"], frozenset([one["tool"]]), _tuned_on(one["tool"])) for one in content["requests"]
    )
    return Data(documents, requests)


def read_multi(folder: Path) -> Data:
    """Read requests that need several tools.

    The half of a request depends on its text. It raises the same exceptions as `read_bfcl`.
    """
    content = json.loads((folder / "requests.json").read_text())
    documents = tuple(
        tool_document(f"{api['tool']} {api['api']}", api["description"], _schema(api["parameters"]), id_=id_)
        for id_, api in content["apis"].items()
    )
    requests = tuple(
        Request(one["request"], frozenset(one["needs"]), _tuned_on(one["request"])) for one in content["requests"]
    )
    return Data(documents, requests)


def read_out_of_scope(folder: Path) -> list[str]:
    """Read requests that no assistant of the data set supports. It raises the same exceptions as `read_bfcl`."""
    return [str(text) for text in json.loads((folder / "requests.json").read_text())]


def with_examples(document: Document, examples: Iterable[str]) -> Document:
    """Return the document with these known requests, shortened as the engine does when it stores them."""
    return replace(document, examples=tuple(text[:500] for text in examples))


def multiplied(documents: tuple[Document, ...], count: int) -> list[Document]:
    """Return `count` documents: the given ones, then copies of them with other names and partly other words."""
    made: list[Document] = []
    vocabulary = sorted({word for each in documents for word in each.text.split()})
    for number in range(count):
        original = documents[number % len(documents)]
        copy = number // len(documents)
        if not copy:
            made.append(replace(original, name=original.id))
            continue
        words = original.text.split()
        for at in range(copy % 3, len(words), 3):  # replace every third word
            words[at] = vocabulary[int.from_bytes(sha256(f"{number} {at}".encode()).digest()[:4]) % len(vocabulary)]
        name = f"{original.id}_{copy}"
        made.append(replace(original, id=name, name=name, text=" ".join(words)))
    return made


def _schema(parameters: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"properties": {each["name"]: {"description": each["description"]} for each in parameters}}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _tuned_on(name: str) -> bool:
    return int(sha256(name.encode()).hexdigest(), 16) % 2 == 0
