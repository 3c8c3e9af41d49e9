"""`knackbox call`: calls one tool through the whole pipeline."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.app.engine import Engine
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Agent, Exit, Json, emit, emit_json, fail, read_input, say, wants_json
from engine.interfaces.cli.spinner import working

app = typer.Typer(pretty_exceptions_enable=False)

BAD_INPUT = frozenset({"invalid_arguments", "unknown_tool"})


@app.command()
def call(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The tool's name, as `knackbox tools` shows it.")],
    *,
    args: Annotated[
        str, typer.Option("--args", metavar="JSON|@FILE", help="The arguments as one JSON object; @- reads stdin.")
    ] = "{}",
    allow_list: Annotated[str, typer.Option("--allow-list", help="The name of the allow-list to apply.")] = "",
    agent: Agent = None,
    as_json: Json = False,
) -> None:
    """Call one tool. The exit code is 1 if the tool fails, and 2 if the name or the arguments are invalid."""
    arguments = parse_arguments(args)

    async def work(engine: Engine) -> ToolResult:
        turn = Turn(allowed=engine.resolve_allow_list(allow_list) if allow_list else None)
        if agent:
            turn = await engine.turn_of(agent, turn)
        return await engine.call(name, arguments, turn, progress=spinner.tell)

    with working(f"calling {name}") as spinner:
        result = with_engine(ctx, work, spinner)
    if wants_json(ctx, as_json):
        emit_json(asdict(result))
    elif result.success:
        if result.text:
            emit(result.text)
    else:
        say(result.text or "the tool failed and gave no reason.")
    raise typer.Exit(int(exit_code(result)))


def exit_code(result: ToolResult) -> Exit:
    """Return the exit code for a result."""
    if result.success:
        return Exit.OK
    refused = result.failure is not None and result.failure.reason in BAD_INPUT
    return Exit.USAGE if refused else Exit.FAILED


def parse_arguments(given: str) -> dict[str, Any]:
    """Return the object in `--args`. If it is invalid, end the command."""
    where = "--args"
    text = given
    if given.startswith("@"):
        where = given[1:]
        text = read_input(where, "--args").decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        hint = " To read a file, write @FILE." if Path(given[:200]).is_file() else " Write it like '{\"name\": 1}'."
        fail(f"{where}: not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}.{hint}", Exit.USAGE)
    if not isinstance(value, dict):
        kind = type(value).__name__
        fail(f"{where}: the arguments must be one JSON object like '{{\"name\": 1}}', not {kind}.", Exit.USAGE)
    return value
