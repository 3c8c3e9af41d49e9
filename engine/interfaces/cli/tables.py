"""`print_table`: prints a table on stdout."""

import os
import sys
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from engine.interfaces.cli.shared import visible

_UNLIMITED_WIDTH = 100_000  # columns in a pipe or a file, so that programs read whole cells


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
    """Print a table on stdout. Strings are printed without interpreting markup; a `Text` has its own style.

    The table is as wide as the terminal, or as `$COLUMNS` if that is set. In a pipe or a file without `$COLUMNS`, no
    cell is folded.
    """
    table = Table(box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(visible(cell)) for cell in row))
    fits = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()  # in these cases, rich determines the width
    Console(width=None if fits else _UNLIMITED_WIDTH).print(table)
