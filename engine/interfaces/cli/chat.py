"""`knackbox chat`: lets the configured model work on messages with the tools. Only the answer goes to stdout.

What a dialogue needs is imported after its prompt is shown, because the model client takes seconds to load.
"""

import sys
from typing import Annotated

import typer

from engine.interfaces.cli.chat_request import ChatRequest
from engine.interfaces.cli.shared import Agent, Exit, Json, fail, wants_json

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def chat(
    ctx: typer.Context,
    message: Annotated[
        str | None,
        typer.Argument(help="The task. Without one, it is read from stdin; at a terminal a dialogue starts."),
    ] = None,
    *,
    latest: Annotated[bool, typer.Option("--continue", "-c", help="Continue the latest conversation.")] = False,
    resume: Annotated[
        str,
        typer.Option("--resume", metavar="ID", help="Continue the conversation of this run; see knackbox runs list."),
    ] = "",
    project: Annotated[str, typer.Option("--project", help="The project that the runs belong to, by id or name.")] = "",
    agent: Agent = None,
    as_json: Json = False,
) -> None:
    """Let the configured model work with the tools. The exit code is 1 if there is no answer."""
    if latest and resume:
        fail("give --continue or --resume, not both.", Exit.USAGE)
    request = ChatRequest(agent, project, latest, resume, wants_json(ctx, as_json))
    if message is None and sys.stdin.isatty():
        from engine.interfaces.cli.dialogue_start import hold_dialogue  # noqa: PLC0415 -- one message needs no line editor

        hold_dialogue(ctx, request)
        return
    from engine.interfaces.cli.single_message import work_on_message  # noqa: PLC0415 -- takes seconds to load

    raise typer.Exit(int(work_on_message(ctx, request, message if message is not None else sys.stdin.read())))
