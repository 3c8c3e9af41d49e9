"""`knackbox bench retrieval` on a few made-up tools and requests, and its figures."""

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from bench.retrieval import command, speed
from bench.retrieval.figures import all_found, auroc, recall
from bench.retrieval.methods import Found
from bench.retrieval.public_data import Request, folders_in, read_bfcl, read_short
from bench.retrieval.short_requests import divided, with_known
from bench.retrieval.speed_ways import SENTENCES, WAYS
from engine.stores.embedder import WordLlamaEmbedder
from tests.interfaces.cli import here

pytestmark = pytest.mark.spec("SKILL-14")

TOOLS = {
    "slug": "Turn a headline into a URL slug.",
    "hypot": "Compute the length of the hypotenuse of a triangle.",
    "invoice_total": "Add up the amounts of an invoice with tax.",
    "weather": "Tell the weather forecast of a city.",
}
REQUESTS = {
    "slug": ["make a url slug from this headline", "I need a slug for a blog post", "headline to slug"],
    "hypot": ["how long is the hypotenuse of 3 and 4", "third side of a triangle", "triangle length"],
    "invoice_total": ["what is the total of this invoice", "sum the invoice", "invoice with tax"],
    "weather": ["will it rain in Oslo", "forecast for Berlin", "weather of Rome"],
}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a folder with all four kinds of data."""

    def write(path: str, content: object) -> None:
        file = tmp_path / path
        file.parent.mkdir(exist_ok=True)
        lines = isinstance(content, tuple)
        file.write_text("\n".join(map(json.dumps, content)) if lines else json.dumps(content))  # type: ignore[arg-type]

    pairs = [(tool, query) for tool, queries in REQUESTS.items() for query in queries]
    functions = [{"id": f"{t}#0", "name": t, "description": d, "parameters": {}} for t, d in TOOLS.items()]
    write("bfcl/tools.jsonl", tuple(functions))
    write(
        "bfcl/queries.jsonl",
        tuple({"id": str(at), "query": query, "relevant": [f"{tool}#0"]} for at, (tool, query) in enumerate(pairs)),
    )
    requests = [{"tool": tool, "query": query} for tool, query in pairs]
    write("short_requests/requests.json", {"tools": TOOLS, "requests": requests})
    apis = {t: {"tool": "Lab", "api": t, "description": d, "parameters": []} for t, d in TOOLS.items()}
    both = [{"request": "make a slug of the headline and sum the invoice", "needs": ["slug", "invoice_total"]}]
    write("multi_requests/requests.json", {"apis": apis, "requests": both})
    write("out_of_scope/requests.json", ["how many planets are there"])
    return tmp_path


def test_every_method_is_measured_in_each_part_of_the_data(data: Path) -> None:
    console = Console(file=StringIO())
    rows = command.bench(1, console, folders_in(data), ["bfcl", "short", "multi", "fit"])
    by_what: dict[str, set[str]] = {}
    for row in rows:
        by_what.setdefault(row["what"], set()).add(row["way"])
    ways = by_what["all"]
    assert {"words (BM25F)", "meaning (WordLlama)", "ours"} <= ways
    for what in ("unseen", "0 known, all", "10 known, unseen", "32 known, all", "several, all", "auroc, 10 known"):
        assert by_what[what] == ways, what
    assert {"0 known: out of scope", "10 known: removed tools"} <= by_what["offered"]
    assert {row["all in 10"] for row in rows if row["what"] == "several, all"} == {1.0}


def test_the_speed_and_memory_of_every_method_are_measured_and_a_missing_encoder_is_named(data: Path) -> None:
    out = StringIO()
    documents = read_bfcl(data / "bfcl")
    rows = speed.bench(documents, WordLlamaEmbedder(), None, 2, Console(file=out, width=200), sizes=(8, 16))
    for what in ("8 tools", "16 tools"):
        measured = [row["way"] for row in rows if row["what"] == what and row["count"]]
        assert measured == [way for way in WAYS if way not in SENTENCES]
    assert all(row["MiB"] is not None for row in rows if row["what"] == "16 tools" and row["count"])
    assert "sentences (MiniLM): the encoder is not installed" in out.getvalue()
    assert "ours + sentences: the encoder is not installed" in out.getvalue()


def test_parts_without_data_are_skipped_with_one_line_each(data: Path) -> None:
    out = StringIO()
    folders = {"multi_requests": folders_in(data)["multi_requests"]}
    rows = command.bench(1, Console(file=out, width=200), folders, [])
    assert {row["what"] for row in rows} == {"several, all", "several, unseen"}
    skipped = [line for line in out.getvalue().splitlines() if line.startswith("Skipped")]
    assert len(skipped) == len(command.PARTS) - 1
    assert "bfcl/tools.jsonl" in skipped[0]


def test_an_unknown_part_is_a_usage_error(capfd: pytest.CaptureFixture[str], data: Path) -> None:
    ran = here(capfd, "bench", "retrieval", "--data", str(data), "--part", "sideways")
    assert (ran.code, ran.out) == (2, "")
    assert "no part 'sideways'" in ran.err


def test_no_tested_request_is_known_to_its_tool(data: Path) -> None:
    short = read_short(data / "short_requests")
    known, tested = divided(short)
    assert len(tested) + sum(map(len, known.values())) == len(short.requests)
    documents = with_known(short.documents, known, 2)
    assert [len(each.examples) for each in documents] == [2, 2, 2, 2]
    assert not {one.text for one in tested} & {text for each in documents for text in each.examples}


def test_the_figures_are_computed_correctly() -> None:
    request = Request("both", frozenset({"a", "b"}), tuned_on=False)
    found = [Found(id_, 0.5) for id_ in ("a", "c", "b")]
    assert recall([(request, found)])["r@1"] == 0.5
    assert recall([(request, found)])["r@5"] == 1.0
    assert (all_found([(request, found)], 2), all_found([(request, found)], 3)) == (0.0, 1.0)
    assert auroc([0.9, 0.8], [0.1, 0.2]) == 1.0
    assert auroc([0.5], [0.5]) == 0.5
    assert auroc([0.1, 0.9], [0.5]) == 0.5
