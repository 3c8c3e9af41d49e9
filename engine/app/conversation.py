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
from engine.app.settings import BudgetSettings
from engine.contract.turn import Turn


@asynccontextmanager
async def open_conversation(
    engine: Engine,
    *,
    turn: Turn | None = None,
    agent: str | None = None,
    on_event: OnEvent = ignore_event,
    stream: bool = True,
    budget: Budget | None = None,
    leave_open: bool = False,
    may_wait: bool = True,
    model: str = "",
) -> AsyncIterator[Conversation]:
    """Open a conversation with the configured model.

    Args:
        engine: Lists and runs the tools.
        turn: The user, agent and features of every turn.
        agent: The id of a registered agent. Its limits apply to every turn, and its default prompt is added to the
            instructions.
        on_event: Receives the events of each run.
        stream: Whether text is sent to `on_event` as it arrives.
        budget: The limits of each run; None for the configured ones.
        leave_open: Whether a run whose task is cancelled can be resumed. If not, the run ends.
        may_wait: Whether a run that needs an approval, or a model that is down, stops and can be resumed.
        model: The name of another model of the configured provider; "" for the configured one.

    Raises:
        ConfigError: No model is configured, its key is missing, or the agent cannot be used.
    """
    system = instructions.SYSTEM
    if agent:
        turn = await engine.turn_of(agent, turn)
        system = f"{system}\n{await engine.registries.instructions(agent)}".rstrip() + "\n"
    chosen = budget or configured_budget(engine.settings.budget)
    configured = engine.settings.model
    chosen_model = configured.model_copy(update={"name": model}) if model else configured
    async with ModelClient(endpoint_of(chosen_model)) as client:
        yield Conversation(
            engine,
            client,
            turn=turn,
            budget=chosen,
            on_event=on_event,
            system=system,
            stream=stream,
            runs=runs_of(engine),
            leave_open=leave_open,
            may_wait=may_wait,
        )


def configured_budget(limits: BudgetSettings) -> Budget:
    """Return the limits of a run as configured in `[budget]`."""
    return Budget(limits.turns, limits.tool_calls, limits.tokens, limits.wall_s)


def runs_of(engine: Engine) -> Runs:
    """Return the runs of an engine's home."""
    return Runs(engine.runs, patience_s=engine.settings.runs.model_wait_s)
