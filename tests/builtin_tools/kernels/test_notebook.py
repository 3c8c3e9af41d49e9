"""A session as a notebook: valid, with its pictures, honest about what is missing; by the tool, into the workspace."""

import json
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.kernels import history as bounds
from builtin_tools.kernels.history import History
from builtin_tools.kernels.notebook import notebook_of
from sandbox.contract import End
from sandbox.kernels.spec import Cell, Output
from tests.builtin_tools.kernels.test_shown import JSON, PNG, b64

pytestmark = pytest.mark.spec("KERN-7")


def read(notebook: bytes) -> Any:
    found = nbformat.reads(notebook.decode(), as_version=4)
    nbformat.validate(found)
    assert (found.nbformat, found.nbformat_minor) == (4, 5)
    return found


def history(*cells: tuple[str, Cell | None]) -> History:
    made = History()
    for code, cell in cells:
        entry = made.begin(code)
        if cell is not None:
            made.end(entry, cell)
        else:
            entry.cancelled = True
    return made


def test_code_and_every_kind_of_output_are_in_it_pictures_too() -> None:
    outputs = (
        Output("stream", name="stdout", text="hi\n"),
        Output("display", data={"image/png": b64(PNG), "text/plain": "<Figure>"}),
        Output("result", data={"text/plain": "3", "application/json": {"a": [1]}}),
        Output("error", name="E", text="m", traceback=("t",)),
    )
    found = read(notebook_of(history(("x = 3", Cell(End.ERROR, outputs, count=1)))))
    (cell,) = found.cells
    assert (cell.cell_type, cell.source, cell.execution_count) == ("code", "x = 3", 1)
    assert [each.output_type for each in cell.outputs] == ["stream", "display_data", "execute_result", "error"]
    assert cell.outputs[1].data["image/png"].split() == b64(PNG).split()
    assert "knackbox" not in found.metadata


def test_a_state_lost_in_between_is_a_cell_before_or_after_the_one_that_told_of_it() -> None:
    found = read(
        notebook_of(
            history(
                ("1", Cell(End.OK, count=1)),
                ("2", Cell(End.OK, count=1, state_lost="State was lost: it was culled.")),
                ("die", Cell(End.KILLED, state_lost="State was lost: it died.")),
            )
        )
    )
    assert [(each.cell_type, each.source) for each in found.cells] == [
        ("code", "1"),
        ("markdown", "**State was lost: it was culled.**"),
        ("code", "2"),
        ("code", "die"),
        ("markdown", "**State was lost: it died.**"),
    ]


def test_outputs_past_the_bound_are_let_go_oldest_first_and_the_metadata_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bounds, "MOST_OUTPUT", 1000)
    long = Cell(End.OK, (Output("stream", name="stdout", text="x" * 400),), count=1)
    found = read(notebook_of(history(*((f"{n}", long) for n in range(4)))))
    assert [len(cell.outputs) for cell in found.cells] == [0, 0, 1, 1]
    assert found.metadata.knackbox == {"cells_dropped": 0, "outputs_dropped": 2}
    assert found.cells[0].metadata.knackbox == {"outputs_dropped": True}


def test_cells_past_the_bound_are_let_go_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MOST_CELLS", 3)
    monkeypatch.setattr(bounds, "MOST_CODE", 20)
    found = read(notebook_of(history(*((f"{n}", None) for n in range(5)), ("y" * 30, None))))
    assert [cell.source for cell in found.cells] == ["y" * 30]
    assert found.metadata.knackbox["cells_dropped"] == 5
    assert found.cells[0].metadata.knackbox == {"cancelled": True}


TEXT = st.text(st.characters(codec=None), max_size=20)  # halves of characters, too
OUTPUTS = st.builds(
    Output,
    st.sampled_from(["stream", "result", "display", "error"]),
    name=TEXT,
    text=TEXT,
    data=st.dictionaries(st.sampled_from(["text/plain", "application/json", "a/b", "x/y+json"]) | TEXT, JSON | TEXT),
    traceback=st.lists(TEXT, max_size=2).map(tuple),
)


@given(code=TEXT, outputs=st.lists(OUTPUTS, max_size=4), count=st.none() | st.integers(), lost=st.just("") | TEXT)
def test_whatever_a_kernel_said_the_notebook_is_valid(
    code: str, outputs: list[Output], count: int | None, lost: str
) -> None:
    read(notebook_of(history((code, Cell(End.OK, tuple(outputs), count=count, state_lost=lost)))))


def test_a_notebook_is_plain_json() -> None:
    assert json.loads(notebook_of(history(("1", None))))["cells"][0]["source"] in ("1", ["1"])
