"""Splits a tool's docstring into the text for the model and one description per parameter."""

import inspect
import re
from collections.abc import Container

_PARAMETERS = frozenset({"args:", "arguments:", "parameters:"})
_FOR_PROGRAMMERS = frozenset({"raises:", "example:", "examples:", "note:", "notes:", "yields:"})
_ENTRY = re.compile(r"^(?P<indent> *)\*{0,2}(?P<name>[A-Za-z_]\w*)(?: *\([^)]*\))?: (?P<text>\S.*)$")


def split_docstring(text: str | None, parameters: Container[str]) -> tuple[str, dict[str, str]]:
    """Return the description and the descriptions of `parameters`.

    Supports Google's ``Args:`` section, and lines of the form ``name: text`` anywhere. An entry continues on the lines
    that are indented deeper than its first line. ``Raises:`` and ``Examples:`` sections are for programmers and are
    omitted.
    """
    kept: list[str] = []
    found: dict[str, list[str]] = {}
    entry: list[str] | None = None
    entry_indent = 0
    skipping = False
    for line in inspect.cleandoc(text or "").splitlines():
        bare = line.strip()
        indent = len(line) - len(line.lstrip())
        match = _ENTRY.match(line)
        if match is not None and match["name"] in parameters:
            entry, entry_indent, skipping = found.setdefault(match["name"], []), len(match["indent"]), False
            entry.append(match["text"].strip())
        elif entry is not None and bare and indent > entry_indent:
            entry.append(bare)
        elif indent == 0 and bare.lower() in _PARAMETERS:
            entry, skipping = None, False
        elif indent == 0 and bare.lower() in _FOR_PROGRAMMERS:
            entry, skipping = None, True
        elif not (skipping and (indent > 0 or not bare)):
            entry, skipping = None, False
            kept.append(line)
    return _unwrap("\n".join(kept)), {name: " ".join(lines) for name, lines in found.items()}


def _unwrap(text: str) -> str:
    """Join the lines of the first paragraph, from which summaries are taken. The rest keeps its line breaks."""
    first, _, rest = text.strip().partition("\n\n")
    line = re.sub(r"\s*\n\s*", " ", first)
    return f"{line}\n\n{rest.strip()}" if rest.strip() else line
