"""Makes text of strangers harmless where people and models read it: one line, without control characters or markup."""

import re
import unicodedata

_MARKUP = re.compile(r"([\\`*_\[\]<>#|~])")


def one_line(text: str, most: int = 2_000) -> str:
    """Return a text on one line, without control and invisible formatting characters.

    Args:
        text: The text.
        most: The largest number of characters. The rest is replaced by an ellipsis.
    """
    visible = "".join(each for each in text if each.isspace() or unicodedata.category(each)[0] != "C")
    line = " ".join(visible.split())
    return line if len(line) <= most else line[: most - 1] + "\u2026"


def in_markdown(text: str, most: int = 2_000) -> str:
    """Return a text on one line in which Markdown sees no markup."""
    return _MARKUP.sub(r"\\\1", one_line(text, most))


def from_markdown(text: str) -> str:
    """Return what `in_markdown` was given, on one line."""
    return re.sub(r"\\([\\`*_\[\]<>#|~])", r"\1", text)
