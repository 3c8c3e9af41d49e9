"""The text of the reports about the weather and the location."""

from collections.abc import Mapping, Sequence

from builtin_tools.weather.locating import LocationOrigin
from builtin_tools.weather.place import Place
from builtin_tools.weather.report_data import CurrentRow, DayRow

_ORIGINS: Mapping[LocationOrigin, str] = {
    "call": "",
    "profile": ", from the user's profile",
    "configuration": ", from the configuration",
    "lookup": ", looked up by the address of the internet connection",
}


def place_text(place: Place, origin: LocationOrigin) -> str:
    return f"{place.shown}{_ORIGINS[origin]}."


def other_places(places: Sequence[Place]) -> list[str]:
    return [f"Further places with this name: {'; '.join(place.shown for place in places)}."] if places else []


def current_line(now: CurrentRow, units: Mapping[str, str]) -> str:
    temperature, wind = units["temperature"], units["wind_speed"]
    return (
        f"Now ({now['time']}): {now['weather']}, {_with(now['temperature'], temperature)} (feels like "
        f"{_with(now['feels_like'], temperature)}), humidity {_with(now['humidity'], '%')}, wind "
        f"{_with(now['wind_speed'], wind)} from {_with(now['wind_direction'], '°')} with gusts of "
        f"{_with(now['wind_gusts'], wind)}, precipitation {_with(now['precipitation'], units['precipitation'])}."
    )


def day_line(day: DayRow, units: Mapping[str, str]) -> str:
    temperature, wind, rain = (units[name] for name in ("temperature", "wind_speed", "precipitation"))
    sun = f", sun from {day['sunrise'][-5:]} to {day['sunset'][-5:]}" if day["sunrise"] and day["sunset"] else ""
    return (
        f"{day['date']}: {day['weather']}, {_with(day['lowest'], temperature)} to "
        f"{_with(day['highest'], temperature)}, precipitation {_with(day['precipitation'], rain)} (probability "
        f"{_with(day['precipitation_probability'], '%')}), wind up to {_with(day['wind_speed'], wind)}{sun}."
    )


def _with(value: float | None, unit: str) -> str:
    """Return a value with its unit; "unknown" for None."""
    return "unknown" if value is None else f"{value:g} {unit}".strip()
