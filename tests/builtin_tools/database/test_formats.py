"""Rows, tables, sizes and sessions as text and as files, without a database."""

import csv
import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from builtin_tools.database.activity import activity_text, duration_text
from builtin_tools.database.cells import BYTEA, FLOAT8, INT8, TABLE_LENGTH, cell_of, text_table
from builtin_tools.database.outputs import SessionRow
from builtin_tools.database.row_files import row_file
from builtin_tools.database.schema import like_pattern, size_text

TEXT = 25
pytestmark = pytest.mark.spec("TOOL-12")
CELLS = st.one_of(st.none(), st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=12))
ROWS = st.integers(1, 4).flatmap(lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1))


@given(rows=ROWS)
def test_a_csv_file_contains_every_value_and_distinguishes_null(rows: list[list[str | None]]) -> None:
    stream = io.BytesIO()
    target = row_file("a.csv", stream, [(f"c{at}", TEXT) for at in range(len(rows[0]))])
    for row in rows:
        target.add([None if cell is None else cell.encode() for cell in row])
    target.finish()
    assert target.size == len(stream.getvalue())
    text = stream.getvalue().decode()
    read = list(csv.reader(io.StringIO(text, newline=""), strict=True))[1:]
    # A line of one NULL is empty, and the reader of the standard library returns no field for it.
    assert [row or [""] for row in read] == [[cell or "" for cell in row] for row in rows]
    assert text.count('""') >= sum(cell == "" for row in rows for cell in row)


@given(rows=ROWS)
def test_a_parquet_file_contains_every_value(rows: list[list[str | None]]) -> None:
    stream = io.BytesIO()
    target = row_file("a.parquet", stream, [("same", TEXT) for _ in rows[0]])
    for row in rows:
        target.add([None if cell is None else cell.encode() for cell in row])
    target.finish()
    table = parquet.read_table(io.BytesIO(stream.getvalue()))
    assert [list(row.values()) for row in table.to_pylist()] == rows


@given(values=st.lists(st.lists(st.text(max_size=300), min_size=2, max_size=2), max_size=40))
def test_a_table_has_one_line_for_each_row_and_is_bounded(values: list[list[str]]) -> None:
    text, shown = text_table(["a", "b"], values)
    assert len(text.split("\n")) == 2 + shown
    assert len(text.splitlines()) == 2 + shown  # no other line separator either
    assert len(text) <= TABLE_LENGTH + 200
    assert shown == len(values) or shown > 0


def test_values_keep_their_type_where_json_has_it() -> None:
    assert cell_of(None, TEXT) is None
    assert cell_of(b"-12", INT8) == -12
    assert cell_of(b"NaN", FLOAT8) == "NaN"
    assert cell_of(b"\\x00", BYTEA) == "\\x00"
    assert str(cell_of(b"x" * 5000, TEXT)).endswith("… (5,000 characters)")


def test_wildcards_of_names_become_patterns_and_other_signs_stay_literal() -> None:
    assert like_pattern("sales.order*") == "sales.order%"
    assert like_pattern("a_b%c?") == "a\\_b\\%c_"


def test_sizes_and_durations_are_readable() -> None:
    assert [size_text(size) for size in (0, 8192, 20 << 10, 5 << 30)] == ["0 bytes", "8,192 bytes", "20 kB", "5,120 MB"]
    assert [duration_text(seconds) for seconds in (0.25, 75, 7260, 90_000)] == [
        "0.2 s",
        "1 min 15 s",
        "2 h 1 min",
        "1 d 1 h",
    ]


def session(pid: int, *blocked_by: int, state: str = "active", **changes: Any) -> SessionRow:
    row: SessionRow = {
        "pid": pid,
        "user": "app",
        "application": "web",
        "state": state,
        "state_s": 61.0,
        "transaction_s": 75.0,
        "waits_for": "another transaction to end" if blocked_by else "",
        "blocked_by": list(blocked_by),
        "statement": f"UPDATE t{pid}",
    }
    return {**row, **changes}  # type: ignore[typeddict-item]


def test_chains_of_blocked_sessions_are_shown_as_a_tree() -> None:
    text = activity_text(
        [session(3, 2), session(1, state="idle in transaction"), session(2, 1), session(4, 1), session(9)]
    )
    assert text.splitlines() == [
        "Blocked sessions, each below the one that it waits for:",
        "  1 app (web): idle in transaction for 1 min 1 s, transaction open for 1 min 15 s: UPDATE t1",
        "      └── 2 app (web): waits for another transaction to end, active for 1 min 1 s, transaction open for 1 min 15 s: UPDATE t2",
        "          └── 3 app (web): waits for another transaction to end, active for 1 min 1 s, transaction open for 1 min 15 s: UPDATE t3",
        "      └── 4 app (web): waits for another transaction to end, active for 1 min 1 s, transaction open for 1 min 15 s: UPDATE t4",
        "",
        "Other sessions that do something or have an open transaction:",
        "  9 app (web): active for 1 min 1 s, transaction open for 1 min 15 s: UPDATE t9",
        "0 idle sessions.",
    ]


@given(edges=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), max_size=20))
def test_every_session_is_shown_even_if_they_block_each_other(edges: list[tuple[int, int]]) -> None:
    rows = [session(pid, *(by for at, by in edges if at == pid)) for pid in range(1, 6)]
    text = activity_text(rows)
    for pid in range(1, 6):
        assert f"{pid} app (web)" in text
