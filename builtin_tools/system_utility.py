"""`system_utility`: facts about the machine and the engine, health checks, the weather, and the user's location."""

from typing import Annotated, Literal

from pydantic import Field

from builtin_tools.system.diagnostics import Diagnostics, report_diagnostics
from builtin_tools.system.health import HealthReport, report_health
from builtin_tools.weather.locating import WantedPlace
from builtin_tools.weather.open_meteo import MOST_DAYS
from builtin_tools.weather.report_data import LocationReport, WeatherReport
from builtin_tools.weather.reports import report_location, report_weather
from builtin_tools.weather.settings import Units
from engine.contract.context import CallContext, Produced
from engine.contract.spec import Annotations
from engine.dispatch.refusals import wrong_arguments
from engine.registry.decorate import tool

PlaceName = Annotated[str, Field(min_length=1, max_length=200)]
Latitude = Annotated[float, Field(ge=-90, le=90)]
Longitude = Annotated[float, Field(ge=-180, le=180)]
Days = Annotated[int, Field(ge=1, le=MOST_DAYS)]


@tool(
    category="system",
    annotations=Annotations(read_only=True, idempotent=True),
    tier="low",
    side_effects=("network",),
    timeout_s=180,  # Tor may need two minutes to start
)
async def system_utility(  # noqa: PLR0917 -- the model names its arguments
    ctx: CallContext,
    action: Literal["diagnostics", "health", "weather", "location"],
    place: PlaceName | None = None,
    latitude: Latitude | None = None,
    longitude: Longitude | None = None,
    days: Days = 3,
    units: Units | None = None,
    *,
    lookup: bool = False,
) -> Produced[Diagnostics | HealthReport | WeatherReport | LocationReport]:
    """Report on the machine and the engine that you run on, the weather, or the user's location.

    Use `diagnostics` for the current time, versions, processors, memory, free disk space and the protections of the
    sandbox. Use `health` when several tools fail unexpectedly: it runs code in a fresh box, writes to the workspace,
    opens the records and reports what does not work. Use `weather` for the weather now and the forecast. Use `location`
    to find a place by name, or to learn where the user is. Without a place, `weather` and `location` use the user's
    profile, or else the configuration.

    Args:
        action: Which report to return.
        place: For weather and location: a town, with the country after a comma, such as `Oslo, Norway`.
        latitude: For weather and location: degrees, positive in the north. Needs `longitude`.
        longitude: Degrees, positive in the east.
        days: For weather: the number of days of the forecast, beginning today.
        units: For weather: metric or imperial units. The default is configured.
        lookup: For weather and location: look up the location by the address of the internet connection. A person must
            allow it. Use it only if the user asks for it.
    """
    wanted = WantedPlace(place, latitude, longitude, lookup)
    if action in {"diagnostics", "health"} and wanted != WantedPlace():
        raise wrong_arguments(f"{action} needs no place. Omit `place`, `latitude`, `longitude` and `lookup`.")
    match action:
        case "diagnostics":
            return await report_diagnostics(ctx)
        case "health":
            return await report_health(ctx)
        case "location":
            return await report_location(ctx, wanted)
        case "weather":
            return await report_weather(ctx, wanted, units, days)
