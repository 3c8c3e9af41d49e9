"""A cell of an agent's kernel, as `execute` runs it with ``stateful=true``."""

from functools import partial
from typing import Any

from typing_extensions import TypedDict

from builtin_tools.kernels.owner import KernelOwner
from builtin_tools.kernels.service import Kernels
from builtin_tools.kernels.verdict import failure_of_cell
from builtin_tools.workspace import folder_of
from engine.contract.context import CallContext, Produced
from engine.contract.failure import refusal
from engine.dispatch.pieces import Pieces
from sandbox.kernels.spec import TooManyKernels

NOTHING = "Ran to its end and printed nothing."


class CellOutput(TypedDict):
    """Of a cell. outputs: each with its `kind` and, by kind, the name of a stream, media types and files, text."""

    end: str
    kernel: str
    cell: int
    outputs: list[dict[str, Any]]
    dropped_bytes: int
    state_lost: str


async def run_cell(
    ctx: CallContext, code: str, kernel: str, imports: tuple[str, ...], timeout_s: float
) -> Produced[CellOutput]:
    """Raises ToolFailure for what the cell did, and Busy and SandboxError when it could not be run."""
    workspace = folder_of(ctx)
    sessions = await ctx.need(Kernels).sessions()
    owner = KernelOwner.of(ctx.turn)
    try:
        ran = await sessions.run(
            owner,
            kernel,
            code,
            workspace,
            imports=imports,
            wall_s=timeout_s,
            on_stream=Pieces(ctx),
        )
    except TooManyKernels as error:
        raise refusal(str(error), "too_many_kernels") from error
    # Nothing is awaited from here on: a loss that the cell tells of counts as told, unless the result is not heard.
    cell, shown = ran.cell, ran.shown
    if cell.state_lost:
        ctx.if_unheard.append(partial(sessions.owe, owner, kernel, cell.state_lost))
    if not cell.ok:
        raise failure_of_cell(cell, shown)
    value: CellOutput = {
        "end": str(cell.end),
        "kernel": kernel,
        "cell": ran.number,
        "outputs": list(shown.outputs),
        "dropped_bytes": cell.dropped_bytes,
        "state_lost": cell.state_lost,
    }
    message = "\n".join(filter(None, (cell.state_lost, shown.message))) if shown.parts else cell.state_lost or NOTHING
    effects = ("executed:python", f"kernel:{kernel}", *(f"created:{path}" for path in shown.paths))
    return Produced(value, message, effects)
