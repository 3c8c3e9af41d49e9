"""Makes the reports of the actions `weather` and `location` of `system_utility`."""

from urllib.parse import urlsplit

from builtin_tools.weather.locating import Located, WantedPlace, locate
from builtin_tools.weather.open_meteo import OpenMeteo
from builtin_tools.weather.report_data import (
    LocationReport,
    WeatherReport,
    current_row,
    day_rows,
    place_row,
    units_of,
)
from builtin_tools.weather.report_text import current_line, day_line, other_places, place_text
from builtin_tools.weather.settings import Units, WeatherSettings
from builtin_tools.web.contract import WebClient
from engine.contract.context import CallContext, Produced


async def report_location(ctx: CallContext, wanted: WantedPlace) -> Produced[LocationReport]:
    """Return the place that a call names, or the user's location.

    Raises:
        ToolFailure: As for `locate`.
    """
    located = await _locate(ctx, wanted)
    lines = [place_text(located.place, located.origin), *other_places(located.others)]
    if located.route:
        lines.append(f"Route of the request: {located.route}.")
    report: LocationReport = {
        "place": place_row(located.place),
        "origin": located.origin,
        "others": [place_row(place) for place in located.others],
        "route": located.route,
    }
    return Produced(report, "\n".join(lines))


async def report_weather(
    ctx: CallContext, wanted: WantedPlace, units: Units | None, days: int
) -> Produced[WeatherReport]:
    """Return the weather of the place that a call names, or of the user's location.

    Raises:
        ToolFailure: As for `locate` and `OpenMeteo.forecast`.
    """
    settings = ctx.need(WeatherSettings)
    located = await _locate(ctx, wanted)
    forecast, response = await _service(ctx, settings).forecast(located.place, units or settings.units, days)
    source = urlsplit(response.url).hostname or ""
    report: WeatherReport = {
        "place": place_row(located.place),
        "origin": located.origin,
        "others": [place_row(place) for place in located.others],
        "time_zone": forecast.timezone,
        "units": units_of(forecast),
        "current": current_row(forecast.current),
        "days": day_rows(forecast.daily)[:days],
        "source": source,
        "route": response.route,
    }
    ending = f"Weather data by Open-Meteo.com, from {source}, route: {response.route}."
    lines = [
        f"{place_text(located.place, located.origin)} Time zone: {forecast.timezone or 'unknown'}.",
        current_line(report["current"], report["units"]),
        *(day_line(day, report["units"]) for day in report["days"]),
        *other_places(located.others),
        ending,
    ]
    return Produced(report, "\n".join(lines))


async def _locate(ctx: CallContext, wanted: WantedPlace) -> Located:
    settings = ctx.need(WeatherSettings)
    return await locate(ctx, _client(ctx), _service(ctx, settings), settings, wanted)


def _service(ctx: CallContext, settings: WeatherSettings) -> OpenMeteo:
    return OpenMeteo(_client(ctx), settings, ctx.call_id, ctx.progress)


def _client(ctx: CallContext) -> WebClient:
    client: WebClient = ctx.need(WebClient)  # type: ignore[type-abstract] # services are found by their protocol
    return client
