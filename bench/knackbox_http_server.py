"""`knackbox mcp --http` with a tool that does nothing, for `bench.mcp_http`: ``… HOME``. It prints its URL."""

import asyncio
import json
import sys
from pathlib import Path

from engine import Engine
from engine.app.settings import HttpSettings
from engine.contract.spec import Annotations
from engine.interfaces.http.listen import listen, names_of, url_of
from engine.interfaces.http.server import serve
from engine.registry.decorate import tool
from engine.registry.static import StaticSource


@tool(annotations=Annotations(read_only=True))
async def nothing(value: int) -> int:
    """Return the value."""
    return value


async def main(home: Path) -> None:
    listening = listen("127.0.0.1", 0, allow_remote=False)
    await serve(
        lambda people: Engine.open(
            home, sources=[StaticSource("bench", [nothing])], packs=False, environ={}, people=people
        ),
        listening,
        names_of(listening, "127.0.0.1", ()),
        HttpSettings(calls_per_token=1_000),
        lambda: print(json.dumps({"url": f"{url_of(listening)}/mcp"}), flush=True),
        api=False,
    )


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
