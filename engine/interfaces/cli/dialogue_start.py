"""`hold_dialogue`: shows the prompt of a dialogue at once, and loads the engine and the model client behind it."""

import asyncio
import os
import sys
from functools import cache
from importlib import import_module

import typer

from engine.app.home import Home
from engine.interfaces.cli.chat_request import ChatRequest
from engine.interfaces.cli.line_editor import LineEditor
from engine.interfaces.cli.shared import options, say
from engine.interfaces.cli.slash_commands import OWN, commands_of
from engine.interfaces.cli.spinner import Spinner


def hold_dialogue(ctx: typer.Context, request: ChatRequest) -> None:
    """Hold a dialogue until the user leaves.

    Raises:
        ConfigError: There is no model, or nothing to continue.
        KeyboardInterrupt: The user left while a run was being stopped.
    """
    asyncio.run(_hold(ctx, request))


async def _hold(ctx: typer.Context, request: ChatRequest) -> None:
    home = Home.locate(options(ctx).home, os.environ)
    known = cache(lambda: commands_of(ctx))  # reads the entry points of all packages, so only when it is needed
    editor = LineEditor(home.chat_history, lambda: sorted({*OWN, *known()}))
    spinner = Spinner("loading the engine and the model client")

    def show_loading(line: "asyncio.Task[str]") -> None:
        """Show that the first line has to wait."""
        if sys.stderr.isatty() and not line.cancelled() and line.exception() is None:
            spinner.start()

    say("/help lists the commands; Ctrl-C stops a run, Ctrl-D leaves.")
    first = asyncio.create_task(editor.read(), name="first line")
    first.add_done_callback(show_loading)

    def opened() -> None:
        first.remove_done_callback(show_loading)
        spinner.stop()

    try:
        await editor.shown.wait()
        # In a thread, because it imports the model client, which takes seconds. The user can type meanwhile.
        loaded = await asyncio.to_thread(import_module, "engine.interfaces.cli.dialogue")
        await loaded.talk(ctx, request, editor, first=first, known=known, spinner=spinner, opened=opened)
    finally:
        spinner.stop()
        first.cancel()  # restores the terminal if the engine could not be opened
        await asyncio.gather(first, return_exceptions=True)
