"""Reads text, Markdown, CSV and JSON."""

import csv
import io
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from charset_normalizer import from_bytes
from markdown_it import MarkdownIt

from builtin_tools.documents.in_box.outline import Outline, UnreadableDocument
from builtin_tools.documents.in_box.rows import MOST_CELL, add_table

_SAMPLE = 64_000  # characters from which the CSV dialect is guessed
_DEEPEST = 100  # levels of nested JSON
_LINES_AT_ONCE = 10


def read_text(path: str, outline: Outline) -> None:
    """Read plain text. The text stays as it is."""
    outline.add_unchanged(_decoded(path))


def read_markdown(path: str, outline: Outline) -> None:
    """Read Markdown. The text stays as it is, and its headings are recorded."""
    text = _decoded(path)
    begins = list(itertools.accumulate((len(line) for line in text.splitlines(keepends=True)), initial=0))
    shift = len(text) - len(text.lstrip("\n"))  # what `add_unchanged` removes
    tokens = MarkdownIt("commonmark").parse(text)
    for token, inside in itertools.pairwise(tokens):
        if token.type == "heading_open" and token.map is not None:
            title = "".join(child.content for child in inside.children or ()) or inside.content
            outline.mark_heading(max(0, begins[token.map[0]] - shift), int(token.tag[1:]), title)
            if not outline.title and token.tag == "h1":
                outline.title = title
    outline.add_unchanged(text)


def read_csv(path: str, outline: Outline) -> None:
    """Read a CSV file as rows in which each value follows the name of its column."""
    text = _decoded(path)
    csv.field_size_limit(MOST_CELL)
    try:
        form: Any = csv.Sniffer().sniff(text[:_SAMPLE], delimiters=",;\t|")
    except csv.Error:
        form = csv.excel
    try:
        add_table(csv.reader(io.StringIO(text, newline=""), form), outline)
    except csv.Error as error:
        raise UnreadableDocument(f"it is not a readable CSV file ({error}).") from error


def read_json(path: str, outline: Outline) -> None:
    """Read JSON, or JSON Lines, as lines of the form ``path.to.value: value``."""
    text = _decoded(path)
    try:
        values = [json.loads(text)]
    except RecursionError as error:
        raise UnreadableDocument(f"it is nested more than {_DEEPEST} levels deep.") from error
    except json.JSONDecodeError as error:
        values = _json_lines(text, error)
    lines = (line for value in values for line in _leaves(value, "", 0))
    while block := list(itertools.islice(lines, _LINES_AT_ONCE)):
        outline.add("\n".join(block))


def _json_lines(text: str, first: json.JSONDecodeError) -> list[Any]:
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except (json.JSONDecodeError, RecursionError):
        raise UnreadableDocument(f"it is not valid JSON: {first}.") from first


def _leaves(value: Any, path: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        raise UnreadableDocument(f"it is nested more than {_DEEPEST} levels deep.")
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _leaves(inner, f"{path}.{name}" if path else str(name), depth + 1)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _leaves(inner, f"{path}[{at}]", depth + 1)
    elif value is not None:
        text = str(value) if isinstance(value, str) else json.dumps(value)
        yield f"{path}: {text}" if path else text


def _decoded(path: str) -> str:
    """Decode a file. If it is not UTF-8, the encoding is guessed."""
    data = Path(path).read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        best = from_bytes(data).best()
        if best is None:
            raise UnreadableDocument("it is not text in a known encoding. Save it as UTF-8.") from None
        text = str(best)
    if "\0" in text[:_SAMPLE]:
        raise UnreadableDocument("it is not text. Use a file in a supported format.")
    return text.replace("\r\n", "\n").replace("\r", "\n")
