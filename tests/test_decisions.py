"""The records in docs/decisions are numbered, have the same sections, and are all in the index."""

import re
from pathlib import Path

import pytest

DECISIONS = Path(__file__).resolve().parents[1] / "docs" / "decisions"

pytestmark = pytest.mark.spec("DOC-3")


def test_decision_records_are_numbered_without_gaps_complete_and_in_the_index() -> None:
    records = sorted(DECISIONS.glob("[0-9]*.md"))
    index = (DECISIONS / "README.md").read_text("utf-8")
    assert [int(each.name[:4]) for each in records] == list(range(1, len(records) + 1))
    for number, record in enumerate(records, 1):
        text = record.read_text("utf-8")
        title = text.splitlines()[0].removeprefix(f"# {number}. ")
        assert f"| {number} | [{title}]({record.name}) |" in index
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == ["Context", "Decision", "Consequences"]
        assert re.search(r"^Status: ", text, re.MULTILINE)


def test_links_between_documents_lead_to_files() -> None:
    for document in DECISIONS.glob("*.md"):
        targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", document.read_text("utf-8"))
        assert [f"{document.name}: {each}" for each in targets if not (DECISIONS / each).exists()] == []
