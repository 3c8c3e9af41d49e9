"""Tables on stdout."""

import os
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.interfaces.cli.shared import visible

_WIDE = 100_000  # columns of a table in a pipe or a file: what reads it there wants its cells whole


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """A table on stdout. Cells are shown as they are, nothing in them is markup; a `Text` brings its own style.

    It is as wide as the terminal, or as `$COLUMNS` where that is set. In a pipe or a file no cell is folded otherwise.
    """
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(visible(cell)) for cell in row))
    fits = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()  # then rich finds the width
    Console(width=None if fits else _WIDE).print(table)
