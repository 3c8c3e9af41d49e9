"""`knackbox work`: runs the background services of packs, such as jobs, until interrupted."""

import asyncio
import signal

import typer

from engine.app.background import background
from engine.app.engine import Engine
from engine.contract.failure import ConfigError
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Json, emit_json, options, say, wants_json

app = typer.Typer(pretty_exceptions_enable=False)


@app.command()
def work(ctx: typer.Context, as_json: Json = False) -> None:
    """Run jobs until interrupted. `knackbox serve` and `knackbox mcp` run them, too."""
    if options(ctx).unsafe_no_sandbox:
        raise ConfigError("jobs are never run without isolation: leave out --unsafe-no-sandbox.")
    home, settings = settings_of(ctx)

    async def until_stopped() -> None:
        stopped, loop = asyncio.Event(), asyncio.get_running_loop()
        for each in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(each, stopped.set)
        async with Engine.open(home.root, settings=settings) as engine, background(engine):
            if wants_json(ctx, as_json):
                emit_json({"home": str(home.root)})
            say(f"running the jobs of {home.root} until interrupted.")
            await stopped.wait()

    asyncio.run(until_stopped())
