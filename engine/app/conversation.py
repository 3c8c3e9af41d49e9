"""Opens a conversation in which the configured chat model uses an open engine. Importing this module takes seconds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.agent import instructions
from engine.agent.budget import Budget
from engine.agent.events import OnEvent, ignore_event
from engine.agent.loop import Conversation
from engine.agent.model import ModelClient
from engine.agent.runs import Runs
from engine.app.engine import Engine
from engine.app.models import endpoint_of
from engine.contract.turn import Turn


@asynccontextmanager
async def open_conversation(
    engine: Engine,
    *,
    turn: Turn | None = None,
    agent: str | None = None,
    on_event: OnEvent = ignore_event,
    stream: bool = True,
    leave_open: bool = False,
) -> AsyncIterator[Conversation]:
    """Open a conversation with the configured model.

    Args:
        engine: Lists and runs the tools.
        turn: The user, agent and features of every turn.
        agent: The id of a registered agent. Its limits apply to every turn, and its default prompt is added to the
            instructions.
        on_event: Receives the events of each run.
        stream: Whether text is sent to `on_event` as it arrives.
        leave_open: Whether a run whose task is cancelled can be resumed. If not, the run ends.

    Raises:
        ConfigError: No model is configured, its key is missing, or the agent cannot be used.
    """
    system = instructions.SYSTEM
    if agent:
        turn = await engine.turn_of(agent, turn)
        system = f"{system}\n{await engine.registries.instructions(agent)}".rstrip() + "\n"
    limits = engine.settings.budget
    budget = Budget(limits.turns, limits.tool_calls, limits.tokens, limits.wall_s)
    async with ModelClient(endpoint_of(engine.settings.model)) as model:
        yield Conversation(
            engine,
            model,
            turn=turn,
            budget=budget,
            on_event=on_event,
            system=system,
            stream=stream,
            runs=runs_of(engine),
            leave_open=leave_open,
        )


def runs_of(engine: Engine) -> Runs:
    """Return the runs of an engine's home."""
    return Runs(engine.runs, patience_s=engine.settings.runs.model_wait_s)
