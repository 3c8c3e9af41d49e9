"""Opening an engine for one command.

A pack's own sub-commands (entry points of the group ``knackbox.commands``, each a ``typer.Typer``) use the same:

    @app.command("list")
    def list_(ctx: typer.Context, as_json: Json = False) -> None:
        async def work(engine: Engine) -> None:
            ...
        with_engine(ctx, work)
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import typer

from engine.app.engine import Engine
from engine.app.people import People
from engine.app.sandboxes import unsafe_sandbox
from engine.interfaces.cli.approve import at_terminal
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import options
from engine.interfaces.cli.spinner import Spinner

T = TypeVar("T")


def with_engine(
    ctx: typer.Context, work: Callable[[Engine], Coroutine[Any, Any, T]], spinner: Spinner | None = None
) -> T:
    """Open an engine as the global options say, do the work, close it. Raises ConfigError and SandboxError.

    spinner: one that turns meanwhile, and is still while a person is asked for approval.
    """

    async def session() -> T:
        home, settings = settings_of(ctx)
        sandbox = unsafe_sandbox() if options(ctx).unsafe_no_sandbox else None
        people = People(approver=at_terminal(spinner))
        async with Engine.open(home.root, settings=settings, sandbox=sandbox, people=people) as engine:
            return await work(engine)

    return asyncio.run(session())
