"""`configured_handler`: the handler of the engine that the command line asks for."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engine.app.engine import Engine
from engine.app.home import Home
from engine.app.sandboxes import unsafe_sandbox
from engine.app.settings import Settings
from engine.contract.turn import Turn
from engine.interfaces.mcp.clients import Clients
from engine.interfaces.mcp.engine_handler import EngineHandler, engine_handler


@asynccontextmanager
async def configured_handler(
    clients: Clients, home: Home, settings: Settings, *, allow_list: str, agent: str | None, unsafe: bool
) -> AsyncIterator[EngineHandler]:
    """Raises what opening an engine raises.

    clients: are told when tools change. allow_list, agent: whose tools these are; "" and None for everyone's.
    unsafe: without isolation.
    """

    async def turn_of(engine: Engine) -> Turn:
        turn = Turn(allowed=engine.resolve_allow_list(allow_list) if allow_list else None)
        return await engine.turn_of(agent, turn) if agent else turn

    sandbox = unsafe_sandbox() if unsafe else None
    opened = engine_handler(
        clients, lambda people: Engine.open(home.root, settings=settings, sandbox=sandbox, people=people), turn_of
    )
    async with opened as handler:
        yield handler
