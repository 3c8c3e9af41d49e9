"""Runs a cell in an agent's kernel, for `execute` with ``stateful=true``."""

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from builtin_tools.bridge.program_calls import ProgramCalls
from builtin_tools.kernels.cell_display import CellDisplay, file_writer, show
from builtin_tools.kernels.service import Kernels
from engine.contract.context import CallContext, Produced, no_progress
from engine.contract.failure import ToolFailure, refusal
from engine.contract.turn import Turn
from engine.dispatch.forwarding import Pieces
from engine.dispatch.outcome import failure_of
from engine.dispatch.workspace_folder import folder_of
from sandbox.contract import CodeError, End, Outcome
from sandbox.kernels.spec import Cell, CellLimits, KernelOwner, TooManyKernels

# A kernel's name becomes a part of file names, so only these characters are allowed.
KernelName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$")]

NOTHING = "The run completed and printed nothing."
_KEPT_BYTES = 16 << 20  # bytes of a cell's outputs; high because a picture, unlike text, cannot be cut
_INTERRUPTED = {
    End.TIMEOUT: "ran out of time and was interrupted; the state is kept. Make it do less at once, "
    "or increase `timeout_s`",
    End.OUTPUT: "printed more than allowed and was interrupted; the state is kept. Print less, or write to a file",
}
_ENDED = {
    End.ERROR: "ended its kernel",
    End.TIMEOUT: "ran out of time, ignored its interrupt, and was killed with its kernel",
    End.OUTPUT: "printed more than allowed, ignored its interrupt, and was killed with its kernel",
    End.KILLED: "was killed with its kernel",
}
_NO_INPUT = "StdinNotImplementedError"  # ipykernel's exception for input()
_REFUSED = "input() is not available: put the text that it should read into the code"
_PRINTED = 2000  # maximum characters of output shown with an error


class CellOutput(TypedDict):
    """The result of a cell.

    Attributes:
        outputs: The outputs in order. The `kind` of an output determines its other fields: the name of a stream, a
            text, or media types and files.
        calls: A summary of the calls that the code made.
    """

    end: str
    kernel: str
    cell: int
    outputs: list[dict[str, Any]]
    dropped_bytes: int
    state_lost: str
    calls: NotRequired[str]


async def run_cell(
    ctx: CallContext, code: str, name: str, timeout_s: float, calls: ProgramCalls | None = None
) -> Produced[CellOutput]:
    """Run a cell in the agent's kernel with this name. `calls` makes the calls of its code.

    Raises:
        ToolFailure: The cell failed, or no further kernel may be started.
        Busy: All kernels are in use.
        SandboxError: The cell could not be run.
    """
    workspace = folder_of(ctx)
    kernels = ctx.need(Kernels)
    pool = await kernels.pool()
    owner = owner_of(ctx.turn)
    kernel = pool.kernel(owner, name, lambda: kernels.spec(workspace.root, code))
    limits = CellLimits(wall_s=timeout_s, kept_bytes=_KEPT_BYTES)
    answer = None if calls is None else calls.answer
    try:
        on_output = None if ctx.progress is no_progress else Pieces(ctx)
        with nullcontext() if calls is None else calls.clock_stopped_in_waits(kernel.paused):
            async with kernel.running(code, limits, on_output, answer) as cell:
                write = file_writer(workspace, f"{name}-{cell.number}")
                shown = await asyncio.to_thread(show, cell, write)
    except TooManyKernels as error:
        raise refusal(str(error), "too_many_kernels") from error
    # From here on nothing can be cancelled, so the lost state counts as reported. If the result is not
    # delivered, it is reported again.
    loss = cell.state_lost
    if loss is not None:
        ctx.on_undelivered.append(partial(pool.report_again, kernel, loss))
    made = "" if calls is None else await calls.finish()
    if cell.end is not End.OK:
        raise failure_of_cell(cell, shown, made)
    state_lost = str(loss) if loss is not None else ""
    value: CellOutput = {
        "end": str(cell.end),
        "kernel": name,
        "cell": cell.number,
        "outputs": list(shown.outputs),
        "dropped_bytes": cell.dropped_bytes,
        "state_lost": state_lost,
    }
    if made:
        value["calls"] = made
    message = "\n".join(text for text in (state_lost, shown.message or (NOTHING if made else ""), made) if text)
    message = message or NOTHING
    effects = ("executed:python", f"kernel:{name}", *(f"created:{path}" for path in shown.paths))
    return Produced(value, message, effects)


def owner_of(turn: Turn) -> KernelOwner:
    """Return the owner of the kernels of a turn. Child runs with workspaces of their own have kernels of their own."""
    return KernelOwner(turn.user, f"{turn.agent}/{turn.workspace}" if turn.workspace else turn.agent)


def failure_of_cell(cell: Cell, shown: CellDisplay, made: str = "") -> ToolFailure:
    """Return the DIAGNOSTIC failure for a cell that failed. If the kernel lost its state, the message says so first.

    `made` is the summary of the calls that the cell made.
    """
    loss = cell.state_lost
    why = (_ENDED if loss is not None and loss.in_cell else _INTERRUPTED).get(cell.end, "")
    what = f"{loss}\nThe cell" if loss is not None else "The cell"
    error = cell.error
    if error is not None and error.type == _NO_INPUT:
        error = CodeError(_NO_INPUT, _REFUSED, "")
    printed = shown.stream("stdout")
    remarks = [
        f"Before, it printed:\n{printed[-_PRINTED:]}" if error is not None and printed else "",
        *(part.text for part in shown.parts if not part.label),
        made,
    ]
    outcome = Outcome(
        cell.end,
        stdout=printed.encode("utf-8", "replace"),
        stderr=shown.stream("stderr").encode("utf-8", "replace"),
        error=error,
    )
    return failure_of(outcome, what, "\n".join(filter(None, remarks)), why)
