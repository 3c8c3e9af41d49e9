"""A short version of the benchmark of fact_check, with claims written for this test."""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.fact_check.averitec import read_claims
from bench.fact_check.command import run, summarize


def entry(claim: str, label: str, *answers: tuple[str, str]) -> dict[str, Any]:
    return {
        "claim": claim,
        "label": label,
        "questions": [
            {
                "question": f"What is known about this: {claim}",
                "answers": [{"answer": said, "answer_type": "Extractive", "source_url": url}],
            }
            for url, said in answers
        ],
    }


ENTRIES = [
    entry("Tarn has a bridge.", "Supported", ("https://a.example/", "The bridge of Tarn was built by local masons.")),
    entry("Tarn has 9 mills.", "Refuted", ("https://b.example/", "There are four mills in Tarn, says the council.")),
    entry(
        "Tarn is a port.",
        "Conflicting Evidence/Cherrypicking",
        ("https://c.example/", "Tarn is a port for small boats and yachts."),
        ("https://d.example/", "Large ships have no port at Tarn since the war."),
    ),
    entry("Tarn is old.", "Not Enough Evidence", ("https://e.example/", "Nobody knows when the town was founded.")),
]


@pytest.mark.slow
@pytest.mark.spec("WEB-5")
async def test_every_quotation_of_a_verdict_is_confirmed_and_invented_ones_are_removed(tmp_path: Path) -> None:
    path = tmp_path / "dev250.json"
    path.write_text(json.dumps(ENTRIES))
    claims = read_claims(path)
    rows = summarize(await run(claims, claims, Console(quiet=True)))
    total = rows[-1]
    assert (total["label"], total["claims"]) == ("all", 4)
    assert total["quotations"] == total["confirmed"] == 4
    assert total["invented"] == total["removed"] == 4
    for row in rows[:-1]:
        assert row[row["label"]] == row["claims"], row
