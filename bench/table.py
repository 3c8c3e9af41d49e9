"""Prints the rows of a benchmark as a table."""

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

_HEADINGS = {
    "first_us": "first of ten, p50",
    "at_once": "at once",
    "new_input": "new",
    "per_s": "per second",
    "pss_mib": "MiB",
    "of_process_1_mib": "MiB of process 1",
}
_TEXT = ("code", "way")


def show(
    console: Console, rows: Sequence[dict[str, Any]], what: str, title: str, *fields: str, ratio: str = "to plain"
) -> None:
    """Print the rows of one kind.

    Args:
        console: Where to print.
        rows: All rows of the benchmark.
        what: The kind of the rows to print.
        title: Title of the table.
        fields: The columns, besides the candidate, the count and the ratio.
        ratio: Heading of the ratio.
    """
    table = Table(title=title, title_justify="left")
    names = list(
        dict.fromkeys(name for name in ("code", "way", "count", *fields, "ratio") if name in fields or name != "code")
    )
    for name in names:
        heading = ratio if name == "ratio" else _HEADINGS.get(name, name)
        table.add_column(heading.removesuffix("_ms").removesuffix("_us"), justify="left" if name in _TEXT else "right")
    for row in rows:
        if row["what"] == what:
            table.add_row(*(escape(_cell(row[name])) for name in names))
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
