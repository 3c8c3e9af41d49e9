"""Manage the kernels of agents, in all running processes of this home.

The commands `knackbox kernel …`. Entry point of the group ``knackbox.commands``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from builtin_tools.kernels.control_socket import LIST_S, ControlPeer, Gone, PeerError, peers_in, remove
from builtin_tools.kernels.kernel_views import ago, megabytes
from engine.contract.failure import ConfigError
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Exit, Json, emit, emit_json, fail, say, wants_json
from engine.interfaces.cli.tables import print_table
from engine.stores.atomic import write_atomic
from sandbox.kernels.spec import DEFAULT_NAME

Name = Annotated[str, typer.Argument(help="Name of the kernel, as in `knackbox kernel list`.")]
Agent = Annotated[str | None, typer.Option("--agent", help="The agent, if two agents have a kernel with this name.")]
User = Annotated[str | None, typer.Option("--user", help="The agent's user, if the name is not unique.")]
Process = Annotated[int | None, typer.Option("--process", help="The process id, if the name is not unique.")]

COLUMNS = ("user", "agent", "kernel", "process", "state", "cells", "memory", "workspace")

app = typer.Typer(
    help="Manage the kernels of agents, in all running processes of this home.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


@app.command("list")
def list_(ctx: typer.Context, as_json: Json = False) -> None:
    """List all kernels with their agent, process and state."""
    found = [row for _, row in _found(ctx)]
    if wants_json(ctx, as_json):
        emit_json(found)
    elif not found:
        say("no kernels are running; an agent's `execute` with stateful=true starts one.")
    else:
        print_table(COLUMNS, [[_cell(row, column) for column in COLUMNS] for row in found])


@app.command()
def show(
    ctx: typer.Context,
    name: Name = DEFAULT_NAME,
    *,
    agent: Agent = None,
    user: User = None,
    process: Process = None,
    as_json: Json = False,
) -> None:
    """Show the last cells of a kernel, and its variables."""
    peer, row = _one(ctx, name, agent, user, process)
    answer = _ask(peer, row, "show")
    cells, variables = _list(answer.get("cells")), answer.get("variables")
    if wants_json(ctx, as_json):
        emit_json({**row, "cells": cells, "variables": variables, "variables_error": answer.get("variables_error")})
        return
    for cell in cells:
        took = f", {cell.get('wall_s')} s" if cell.get("wall_s") is not None else ""
        emit(f"[{cell.get('cell')}] {cell.get('end')}{took}\n{_indented(cell.get('code'))}")
        for text in (cell.get("printed"), cell.get("error"), cell.get("state_lost")):
            if text:
                emit(_indented(text, "  | "))
    if isinstance(variables, Mapping):
        rows = _list(variables.get("variables"))
        columns = ("name", "type", "length", "shape", "dtype", "size_bytes")
        print_table(columns, [[_plain(each.get(column)) for column in columns] for each in rows])
        if len(rows) < int(variables.get("total", 0)):
            say(f"{len(rows)} of {variables.get('total')} variables are shown.")
    else:
        say(f"the variables are unavailable: {_plain(answer.get('variables_error'))}")


@app.command()
def interrupt(
    ctx: typer.Context, name: Name = DEFAULT_NAME, agent: Agent = None, user: User = None, process: Process = None
) -> None:
    """Interrupt the running cell, as Ctrl-C would; the state is kept."""
    peer, row = _one(ctx, name, agent, user, process)
    _ask(peer, row, "interrupt")
    say(f"{row['kernel']} was interrupted.")


@app.command()
def stop(
    ctx: typer.Context, name: Name = DEFAULT_NAME, agent: Agent = None, user: User = None, process: Process = None
) -> None:
    """Stop a kernel. The agent is told in the result of its next cell."""
    peer, row = _one(ctx, name, agent, user, process)
    _ask(peer, row, "stop")
    say(f"{row['kernel']} is stopped.")


@app.command()
def export(
    ctx: typer.Context,
    name: Name = DEFAULT_NAME,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE.ipynb", help="The file to write.")],
    agent: Agent = None,
    user: User = None,
    process: Process = None,
) -> None:
    """Export the cells that have been run, with their outputs, as a notebook."""
    peer, row = _one(ctx, name, agent, user, process)
    notebook = _ask(peer, row, "export").get("notebook")
    if not isinstance(notebook, str):
        fail(f"process {peer.process} sent no notebook.")
    try:
        write_atomic(output, notebook.encode())
    except OSError as error:
        fail(f"{output} cannot be written ({error.strerror or error}).", Exit.USAGE)
    say(f"{output} is written.")


def _found(ctx: typer.Context) -> list[tuple[ControlPeer, dict[str, Any]]]:
    """Return the kernels of all processes that answer. Prints a line for each process that does not."""
    home, _ = settings_of(ctx)
    found = []
    try:
        peers = peers_in(home.run)
    except OSError as error:
        raise ConfigError(f"{home.run}: the sockets cannot be listed ({error}).") from error
    for peer in peers:
        try:
            rows = _list(peer.ask({"do": "list"}, LIST_S).get("kernels"))
        except Gone:
            remove(peer.folder, peer.name)
        except PeerError as error:
            say(str(error))
        else:
            found += [(peer, {**row, "process": peer.process}) for row in rows]
    return found


def _one(
    ctx: typer.Context, name: str, agent: str | None, user: str | None, process: int | None
) -> tuple[ControlPeer, dict[str, Any]]:
    """Return the selected kernel. If there is none, or more than one, end the command with an error."""
    wanted = {"kernel": name, "agent": agent, "user": user, "process": process}
    asked = {key: value for key, value in wanted.items() if value is not None}
    found = [each for each in _found(ctx) if all(each[1].get(key) == value for key, value in asked.items())]
    if not found:
        fail(f"no kernel {name!r} matches these options; see knackbox kernel list.", Exit.USAGE)
    if len(found) > 1:
        which = ", ".join(
            f"--process {row['process']} --agent {row.get('agent')} --user {row.get('user')}" for _, row in found
        )
        fail(f"there are {len(found)} kernels called {name!r}; select one: {which}.", Exit.USAGE)
    return found[0]


def _ask(peer: ControlPeer, row: Mapping[str, Any], do: str) -> Mapping[str, Any]:
    try:
        return peer.ask({"do": do, **{key: str(row.get(key)) for key in ("user", "agent", "kernel")}})
    except PeerError as error:
        fail(str(error))


def _list(found: object) -> list[dict[str, Any]]:
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _cell(row: Mapping[str, Any], column: str) -> str:
    if column == "memory":
        size = row.get("memory_bytes")
        return megabytes(size if isinstance(size, int) else None)
    if column == "state":
        since = row.get("since_s")
        return f"{_plain(row.get('state'))} {ago(since if isinstance(since, int | float) else 0)}"
    return _plain(row.get(column))


def _plain(value: object) -> str:
    """Return the value on one line, without terminal control characters."""
    text = " x ".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
    return "".join(each if each.isprintable() else "?" for each in text)


def _indented(text: object, mark: str = "    ") -> str:
    return "\n".join(mark + _plain(line) for line in str(text).splitlines())
