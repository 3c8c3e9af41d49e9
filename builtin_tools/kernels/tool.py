"""`kernels`: the tool that manages an agent's kernels. Their cells are run by `execute` with ``stateful=true``."""

import asyncio
from typing import Literal, Required

from typing_extensions import TypedDict

from builtin_tools.kernels.cell_display import FOLDER, write_new
from builtin_tools.kernels.cells import KernelName, owner_of
from builtin_tools.kernels.kernel_views import KernelRow, export_notebook, line_of, row_of
from builtin_tools.kernels.service import Kernels
from builtin_tools.kernels.variables import variables_of
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure, refusal
from engine.dispatch.refusals import wrong_arguments
from engine.dispatch.workspace_folder import folder_of, workspace_failures
from engine.registry.decorate import tool
from sandbox.kernels.spec import DEFAULT_NAME, NoKernel, Occupied

NONE = "There are no kernels; `execute` with stateful=true starts one."
SUFFIX = ".ipynb"


class KernelListOutput(TypedDict):
    """The result of list."""

    kernels: list[KernelRow]


class VariableRow(TypedDict, total=False):
    """One variable: its name and type, and length, shape, dtype and size where they are known."""

    name: Required[str]
    type: Required[str]


class VariablesOutput(TypedDict):
    """The result of variables.

    Attributes:
        total: The number of variables, of which only the first are listed.
    """

    kernel: str
    total: int
    variables: list[VariableRow]


class KernelOutput(TypedDict):
    """The result of interrupt and stop."""

    kernel: str


class ExportOutput(TypedDict):
    """The result of export, with the path of the notebook."""

    kernel: str
    path: str


@tool(category="execution", requires=("sandbox",), side_effects=("filesystem_write",), required_permission="user")
async def kernels(
    ctx: CallContext,
    action: Literal["list", "variables", "interrupt", "stop", "export"],
    kernel: KernelName = DEFAULT_NAME,
    path: str = "",
) -> Produced[KernelListOutput | VariablesOutput | ExportOutput | KernelOutput]:
    """Manage the kernels in which `execute` with stateful=true runs your cells.

    list: your kernels and their states. variables: names, types and shapes of the variables of an idle kernel.
    interrupt: end the running cell and keep the state. stop: end a kernel with all its state.
    export: the cells that have been run, with their outputs, as a notebook in your workspace.

    Args:
        action: What to do.
        kernel: Name of the kernel. Not for list.
        path: For export, the file to write, such as `analysis.ipynb`. The default is a new file in `outputs/`.
    """
    pool = ctx.need(Kernels).opened
    owner = owner_of(ctx.turn)
    if pool is None:
        if action == "list":
            return Produced({"kernels": []}, NONE)
        raise _missing(f"There is no kernel {kernel!r}; none is running.")
    try:
        match action:
            case "list":
                now = asyncio.get_running_loop().time()
                rows = [row_of(each, now) for each in pool.kernels(owner)]
                return Produced({"kernels": rows}, "\n".join(map(line_of, rows)) or NONE)
            case "variables":
                overview = await variables_of(pool.find(owner, kernel))
                value = overview.value
                found: VariablesOutput = {"kernel": kernel, "total": value["total"], "variables": value["variables"]}
                return Produced(found, overview.message)
            case "interrupt":
                pool.find(owner, kernel).interrupt()
                said = f"The kernel {kernel!r} was interrupted; its state is kept."
                return Produced({"kernel": kernel}, said, (f"interrupted:{kernel}",))
            case "stop":
                await pool.find(owner, kernel).stop()
                said = f"The kernel {kernel!r} is stopped; its state is gone."
                return Produced({"kernel": kernel}, said, (f"stopped:{kernel}",))
            case "export":
                notebook = await export_notebook(pool.find(owner, kernel, ended=True))
                written = await _export(ctx, kernel, notebook, path)
                exported: ExportOutput = {"kernel": kernel, "path": written}
                return Produced(exported, f"Wrote {written}.", (f"created:{written}",))
    except Occupied as error:
        raise ToolFailure(
            f"{error} Wait for the running cell to end, or interrupt it.", reason="kernel_busy", may_have_started=False
        ) from error
    except NoKernel as error:
        raise _missing(str(error)) from error


async def _export(ctx: CallContext, kernel: str, notebook: bytes, path: str) -> str:
    """Write the notebook to a new file of the workspace, and return its path."""
    folder = folder_of(ctx)
    with workspace_failures():
        if not path:
            return await asyncio.to_thread(write_new, folder, f"{FOLDER}/{kernel}", SUFFIX, notebook)
        if not path.endswith(SUFFIX):
            raise wrong_arguments(f"`path` must end in {SUFFIX}: {path!r} does not.")
        try:
            await asyncio.to_thread(folder.write_new, path, notebook)
        except FileExistsError as error:
            raise ToolFailure(f"{path} exists already. Use another path.", reason="exists") from error
        return path


def _missing(said: str) -> ToolFailure:
    return refusal(said, "not_found")
