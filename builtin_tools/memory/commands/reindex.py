"""The command `knackbox memory reindex`: completes the indexes of the memory, for instance for another encoder."""

import asyncio

import typer

from builtin_tools.memory.commands.facts import reported
from builtin_tools.memory.reindexing import ReindexedMemory
from builtin_tools.memory.service import MemoryService
from engine.app.engine import Engine
from engine.interfaces.cli.progress_bar import ProgressBar
from engine.interfaces.cli.session import with_engine
from engine.interfaces.cli.shared import Json, emit, emit_json, wants_json
from engine.interfaces.cli.spinner import shown_later


def reindex(ctx: typer.Context, *, as_json: Json = False) -> None:
    """Complete the search indexes of all users, and show the progress. Engines do this in the background.

    It is needed after `encoder` in [packs.memory] was changed. Vectors of the previous encoder are deleted.
    """
    bar = ProgressBar("re-indexing")

    async def work(engine: Engine) -> ReindexedMemory:
        return await asyncio.to_thread(engine.need(MemoryService).reindexing.run, bar.count)

    with reported(), shown_later(bar):
        done = with_engine(ctx, work, bar)
    if wants_json(ctx, as_json):
        emit_json({"encoder": done.encoder, "owners": done.owners, "entries": done.entries})
    else:
        encoder = f"; encoder: {done.encoder.partition(':')[0]}" if done.encoder else ""
        emit(f"indexed entries: {done.entries}, users and shared spaces: {done.owners}{encoder}.")
