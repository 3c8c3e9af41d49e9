"""`kernels`: what an agent may do with its kernels besides running cells in them (`execute` with ``stateful=true``)."""

import asyncio
from typing import Literal

from builtin_tools.kernels.files import FOLDER, write_new
from builtin_tools.kernels.outputs import ExportOutput, KernelListOutput, KernelOutput, KernelRow, VariablesOutput
from builtin_tools.kernels.owner import DEFAULT, KernelName, KernelOwner
from builtin_tools.kernels.phrases import ago, megabytes
from builtin_tools.kernels.service import Kernels
from builtin_tools.refusals import wrong_arguments
from builtin_tools.workspace import explained, folder_of
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure, refusal
from engine.registry.decorate import tool
from sandbox.kernels.spec import Occupied

NONE = "There are no kernels; `execute` with stateful=true starts one."
SUFFIX = ".ipynb"


@tool(category="execution", requires=("sandbox",), side_effects=("filesystem_write",), required_permission="user")
async def kernels(
    ctx: CallContext,
    action: Literal["list", "variables", "interrupt", "stop", "export"],
    kernel: KernelName = DEFAULT,
    path: str = "",
) -> Produced[KernelListOutput | VariablesOutput | ExportOutput | KernelOutput]:
    """Look after the kernels that `execute` with stateful=true runs your cells in.

    list: your kernels, and what they are doing. variables: names, types and shapes of what an idle kernel holds.
    interrupt: end the running cell and keep the state. stop: end a kernel with all its state.
    export: the cells run so far, with their outputs, as a notebook in your workspace.

    Args:
        action: What to do.
        kernel: Which kernel; not for list.
        path: Where export writes, such as `analysis.ipynb`; without it a name in `outputs/`.
    """
    sessions = ctx.need(Kernels).opened
    owner = KernelOwner.of(ctx.turn)
    if sessions is None:
        if action == "list":
            return Produced({"kernels": []}, NONE)
        raise _missing(f"There is no kernel {kernel!r}; none is running.")
    try:
        match action:
            case "list":
                rows = sessions.rows(owner)
                return Produced({"kernels": rows}, "\n".join(map(_line, rows)) or NONE)
            case "variables":
                overview = await sessions.variables(owner, kernel)
                value = overview.value
                found: VariablesOutput = {"kernel": kernel, "total": value["total"], "variables": value["variables"]}
                return Produced(found, overview.message)
            case "interrupt":
                sessions.interrupt(owner, kernel)
                said = f"The kernel {kernel!r} was interrupted; its state is kept."
                return Produced({"kernel": kernel}, said, (f"interrupted:{kernel}",))
            case "stop":
                await sessions.stop(owner, kernel)
                said = f"The kernel {kernel!r} is stopped; its state is gone."
                return Produced({"kernel": kernel}, said, (f"stopped:{kernel}",))
            case "export":
                written = await _export(ctx, kernel, await sessions.export(owner, kernel), path)
                exported: ExportOutput = {"kernel": kernel, "path": written}
                return Produced(exported, f"Wrote {written}.", (f"created:{written}",))
    except Occupied as error:
        raise ToolFailure(
            f"{error} Wait for it, or interrupt it.", reason="kernel_busy", may_have_started=False
        ) from error
    except LookupError as error:
        raise _missing(str(error)) from error


async def _export(ctx: CallContext, kernel: str, notebook: bytes, path: str) -> str:
    folder = folder_of(ctx)
    with explained():
        if not path:
            return await asyncio.to_thread(write_new, folder, f"{FOLDER}/{kernel}", SUFFIX, notebook)
        if not path.endswith(SUFFIX):
            raise wrong_arguments(f"`path` must end in {SUFFIX}: {path!r} does not.")
        try:
            await asyncio.to_thread(folder.write_new, path, notebook)
        except FileExistsError as error:
            raise ToolFailure(f"{path} exists already. Give another path.", reason="exists") from error
        return path


def _missing(said: str) -> ToolFailure:
    return refusal(said, "not_found")


def _line(row: KernelRow) -> str:
    memory = megabytes(row["memory_bytes"])
    return f"{row['kernel']}: {row['state']} for {ago(row['since_s'])}, {row['cells']} cells, {memory} of memory"
