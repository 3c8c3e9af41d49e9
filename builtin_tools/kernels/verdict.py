"""Converts a failed cell to a ToolFailure that tells the model what to correct."""

from builtin_tools.kernels.shown import CellDisplay
from engine.contract.failure import ToolFailure
from engine.dispatch.outcome import failure_of
from sandbox.contract import CodeError, End, Outcome
from sandbox.kernels.spec import Cell

_INTERRUPTED = {
    End.TIMEOUT: "ran out of time and was interrupted; what it had made until then is kept. Make it do less at once, "
    "or give it more timeout_s",
    End.OUTPUT: "printed more than it may and was interrupted; what it had made until then is kept. Print less, or "
    "write to a file",
}
_ENDED = {
    End.ERROR: "ended its kernel",
    End.TIMEOUT: "ran out of time, went on when it was interrupted, and was killed with its kernel",
    End.OUTPUT: "printed more than it may, went on when it was interrupted, and was killed with its kernel",
    End.KILLED: "was killed, with its kernel",
}
_NO_INPUT = "StdinNotImplementedError"  # ipykernel's, for input()
_REFUSED = "nobody can answer input(); put what it should read into the code"
_PRINTED = 2000  # characters of what was printed before an error


def failure_of_cell(cell: Cell, shown: CellDisplay) -> ToolFailure:
    """Return a DIAGNOSTIC failure, like `failure_of` an outcome. A lost state is reported in its first sentence."""
    ended = cell.count is None and bool(cell.state_lost)
    why = (_ENDED if ended else _INTERRUPTED).get(cell.end, "")
    what = f"{cell.state_lost}\nThe cell" if cell.state_lost else "The cell"
    error = cell.error
    if error is not None and error.type == _NO_INPUT:
        error = CodeError(_NO_INPUT, _REFUSED, "")
    printed = shown.stream("stdout")
    remarks = [
        f"Before, it printed:\n{printed[-_PRINTED:]}" if error is not None and printed else "",
        *(part.text for part in shown.parts if not part.label),
    ]
    outcome = Outcome(
        cell.end,
        stdout=printed.encode("utf-8", "replace"),
        stderr=shown.stream("stderr").encode("utf-8", "replace"),
        error=error,
    )
    return failure_of(outcome, what, "\n".join(filter(None, remarks)), why)
