"""Three tools about the research stations of the data. Two use services: one fails at times, the other is down.

They are written as a company would write its own tools: typed functions, a source, and a fallback chain. The failures
are real: responses with status 503, and refused connections.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from engine.contract.spec import Annotations
from engine.registry.decorate import tool
from engine.registry.static import StaticSource

from .local_server import dead_port, serve

CHAINS = """
  # of the demo
  station_archive:
    - tool: station_notes
      arguments: {island: $island}
      note: A short summary that is kept on this machine.
"""
Island = Literal["Biscoe", "Dream", "Torgersen"]
# Palmer Archipelago, Antarctica: positions from the SCAR Composite Gazetteer of Antarctica.
_NOTES = {
    "Biscoe": "Biscoe Point, 64.81 S 63.78 W.",
    "Dream": "Dream Island, 64.73 S 64.23 W.",
    "Torgersen": "Torgersen Island, 64.77 S 64.08 W; Adelie penguins only.",
}


class Weather:
    """A service that answers every other request with status 503 and `Retry-After`."""

    def __init__(self) -> None:
        self._requests = 0

    async def answer(self, request: Request) -> JSONResponse:
        self._requests += 1
        if self._requests % 2:
            return JSONResponse({"error": "busy"}, status_code=503, headers={"Retry-After": "0.1"})
        return JSONResponse({"island": request.path_params["island"], "air_c": -2.5, "wind_m_s": 7.0})


def station_source(weather_url: str, archive_url: str) -> StaticSource:
    """Return a source with the three tools, which use the services at these URLs."""

    @tool(category="stations", annotations=Annotations(read_only=True))
    async def station_weather(island: Island) -> dict[str, float]:
        """Return the current weather on an island: air temperature in degrees Celsius, wind in metres per second.

        Args:
            island: The island of the station.
        """
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"{weather_url}/weather/{island}")
            answer.raise_for_status()
            return {"air_c": answer.json()["air_c"], "wind_m_s": answer.json()["wind_m_s"]}

    @tool(category="stations", annotations=Annotations(read_only=True))
    async def station_archive(island: Island) -> str:
        """Look up an island in the station archive and return all that is known about it.

        Args:
            island: The island of the station.
        """
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"{archive_url}/archive/{island}")
            answer.raise_for_status()
            return answer.text

    @tool(category="stations", annotations=Annotations(read_only=True))
    async def station_notes(island: Island) -> str:
        """Return the short notes on an island that are stored on this machine.

        Args:
            island: The island of the station.
        """
        return _NOTES[island]

    return StaticSource("stations", (station_weather, station_archive, station_notes))


@asynccontextmanager
async def stations() -> AsyncIterator[StaticSource]:
    """Run the weather service inside the context, and yield the source. Nothing listens at the archive's URL."""
    routes = [Route("/weather/{island}", Weather().answer)]
    async with serve(Starlette(routes=routes)) as url:
        yield station_source(url, f"http://127.0.0.1:{dead_port()}")
