"""Runs `fact_check` on every claim, and confirms the quotations of every verdict.

The model is scripted over HTTP: it asks the questions of the data set, quotes the evidence with the stance of the
label, and adds one invented quotation per claim. So the verdicts do not measure a model. They show which evidence the
verification lets through, and how long a check takes without the model and the network.
"""

import asyncio
import hashlib
import json
import re
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.fact_check.averitec import DISTRACTORS, AveritecClaim, EvidenceWeb, read_claims
from bench.self_play.model_server import serving_model
from builtin_tools.web.research.fact_checking.evidence import FactVerdict
from builtin_tools.web.research.fact_checking.fact_check import fact_check
from builtin_tools.web.research.service import ResearchService
from builtin_tools.web.research.verification.sentences import sentences_of
from engine.agent.clients.completion import ModelCompletion
from engine.agent.clients.endpoint import ModelEndpoint
from engine.contract.context import CallContext
from engine.contract.turn import Turn
from engine.stores.clock import SystemClock
from engine.stores.embedder import WordLlamaEmbedder
from engine.stores.workspace import FolderWorkspace
from sandbox.namespace.backend import NamespaceSandbox

_SOURCE = re.compile(r'^\{"source": .*\}$', re.MULTILINE)
_LEAST_QUOTE = 20  # characters
_MOST_QUOTE = 60  # words


def bench(path: Path, most: int, console: Console) -> list[dict[str, Any]]:
    """Check the claims, print a table, and return its rows.

    Args:
        path: The file with the claims.
        most: The largest number of claims.
        console: Shows the table and the progress.
    """
    claims = read_claims(path)
    rows = summarize(asyncio.run(run(claims, claims[:most], console)))
    table = Table(title="fact_check on AVeriTeC, scripted model", title_justify="left")
    for heading in rows[0]:
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*(str(value) for value in row.values()))
    console.print(table)
    return rows


async def run(
    everything: Sequence[AveritecClaim], claims: Sequence[AveritecClaim], console: Console
) -> list[dict[str, Any]]:
    """Check claims one after the other. Return what was found for each.

    Args:
        everything: All claims, from which pages on other subjects are taken.
        claims: The claims to check.
        console: Shows the progress.
    """
    by_text = {each.text: each for each in claims}
    embedder = WordLlamaEmbedder()
    found = []
    with tempfile.TemporaryDirectory(prefix="knackbox-fact-check-") as folder, Progress(console=console) as progress:
        task = progress.add_task("checking claims", total=len(claims))
        async with serving_model(lambda body: (_answer(body, by_text), [])) as url:
            model = ModelCompletion(ModelEndpoint("openai", "scripted", url, "k", 60.0))
            for claim in claims:
                web = EvidenceWeb([*claim.pages, *_distractors(everything, claim)])
                ctx = _context(
                    Path(folder), ResearchService(web, web, lambda: embedder, Path(folder) / "journals"), model
                )
                began = time.perf_counter()
                made = await fact_check.run(ctx, {"claim": claim.text, "pages": 12})
                found.append(_row(claim, made.value, web, time.perf_counter() - began))
                progress.advance(task)
    return found


def summarize(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return one row for each label, and one for all claims."""
    groups = {label.value: [each for each in found if each["label"] == label] for label in FactVerdict}
    return [_summary(name, rows) for name, rows in (*groups.items(), ("all", list(found))) if rows]


def _summary(label: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    times = [each["seconds"] for each in rows]
    verdicts = Counter(each["verdict"] for each in rows)
    return {
        "label": label,
        "claims": len(rows),
        **{verdict.value: verdicts[verdict.value] for verdict in FactVerdict},
        "quotations": sum(each["quotations"] for each in rows),
        "confirmed": sum(each["confirmed"] for each in rows),
        "invented": sum(each["invented"] for each in rows),
        "removed": sum(each["removed"] for each in rows),
        "not counted": sum(each["not_counted"] for each in rows),
        "s, p50": round(median(times), 3),
        "s, p95": round(quantiles(times, n=20)[-1] if len(times) > 1 else times[0], 3),
    }


def _row(claim: AveritecClaim, output: Mapping[str, Any], web: EvidenceWeb, seconds: float) -> dict[str, Any]:
    return {
        "label": claim.label,
        "verdict": output["verdict"],
        "quotations": len(output["evidence"]),
        "confirmed": sum(_is_confirmed(each, web) for each in output["evidence"]),
        "invented": 1 if claim.pages else 0,
        "removed": output["removed"],
        "not_counted": sum(not each["counts"] for each in output["evidence"]),
        "seconds": seconds,
    }


def _is_confirmed(evidence: Mapping[str, Any], web: EvidenceWeb) -> bool:
    """Confirm a quotation without the code that found it."""
    text = web.pages[evidence["url"]].text
    same = hashlib.sha256(text.encode()).hexdigest() == evidence["sha256"]
    quoted: str = evidence["quote"]
    return same and text[evidence["start"] : evidence["end"]] == quoted


def _distractors(everything: Sequence[AveritecClaim], claim: AveritecClaim) -> list[Any]:
    others = [everything[(claim.number + step) % len(everything)] for step in range(1, DISTRACTORS + 1)]
    urls = {page.url for page in claim.pages}
    return [page for other in others for page in other.pages[:1] if page.url not in urls]


def _answer(body: Mapping[str, Any], claims: Mapping[str, AveritecClaim]) -> str:
    """Return the scripted answer to a request."""
    prompt = "\n".join(_texts(body))
    first = prompt.split("\n", 1)[0].removeprefix("Claim: ")
    text = first if first in claims else json.loads(first) if first.startswith('"') else first
    claim = claims[text]
    numbers = {head["url"]: head["source"] for head in map(json.loads, _SOURCE.findall(prompt))}
    if not numbers:
        return json.dumps({"questions": claim.questions})
    evidence: list[dict[str, Any]] = []
    for url, answer in claim.answers.items():
        quote = _quotation(answer)
        if url in numbers and quote and claim.label is not FactVerdict.NOT_ENOUGH_EVIDENCE:
            evidence.append({"source": numbers[url], "quote": quote, "stance": _stance(claim.label, len(evidence))})
    if claim.pages:
        invented = "It has been established beyond any doubt that " + claim.text
        evidence.append({"source": next(iter(numbers.values())), "quote": invented, "stance": "supports"})
    return json.dumps({"evidence": evidence})


def _texts(body: Mapping[str, Any]) -> list[str]:
    contents = [message["content"] for message in body["messages"] if message["role"] == "user"]
    return [
        text for each in contents for text in ([each] if isinstance(each, str) else [part["text"] for part in each])
    ]


def _quotation(answer: str) -> str:
    """Return the first sentence of an answer that is long enough to be quoted."""
    sentences = [each for each in sentences_of(answer) if len(each) >= _LEAST_QUOTE and len(each.split()) > 2]
    return " ".join(sentences[0].split()[:_MOST_QUOTE]) if sentences else ""


def _stance(label: FactVerdict, number: int) -> str:
    if label is FactVerdict.CONFLICTING:
        return ("supports", "refutes")[number % 2]
    return "supports" if label is FactVerdict.SUPPORTED else "refutes"


def _context(folder: Path, service: ResearchService, model: ModelCompletion) -> CallContext:
    return CallContext(
        turn=Turn(user="bench", agent="main"),
        call_id="call-1",
        sandbox=NamespaceSandbox(),
        workspace=FolderWorkspace(folder / "workspace"),
        clock=SystemClock(),
        services={ResearchService: service},
        llm_client=model,
    )
