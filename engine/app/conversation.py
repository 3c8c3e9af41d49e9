"""Opens a conversation in which the configured chat model uses an open engine. Importing this module takes seconds."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext

from engine.agent.budget import Budget
from engine.agent.clients.model import ModelClient
from engine.agent.clients.usage import Price
from engine.agent.conversation import Conversation
from engine.agent.events import OnEvent, ignore_event
from engine.agent.hooks import LoopHooks
from engine.agent.prompt import instructions
from engine.agent.runs import Runs
from engine.agent.window import WindowLimits
from engine.app.engine import Engine
from engine.app.models import endpoint_of
from engine.app.settings import BudgetSettings, Settings
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
    source: str = "",
    continues: str = "",
    client: ModelClient | None = None,
    more: str = "",
    hooks: Sequence[LoopHooks] = (),
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
        source: What begins the runs, such as ``"chat"``; it is recorded with them.
        continues: The id of a run that has ended, whose conversation is continued.
        client: An open client of the model; None for a new one.
        more: More instructions.
        hooks: Called before and after the turns and calls of each run.
        model: The name of another model of the configured provider; "" for the configured one.

    Raises:
        UnknownRun: There is no run `continues`.
        ConfigError: No model is configured, its key is missing, or the agent cannot be used.
    """
    system = instructions.SYSTEM
    if agent:
        turn = await engine.turn_of(agent, turn)
        system = f"{system}\n{await engine.registries.instructions(agent)}".rstrip() + "\n"
    system = f"{system}{more}"
    chosen = budget or configured_budget(engine.settings.budget)
    opened = nullcontext(client) if client is not None else new_client(engine, model)
    engine.services.child_loop.used()
    async with opened as used:
        yield Conversation(
            engine,
            used,
            turn=turn,
            budget=chosen,
            on_event=on_event,
            system=system,
            stream=stream,
            runs=await asyncio.to_thread(runs_of, engine, source, continues),
            leave_open=leave_open,
            may_wait=may_wait,
            window=window_of(engine.settings),
            price=price_of(engine.settings, model),
            hooks=hooks,
            most_tools=engine.settings.context.most_tools,
        )


def new_client(engine: Engine, model: str = "") -> ModelClient:
    """Return a new client of the configured model. It is closed as a context manager.

    Args:
        model: The name of another model of the configured provider; "" for the configured one.

    Raises:
        ConfigError: No model is configured, or its key is missing.
    """
    configured = engine.settings.model
    chosen = configured.model_copy(update={"name": model}) if model else configured
    return ModelClient(endpoint_of(chosen), pacing=engine.model_pacing)


def configured_budget(limits: BudgetSettings) -> Budget:
    """Return the limits of a run as configured in `[budget]`."""
    return Budget(limits.turns, limits.tool_calls, limits.tokens, limits.wall_s)


def window_of(settings: Settings) -> WindowLimits:
    """Return the window of the chat model as configured in `[model]` and `[context]`."""
    context = settings.context
    return WindowLimits(settings.model.context_tokens, context.compact_at, context.compact_to, context.summary)


def price_of(settings: Settings, model: str = "") -> Price | None:
    """Return the price of a model as configured in `[prices]`; None if there is none.

    Args:
        model: The name of the model; "" for the configured chat model.
    """
    price = settings.prices.get(model or settings.model.name or "")
    if price is None:
        return None
    read = price.input if price.cache_read is None else price.cache_read
    written = price.input if price.cache_write is None else price.cache_write
    return Price(price.input, price.output, read, written, price.currency)


def runs_of(engine: Engine, source: str = "", continues: str = "") -> Runs:
    """Return the runs of an engine's home. Blocks if there is a run to continue."""
    return Runs(engine.runs, patience_s=engine.settings.runs.model_wait_s, source=source, continues=continues)
