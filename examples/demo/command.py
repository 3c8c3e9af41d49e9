"""`knackbox demo`: the whole cycle of learning, finding and calling skills, on a published data set."""

import asyncio
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from engine.app.engine import Engine
from engine.app.home import Home
from engine.app.settings import Settings
from engine.contract.failure import ConfigError
from engine.interfaces.cli.settings import settings_of
from engine.interfaces.cli.shared import Exit, Json, emit_json, fail, wants_json

from .screen import DemoScreen
from .scripted_model import NAME, ScriptedModel, scripted_model
from .skills import EARLIER
from .stage import Happened, furnish, learn_earlier, play
from .stations import stations
from .story import SCENES

app = typer.Typer(pretty_exceptions_enable=False)
SCRIPTED = (
    "The model is scripted and served over HTTP on this machine. The loop, the sandbox, the store, the retrieval and "
    "all failures are real."
)


@app.command()
def demo(
    ctx: typer.Context,
    live: Annotated[bool, typer.Option("--live", help="Use the configured model instead of the script.")] = False,
    as_json: Json = False,
) -> None:
    """Show the whole cycle on real data, in a temporary home: learn, find and call skills, recover from failures."""
    json_wanted = wants_json(ctx, as_json)
    _, configured = settings_of(ctx)
    if live and not configured.model.configured:
        raise ConfigError(
            "model: none is configured for --live. Set name (and base_url or provider, and api_key) in [model] of "
            "config.toml, or KNACKBOX_MODEL_NAME and KNACKBOX_MODEL_BASE_URL."
        )
    console = Console(stderr=json_wanted)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="knackbox-demo-") as folder:
        story = asyncio.run(_perform(Home(Path(folder)), configured if live else None, console))
    DemoScreen(console).summary(story, time.monotonic() - started)
    if json_wanted:
        emit_json([_as_object(one) for one in story])
    if not all(one.as_expected for one in story):
        fail("the demo did not go as expected; see the table.", Exit.FAILED)


async def _perform(home: Home, live: Settings | None, console: Console) -> list[Happened]:
    screen = DemoScreen(console)
    story: list[Happened] = []
    async with AsyncExitStack() as stack:
        script: ScriptedModel | None = None
        if live is None:
            script, url = await stack.enter_async_context(scripted_model())
            settings = Settings.model_validate(
                {"model": {"name": NAME, "base_url": url, "api_key": "none"}, "skills": {"retrieve": 3}}
            )
        else:
            settings = live.model_copy(update={"workspace": None})
        screen.title(model=SCRIPTED if script else f"The model is {settings.model.name}, live.")
        await asyncio.to_thread(furnish, home)
        source = await stack.enter_async_context(stations())
        engine = await stack.enter_async_context(Engine.open(home.root, settings=settings, sources=(source,)))
        with Progress(console=console, transient=True) as progress:
            task = progress.add_task("learning a few skills first", total=len(EARLIER))
            await learn_earlier(engine, lambda: progress.advance(task))
        for scene in SCENES:
            screen.scene(scene)
            screen.offered(await engine.get_active_tool_definitions(query=scene.message))
            happened, answer = await play(engine, scene, script, screen)
            screen.answer(answer)
            story += happened
    return story


def _as_object(one: Happened) -> dict[str, object]:
    audit = one.finished.result.audit
    return {
        "scene": one.scene,
        "what": one.what,
        "tool": one.finished.call.name,
        "success": one.finished.result.success,
        "as_expected": one.as_expected,
        "end": audit.end,
        "attempts": audit.attempts,
        "duration_ms": audit.duration_ms,
    }
