"""An MCP server for tests, whose tool `pay` needs approval: ``approval_server_script.py HOME``."""

import asyncio
import sys

from engine import Engine
from engine.app.settings import Settings
from engine.contract.spec import Annotations
from engine.interfaces.mcp.engine_handler import engine_handler
from engine.interfaces.mcp.server import serve_stdio
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

PAID: list[int] = []


@tool(annotations=Annotations(requires_confirmation=True))
async def pay(amount: int) -> str:
    """Pay an amount."""
    PAID.append(amount)
    return f"paid {amount}"


@tool(annotations=Annotations(read_only=True))
async def paid() -> list[int]:
    """Return what was paid."""
    return PAID


if __name__ == "__main__":
    settings = Settings.model_validate({"policy": {"approval": "confirmation", "approval_expires_s": 30}})
    sources = [StaticSource("bank", [pay, paid])]
    asyncio.run(
        serve_stdio(
            lambda clients: engine_handler(
                clients,
                lambda people: Engine.open(
                    sys.argv[1], settings=settings, sources=sources, packs=False, environ={}, people=people
                ),
            )
        )
    )
