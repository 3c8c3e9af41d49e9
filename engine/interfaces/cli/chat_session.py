"""`open_chat`: opens a new conversation, or continues one of the journal. Importing this module takes seconds."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from engine.agent.conversation import Conversation
from engine.agent.events import OnEvent, Report
from engine.app.conversation import open_conversation, runs_of
from engine.app.engine import Engine
from engine.contract.failure import ConfigError, ToolFailure
from engine.contract.project_lookup import ProjectLookup
from engine.contract.turn import Turn
from engine.interfaces.cli.chat_request import ChatRequest
from engine.stores.run_journal import ENDED, RunRow

SOURCE = "chat"  # recorded with each run
_MAIN = Turn()


@dataclass(frozen=True, slots=True)
class Chat:
    """An open conversation.

    Attributes:
        conversation: Works on messages.
        unfinished: The id of its latest run, if that was interrupted or waits; "" otherwise.
        earlier: The message and the answer of its latest run; both "" in a new conversation.
    """

    engine: Engine
    conversation: Conversation
    unfinished: str = ""
    earlier: tuple[str, str] = ("", "")

    async def resume(self) -> Report:
        """Continue the unfinished run.

        Raises:
            RunBusy: Another process works on it.
        """
        run = await runs_of(self.engine).open(self.unfinished)
        return await self.conversation.resume(run)


@asynccontextmanager
async def open_chat(engine: Engine, request: ChatRequest, on_event: OnEvent, *, stream: bool) -> AsyncIterator[Chat]:
    """Open the conversation that is asked for.

    Raises:
        UnknownRun: There is no such run.
        ConfigError: There is nothing to continue, no model is configured, or the agent or project is unknown.
    """
    row = await asyncio.to_thread(latest_run, engine, request)
    agent = request.agent
    project = await _project_id(engine, request.project) if request.project else ""
    if row is not None:
        # A conversation goes on with the rights and the project that it had.
        agent = agent or (row.agent if row.agent != _MAIN.agent else None)
        project = project or json.loads(row.setup)["turn"].get("project", "")
    turn = replace(_MAIN, project=project) if project else None
    ended = row is not None and row.state == ENDED
    opened = open_conversation(
        engine,
        turn=turn,
        agent=agent,
        on_event=on_event,
        stream=stream,
        source=SOURCE,
        continues=row.id if row is not None and ended else "",
    )
    async with opened as conversation:
        unfinished = row.id if row is not None and not ended else ""
        earlier = await asyncio.to_thread(_earlier, engine, row) if row is not None else ("", "")
        yield Chat(engine, conversation, unfinished, earlier)


def latest_run(engine: Engine, request: ChatRequest) -> RunRow | None:
    """Return the latest run of the conversation to continue; None for a new conversation. Blocks.

    Raises:
        ConfigError: There is no such run, or another process works on it.
    """
    if request.resume:
        return _free(engine.runs.one(request.resume))
    if not request.latest:
        return None
    found = engine.runs.latest(SOURCE, _MAIN.user, request.agent or _MAIN.agent)
    if found is None:
        raise ConfigError("There is no conversation to continue. Start one with knackbox chat.")
    return _free(found)


def _free(row: RunRow) -> RunRow:
    """Check that no other process works on a run."""
    if row.working:
        raise ConfigError(
            f"The run {row.id} is being worked on by another process. Watch it with knackbox runs follow {row.id}."
        )
    return row


def _earlier(engine: Engine, row: RunRow) -> tuple[str, str]:
    entries = engine.runs.entries(row.id)
    last = json.loads(entries[-1].entry) if entries else {}
    return row.message, last.get("answer", "")


async def _project_id(engine: Engine, named: str) -> str:
    try:
        return await engine.need(ProjectLookup).id_of(_MAIN.user, named)
    except ToolFailure as error:
        raise ConfigError(str(error)) from error
