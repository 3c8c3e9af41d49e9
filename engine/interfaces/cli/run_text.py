"""Renders the entries of a run as text, Markdown or HTML, without loading the model client."""

import json
import re
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from engine.stores.run_inbox import PERSON
from engine.stores.run_journal import RunEntryRow, RunRow

_BACKTICKS = re.compile(r"`+")
_PAGE = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>body{{max-width:50rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 sans-serif}}
pre{{background:#f4f4f4;padding:.6rem;overflow-x:auto;white-space:pre-wrap}}</style></head>
<body>
{body}</body></html>
"""

Piece = tuple[str, str, str]  # heading, text, and how to show it: "text", or the language of a code block


def as_object(row: RunEntryRow) -> dict[str, Any]:
    """Return an entry as a JSON object, with its number and times."""
    entry: dict[str, Any] = json.loads(row.entry)
    return {"seq": row.seq, "ts": row.ts, "worked_s": row.worked_s, **entry}


def json_lines(rows: Sequence[RunEntryRow]) -> str:
    """Return one line of JSON for each entry."""
    return "".join(json.dumps(as_object(row), ensure_ascii=False) + "\n" for row in rows)


def markdown(run: RunRow, rows: Sequence[RunEntryRow]) -> str:
    """Return the run as Markdown. Arguments and results are code blocks, so nothing in them is interpreted."""
    lines = [f"# Run {run.id}", "", f"{run.status}, {run.user}/{run.agent}, begun {run.created[:19]} UTC"]
    lines += [f"It continues the conversation of run {run.previous}."] if run.previous else []
    lines += [f"It was copied from run {run.forked_from}."] if run.forked_from else []
    for heading, text, how in pieces(rows):
        lines += ["", f"## {heading}"]
        if text:
            lines += ["", text if how == "text" else fenced(text, how)]
    return "\n".join(lines) + "\n"


def html(run: RunRow, rows: Sequence[RunEntryRow]) -> str:
    """Return the run as a page that loads nothing and runs no script."""
    from markdown_it import MarkdownIt  # noqa: PLC0415 -- needed only for this format

    body = MarkdownIt("commonmark", {"html": False}).render(markdown(run, rows))
    return _PAGE.format(title=f"Run {escape(run.id)}", body=body)


def pieces(rows: Sequence[RunEntryRow]) -> Iterator[Piece]:
    """Yield the parts of a transcript in order."""
    calls: list[str] = []
    turn = 0
    for row in rows:
        entry = json.loads(row.entry)
        match entry["kind"]:
            case "begun":
                yield "User", "\n\n".join(entry["content"]), "text"
            case "response":
                turn += 1
                calls = [call["name"] for call in entry["calls"]]
                yield from _response(turn, entry, iter(calls))
            case "result":
                yield _result(calls[entry["call"]], entry["result"])
            case "message":
                heading = "User" if entry["about"] == "person" else f"Message of the loop ({entry['about']})"
                yield heading, entry["text"], "text"
            case "compacted" | "delivered" as kind:
                yield _compacted(entry) if kind == "compacted" else _delivered(entry)
            case "resumed":
                yield "Resumed", "", "text"
            case "waits":
                yield f"Waits ({entry['waits_for']})", entry["what"], "text"
            case "ended":
                yield f"Ended ({entry['finish']})", entry["answer"], "text"


def read_upto(rows: Sequence[RunEntryRow]) -> int:
    """Return the number of the latest message of the inbox that was delivered; 0 if there is none."""
    entries = [json.loads(row.entry) for row in rows]
    return max((entry["number"] for entry in entries if entry["kind"] == "delivered"), default=0)


def _compacted(entry: dict[str, Any]) -> Piece:
    what = f"{len(entry['shortened'])} results shortened, {entry['upto']} messages replaced"
    return f"Moved out of the prompt ({what})", entry["text"], "text"


def _delivered(entry: dict[str, Any]) -> Piece:
    who = "User" if entry["sender"] == PERSON else f"Message from {entry['sender']}"
    return f"{who}: stop" if entry["stop"] else who, entry["text"], "text"


def _response(turn: int, entry: dict[str, Any], names: Iterator[str]) -> Iterator[Piece]:
    for part in entry["response"]["parts"]:
        match part["part_kind"]:
            case "text":
                yield f"Turn {turn}: model", part["content"], "text"
            case "thinking":
                yield f"Turn {turn}: reasoning", part["content"], "text"
            case "tool-call":
                given = part["args"]
                yield f"Turn {turn}: call of {next(names)}", given if isinstance(given, str) else _json(given), "json"
            case other:
                yield f"Turn {turn}: {other}", "", "text"


def _result(name: str, result: dict[str, Any]) -> Piece:
    text = (result["message"] or "") if result["success"] else (result["error"] or result["message"] or "")
    how = "succeeded" if result["success"] else f"failed ({result['failure']['reason']})"
    return f"{name} {how}", text, "text-block"


def fenced(text: str, language: str) -> str:
    """Return a code block whose fence is longer than any run of backticks in the text."""
    fence = "`" * max(3, 1 + max((len(found) for found in _BACKTICKS.findall(text)), default=0))
    return f"{fence}{'json' if language == 'json' else ''}\n{text}\n{fence}"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)
