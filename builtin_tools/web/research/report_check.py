"""Confirms a report of `deep_research`, without the code that wrote it.

It reads the saved sources beside the report, or other texts of the pages, and checks that every quotation is at the
stated place of a source with the stated hash, and that the report shows what the file of citations says.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from builtin_tools.web.research.plain_text import from_markdown, one_line
from builtin_tools.web.research.report import CITATIONS

MOST_BYTES = 64 << 20
_FINDING = re.compile(r"^- (?P<sentence>.*?)(?P<numbers>(?: \[\d+\])+)(?: \*\*Not supported: .*\*\*)?$")
_REFERENCE = re.compile(
    r"^(?P<number>\d+)\. “(?P<quote>.*)” Source (?P<source>\d+), characters (?P<start>\d+) to (?P<end>\d+), "
    r"SHA-256 (?P<sha256>[0-9a-f]{64})\.$"
)


@dataclass(frozen=True, slots=True)
class ReportCheck:
    """The result of a check.

    Attributes:
        confirmed: The number of quotations that are at their place.
        problems: What is wrong, one line each.
    """

    confirmed: int
    problems: tuple[str, ...]


def check_report(report: Path, text_of: Callable[[Mapping[str, Any]], str] | None = None) -> ReportCheck:
    """Check a report.

    Args:
        report: The Markdown file.
        text_of: Returns the text of a source of the file of citations. The default reads the saved text.
    """
    try:
        citations = json.loads(_read(report.parent / CITATIONS))
        sources = {each["number"]: each for each in citations["sources"]}
        cited = [(claim["sentence"], each) for claim in citations["claims"] for each in claim["citations"]]
        unquoted = [claim["sentence"] for claim in citations["claims"] if not claim["citations"]]
        shown = _read(report).splitlines()
    except (OSError, ValueError, KeyError, TypeError) as error:
        return ReportCheck(0, (f"{report}: the report or its citations cannot be read: {one_line(str(error), 300)}",))
    texts: dict[int, str] = {}
    problems = [f"a sentence has no quotation: {one_line(each, 200)}" for each in unquoted]
    confirmed = 0
    for sentence, each in cited:
        problem = _problem(each, sources, texts, text_of or (lambda source: _saved(report.parent, source)))
        confirmed += not problem
        if problem:
            problems.append(f"{problem}: {one_line(sentence, 200)}")
    problems += _differences(shown, citations)
    return ReportCheck(confirmed, tuple(problems))


def _problem(
    citation: Mapping[str, Any],
    sources: Mapping[int, Mapping[str, Any]],
    texts: dict[int, str],
    text_of: Callable[[Mapping[str, Any]], str],
) -> str:
    number = citation["source"]
    source = sources.get(number)
    if source is None:
        return f"source {number} is not listed"
    if source["sha256"] != citation["sha256"]:
        return f"the hash of the citation is not that of source {number}"
    if number not in texts:
        try:
            texts[number] = text_of(source)
        except (OSError, ValueError) as error:
            return f"source {number} cannot be read ({one_line(str(error), 200)})"
    text = texts[number]
    if hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() != source["sha256"]:
        return f"the text of source {number} has another hash"
    if text[citation["start"] : citation["end"]] != citation["quote"]:
        return f"the quotation is not at characters {citation['start']} to {citation['end']} of source {number}"
    return ""


def _differences(shown: Sequence[str], citations: Mapping[str, Any]) -> Iterator[str]:
    """Yield the differences between the Markdown and the file of citations."""
    references = {int(match["number"]): match for line in shown if (match := _REFERENCE.match(line))}
    findings: dict[str, list[list[int]]] = {}  # two claims may be the same sentence, with quotations of two pages
    for line in shown:
        if match := _FINDING.match(line):
            numbers = [int(each) for each in re.findall(r"\d+", match["numbers"])]
            findings.setdefault(from_markdown(match["sentence"]), []).append(numbers)
    for claim in citations["claims"]:
        sentence = one_line(claim["sentence"])
        same = findings.get(sentence)
        numbers = same.pop(0) if same else []
        found = [_reference(references[each]) for each in numbers if each in references]
        wanted = [
            (one_line(each["quote"]), each["source"], each["start"], each["end"], each["sha256"])
            for each in claim["citations"]
        ]
        if found != wanted:
            yield f"the report shows other references than the citations: {sentence[:200]}"
    for sentence in (sentence for sentence, left in findings.items() if left):
        yield f"the report shows a sentence that the citations do not have: {sentence[:200]}"


def _reference(match: re.Match[str]) -> tuple[str, int, int, int, str]:
    place = int(match["source"]), int(match["start"]), int(match["end"])
    return (from_markdown(match["quote"]), *place, match["sha256"])


def _saved(folder: Path, source: Mapping[str, Any]) -> str:
    path = (folder / str(source["file"])).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"{source['file']} is not beside the report")
    return _read(path)


def _read(path: Path) -> str:
    with path.open("rb") as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ValueError(f"{path.name} has more than {MOST_BYTES} bytes")
    return data.decode("utf-8")
