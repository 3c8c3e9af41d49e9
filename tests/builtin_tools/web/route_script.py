"""Requests URLs in a process of its own, for tests in network namespaces.

Standard input: one JSON line with ``home``, ``settings`` and ``requests``, a list of URLs and circuits. Requests are
made at the same time if ``together`` is set. Standard output: a JSON line ``{"ready": ...}``, a line for each request,
and with ``hold``, nothing more until a further line of input arrives.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from builtin_tools.web.route.client import RoutedClient
from engine.app.home import Home
from engine.contract.failure import ToolFailure
from tests.builtin_tools.web.route_parts import web_client


def say(**fields: Any) -> None:
    sys.stdout.write(f"{json.dumps(fields)}\n")
    sys.stdout.flush()


async def request(client: RoutedClient, url: str, circuit: str) -> None:
    progress: list[str] = []
    try:
        got = await client.get(url, circuit=circuit, progress=lambda message, _share: progress.append(message))
    except ToolFailure as failure:
        say(url=url, circuit=circuit, failed=failure.reason, message=str(failure), progress=progress)
    else:
        say(url=got.url, circuit=circuit, data=got.data.decode(), route=got.route, progress=progress)


async def main() -> None:
    given = json.loads(await asyncio.to_thread(sys.stdin.readline))
    async with web_client(Home(Path(given["home"])), **given["settings"]) as client:
        say(ready=True)
        pending = [request(client, url, circuit) for url, circuit in given["requests"]]
        if given.get("together"):
            await asyncio.gather(*pending)
        else:
            for each in pending:
                await each
        if given.get("hold"):
            await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main())
