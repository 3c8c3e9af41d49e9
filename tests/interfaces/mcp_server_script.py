"""An MCP server for tests, with the tools of the small test pack: ``mcp_server_script.py HOME``."""

import asyncio
import sys

from engine import Engine
from engine.interfaces.mcp.engine_handler import engine_handler
from engine.interfaces.mcp.server import serve_stdio
from tests.app.pack import source
from tests.interfaces.learning import LearningSource

if __name__ == "__main__":
    asyncio.run(
        serve_stdio(
            lambda clients: engine_handler(
                clients,
                lambda people: Engine.open(
                    sys.argv[1], sources=[source(), LearningSource(sys.argv[1])], packs=False, environ={}, people=people
                ),
            )
        )
    )
