"""`with_engine`: opens an engine for one command.

Commands of packs (entry points of the group ``knackbox.commands``, each a ``typer.Typer``) use it too:

    @app.command("list")
    def list_(ctx: typer.Context, as_json: Json = False) -> None:
        async def work(engine: Engine) -> None:
            ...
        with_engine(ctx, work)
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import typer

from engine.app.engine import Engine
from engine.app.sandboxes import unsafe_sandbox
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import options
from engine.interfaces.cli.spinner import Spinner
from engine.interfaces.cli.terminal_people import people_at_terminal

T = TypeVar("T")


def with_engine(
    ctx: typer.Context, work: Callable[[Engine], Coroutine[Any, Any, T]], spinner: Spinner | None = None
) -> T:
    """Open an engine with the global options, run the work and close the engine.

    Args:
        ctx: The context of the command.
        work: An async function that uses the engine. Its result is returned.
        spinner: A spinner to pause while a person is asked something.

    Raises:
        ConfigError: The configuration is invalid.
        SandboxError: The sandbox cannot be opened.
    """

    async def session() -> T:
        async with opened_engine(ctx, spinner) as engine:
            return await work(engine)

    return asyncio.run(session())


@asynccontextmanager
async def opened_engine(ctx: typer.Context, spinner: Spinner | None = None) -> AsyncIterator[Engine]:
    """Open an engine with the global options.

    Args:
        ctx: The context of the command.
        spinner: A spinner to pause while a person is asked something.

    Raises:
        ConfigError, SandboxError: As in `with_engine`.
    """
    home, settings = settings_of(ctx)
    sandbox = unsafe_sandbox() if options(ctx).unsafe_no_sandbox else None
    people = people_at_terminal(spinner)
    async with Engine.open(home.root, settings=settings, sandbox=sandbox, people=people) as engine:
        yield engine
