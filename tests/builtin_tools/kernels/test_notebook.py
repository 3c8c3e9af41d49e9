"""A kernel's history exported as a notebook: valid, with its pictures, and with notes about what is missing."""

import json
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from builtin_tools.kernels.notebook_export import notebook_of
from sandbox.contract import End
from sandbox.kernels import cell_history as limits
from sandbox.kernels.cell_history import CellHistory
from sandbox.kernels.spec import Cell, Output, StateLoss
from tests.builtin_tools.kernels.test_cell_display import JSON, PNG, b64

pytestmark = pytest.mark.spec("KERN-7")


def read(notebook: bytes) -> Any:
    found = nbformat.reads(notebook.decode(), as_version=4)
    nbformat.validate(found)
    assert (found.nbformat, found.nbformat_minor) == (4, 5)
    return found


def history(*cells: tuple[str, Cell | None]) -> CellHistory:
    made = CellHistory()
    for code, cell in cells:
        record = made.begin(code)
        if cell is not None:
            made.end(record, cell)
        else:
            record.cancelled = True
    return made


def test_the_notebook_has_the_code_and_every_kind_of_output() -> None:
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


def test_a_lost_state_is_a_markdown_cell_before_or_after_the_cell_that_reported_it() -> None:
    before, during = StateLoss(("it was ended",)), StateLoss(("it died",), in_cell=True)
    found = read(
        notebook_of(
            history(
                ("1", Cell(End.OK, count=1)),
                ("2", Cell(End.OK, count=1, state_lost=before)),
                ("die", Cell(End.KILLED, state_lost=during)),
            )
        )
    )
    assert [(each.cell_type, each.source) for each in found.cells] == [
        ("code", "1"),
        ("markdown", f"**{before}**"),
        ("code", "2"),
        ("code", "die"),
        ("markdown", f"**{during}**"),
    ]


def test_the_oldest_outputs_over_the_limit_are_dropped_and_counted_in_the_metadata(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MOST_OUTPUT", 1000)
    long = Cell(End.OK, (Output("stream", name="stdout", text="x" * 400),), count=1, kept_bytes=400)
    found = read(notebook_of(history(*((f"{n}", long) for n in range(4)))))
    assert [len(cell.outputs) for cell in found.cells] == [0, 0, 1, 1]
    assert found.metadata.knackbox == {"cells_dropped": 0, "outputs_dropped": 2}
    assert found.cells[0].metadata.knackbox == {"outputs_dropped": True}


def test_the_oldest_cells_over_the_limit_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MOST_CELLS", 3)
    monkeypatch.setattr(limits, "MOST_CODE", 20)
    found = read(notebook_of(history(*((f"{n}", None) for n in range(5)), ("y" * 30, None))))
    assert [cell.source for cell in found.cells] == ["y" * 30]
    assert found.metadata.knackbox["cells_dropped"] == 5
    assert found.cells[0].metadata.knackbox == {"cancelled": True}


TEXT = st.text(st.characters(codec=None), max_size=20)  # with unpaired surrogates
OUTPUTS = st.builds(
    Output,
    st.sampled_from(["stream", "result", "display", "error"]),
    name=TEXT,
    text=TEXT,
    data=st.dictionaries(st.sampled_from(["text/plain", "application/json", "a/b", "x/y+json"]) | TEXT, JSON | TEXT),
    traceback=st.lists(TEXT, max_size=2).map(tuple),
)


@given(code=TEXT, outputs=st.lists(OUTPUTS, max_size=4), count=st.none() | st.integers(), reason=st.none() | TEXT)
def test_the_notebook_is_valid_and_complete_whatever_the_kernel_sent(
    code: str, outputs: list[Output], count: int | None, reason: str | None
) -> None:
    loss = StateLoss((reason,)) if reason is not None else None
    found = read(notebook_of(history((code, Cell(End.OK, tuple(outputs), count=count, state_lost=loss)))))
    assert [cell.cell_type for cell in found.cells] == ([] if loss is None else ["markdown"]) + ["code"]
    cell = found.cells[-1]
    assert cell.source == code.encode("utf-8", "replace").decode()
    kinds = {"stream": "stream", "result": "execute_result", "display": "display_data", "error": "error"}
    assert [output.output_type for output in cell.outputs] == [kinds[output.kind] for output in outputs]


def test_a_notebook_is_plain_json() -> None:
    assert json.loads(notebook_of(history(("1", None))))["cells"][0]["source"] in ("1", ["1"])
