"""A conversation of the loop with the configured chat model, over an open engine. Importing this takes seconds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.agent import instructions
from engine.agent.budget import Budget
from engine.agent.events import OnEvent, nobody_watches
from engine.agent.loop import Conversation
from engine.agent.model import ModelClient
from engine.app.engine import Engine
from engine.app.models import endpoint_of
from engine.contract.turn import Turn


@asynccontextmanager
async def open_conversation(
    engine: Engine,
    *,
    turn: Turn | None = None,
    agent: str | None = None,
    on_event: OnEvent = nobody_watches,
    stream: bool = True,
) -> AsyncIterator[Conversation]:
    """Raises ConfigError when no model is configured, its key is missing, or the agent cannot be used.

    turn: user, agent and features of every turn. agent: a registered one, which the turn is made one of and whose
    default prompt joins the instructions. stream: whether text is sent to `on_event` as it comes.
    """
    system = instructions.SYSTEM
    if agent:
        turn = await engine.turn_of(agent, turn)
        system = f"{system}\n{await engine.registries.instructions(agent)}".rstrip() + "\n"
    limits = engine.settings.budget
    budget = Budget(limits.turns, limits.tool_calls, limits.tokens, limits.wall_s)
    async with ModelClient(endpoint_of(engine.settings.model)) as model:
        yield Conversation(engine, model, turn=turn, budget=budget, on_event=on_event, system=system, stream=stream)
