"""`knackbox kernelspec …`: installs kernelspecs with which Jupyter clients start kernels in boxes."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.sizes import kernel_memory, size
from engine.interfaces.cli.tables import print_table
from sandbox.kernels import kernelspec
from sandbox.kernels.kernelspec import Installed, SpecRefused
from sandbox.kernels.spec import KernelSpec

app = typer.Typer(
    help="Install, list and remove kernels that run in boxes, for Jupyter clients.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.command()
def install(
    ctx: typer.Context,
    *,
    user: Annotated[bool, typer.Option("--user", help="Install for the current user's Jupyter.")] = False,
    sys_prefix: Annotated[
        bool, typer.Option("--sys-prefix", help="Install for the Jupyter of this environment.")
    ] = False,
    prefix: Annotated[
        Path | None, typer.Option("--prefix", metavar="DIR", help="Install for the Jupyter of the environment at DIR.")
    ] = None,
    name: Annotated[str, typer.Option("--name", help="The kernelspec's name in programs.")] = kernelspec.NAME,
    display_name: Annotated[
        str, typer.Option("--display-name", help="The name that Jupyter displays.")
    ] = kernelspec.DISPLAY_NAME,
    workspace: Annotated[Path | None, typer.Option("--workspace", help="A folder to mount at /work.")] = None,
    notebook_folder: Annotated[
        bool, typer.Option("--notebook-folder", help="Mount each notebook's own folder at /work.")
    ] = False,
    read_only: Annotated[bool, typer.Option("--read-only", help="Mount the folder read-only.")] = False,
    memory: Annotated[
        int | None, typer.Option("--memory", parser=kernel_memory, metavar="SIZE", help="Memory limit, such as 2GiB.")
    ] = None,
    disk: Annotated[
        int | None, typer.Option("--disk", parser=size, metavar="SIZE", help="Size limit of the files in the box.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", min=16, help="Maximum number of processes and threads.")
    ] = None,
    cpu: Annotated[
        float | None, typer.Option("--cpu", min=1, metavar="SECONDS", help="CPU time limit over all cells.")
    ] = None,
    lifetime: Annotated[
        float | None, typer.Option("--lifetime", min=1, metavar="SECONDS", help="Maximum lifetime of a kernel.")
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace an existing kernelspec even if Knackbox did not install it.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Install a kernelspec with which Jupyter starts kernels in boxes. Run this again to change the options.

    By default, it is installed for the Jupyter of this environment or, outside an environment, for the current user. A
    Jupyter installation without Knackbox in the same environment does not list the kernel and cannot start it.
    """
    if find_spec("ipykernel") is None:
        fail(
            "kernelspec: ipykernel is not installed. "
            "Run pip install 'knackbox[kernels]' in the environment that Knackbox runs in.",
            Exit.ENVIRONMENT,
        )
    if sum((user, sys_prefix, prefix is not None)) > 1:
        fail("kernelspec: use only one of --user, --sys-prefix and --prefix.", Exit.USAGE)
    if workspace is not None and notebook_folder:
        fail("kernelspec: use either --workspace or --notebook-folder, not both.", Exit.USAGE)
    if workspace is not None and not workspace.is_dir():
        fail(f"kernelspec: --workspace {workspace} is not a folder. Name one that exists.", Exit.USAGE)
    if read_only and workspace is None and not notebook_folder:
        fail("kernelspec: --read-only needs --workspace or --notebook-folder.", Exit.USAGE)
    wanted = {
        "workspace": str(workspace.resolve()) if workspace is not None else None,
        "notebook_folder": notebook_folder or None,
        "read_only": read_only or None,
        "memory_bytes": memory,
        "disk_bytes": disk,
        "processes": processes,
        "cpu_s": cpu,
        "lifetime_s": lifetime,
    }
    config = {key: value for key, value in wanted.items() if value is not None}
    place = str(prefix.resolve()) if prefix is not None else None
    if prefix is None and (sys_prefix or (not user and sys.prefix != sys.base_prefix)):
        place = sys.prefix
    try:
        done = kernelspec.install(name, display_name, config, prefix=place, replace=replace)
    except SpecRefused as error:
        fail(f"kernelspec: {error}", Exit.USAGE)
    if wants_json(ctx, as_json):
        emit_json(as_object(done))
        return
    emit(f"{done.display_name!r} is installed as {done.name}: {done.folder}")
    if not config.keys() & {"workspace", "notebook_folder"}:
        say("the kernels cannot access your files. To mount a folder, use --workspace DIR or --notebook-folder.")


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """List the Knackbox kernelspecs that Jupyter finds."""
    specs = list(kernelspec.found())
    if wants_json(ctx, as_json):
        emit_json([as_object(spec) for spec in specs])
    elif not specs:
        say("Jupyter finds no Knackbox kernelspec. Run knackbox kernelspec install to add one.")
    else:
        rows = ((spec.name, spec.display_name, files_of(spec), memory_of(spec), str(spec.folder)) for spec in specs)
        print_table(("name", "display name", "files", "memory", "folder"), rows)


@app.command()
def remove(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The name, as `knackbox kernelspec list` shows it.")] = kernelspec.NAME,
    as_json: Json = False,
) -> None:
    """Remove the first kernelspec with this name that Jupyter finds, if it is a Knackbox kernelspec."""
    try:
        folder = kernelspec.remove(name)
    except SpecRefused as error:
        fail(f"kernelspec: {error}", Exit.USAGE)
    if wants_json(ctx, as_json):
        emit_json({"removed": str(folder)})
    else:
        emit(f"removed {folder}")


def as_object(spec: Installed) -> dict[str, Any]:
    return {
        "name": spec.name,
        "display_name": spec.display_name,
        "folder": str(spec.folder),
        "config": dict(spec.config),
    }


def files_of(spec: Installed) -> str:
    """Describe which files of the host the kernels can access."""
    where = "the notebook's folder" if spec.config.get("notebook_folder") else str(spec.config.get("workspace", "none"))
    return f"{where}, read-only" if spec.config.get("read_only") else where


def memory_of(spec: Installed) -> str:
    amount = spec.config.get("memory_bytes", KernelSpec().memory_bytes)
    return f"{amount >> 20} MiB" if isinstance(amount, int) else "?"
