"""The data of the reports about the weather and the location."""

from collections.abc import Sequence
from typing import TypeVar

from typing_extensions import TypedDict

from builtin_tools.weather.locating import LocationOrigin
from builtin_tools.weather.open_meteo import CurrentWeather, DailyWeather, Forecast
from builtin_tools.weather.place import Place
from builtin_tools.weather.weather_codes import weather_in_words

_T = TypeVar("_T")


class PlaceRow(TypedDict):
    """A place. Its coordinates are in degrees; a name that is not known is ""."""

    name: str
    region: str
    country: str
    latitude: float
    longitude: float


class LocationReport(TypedDict):
    """A place, and where it comes from.

    Attributes:
        origin: ``call``, ``profile``, ``configuration`` or ``lookup``.
        others: Further places with the same name.
        route: How the request left the machine; "" if none was sent.
    """

    place: PlaceRow
    origin: LocationOrigin
    others: list[PlaceRow]
    route: str


class CurrentRow(TypedDict):
    """The weather now. A value that is not known is null.

    Attributes:
        time: The local time of the place.
        wind_direction: Where the wind comes from, in degrees clockwise from north.
    """

    time: str
    weather: str
    temperature: float | None
    feels_like: float | None
    humidity: float | None
    precipitation: float | None
    wind_speed: float | None
    wind_gusts: float | None
    wind_direction: float | None


class DayRow(TypedDict):
    """The forecast of one day. A value that is not known is null.

    Attributes:
        precipitation_probability: The highest of the day, in percent.
        sunrise, sunset: Local times; "" if unknown.
    """

    date: str
    weather: str
    lowest: float | None
    highest: float | None
    precipitation: float | None
    precipitation_probability: float | None
    wind_speed: float | None
    sunrise: str
    sunset: str


class WeatherReport(TypedDict):
    """The weather of a place.

    Attributes:
        units: The units of temperature, precipitation and wind_speed, as the server states them.
        source: The server of the forecast.
        route: How the request left the machine.
    """

    place: PlaceRow
    origin: LocationOrigin
    others: list[PlaceRow]
    time_zone: str
    units: dict[str, str]
    current: CurrentRow
    days: list[DayRow]
    source: str
    route: str


def place_row(place: Place) -> PlaceRow:
    return {
        "name": place.name,
        "region": place.region,
        "country": place.country,
        "latitude": place.latitude,
        "longitude": place.longitude,
    }


def units_of(forecast: Forecast) -> dict[str, str]:
    stated = {**forecast.daily_units, **forecast.current_units}
    named = {
        "temperature": ("temperature_2m", "temperature_2m_max"),
        "precipitation": ("precipitation", "precipitation_sum"),
        "wind_speed": ("wind_speed_10m", "wind_speed_10m_max"),
    }
    return {name: next((stated[key] for key in keys if key in stated), "") for name, keys in named.items()}


def current_row(now: CurrentWeather) -> CurrentRow:
    return {
        "time": now.time,
        "weather": weather_in_words(now.weather_code),
        "temperature": now.temperature_2m,
        "feels_like": now.apparent_temperature,
        "humidity": now.relative_humidity_2m,
        "precipitation": now.precipitation,
        "wind_speed": now.wind_speed_10m,
        "wind_gusts": now.wind_gusts_10m,
        "wind_direction": now.wind_direction_10m,
    }


def day_rows(daily: DailyWeather) -> list[DayRow]:
    return [
        {
            "date": date,
            "weather": weather_in_words(_at(daily.weather_code, at, None)),
            "lowest": _at(daily.temperature_2m_min, at, None),
            "highest": _at(daily.temperature_2m_max, at, None),
            "precipitation": _at(daily.precipitation_sum, at, None),
            "precipitation_probability": _at(daily.precipitation_probability_max, at, None),
            "wind_speed": _at(daily.wind_speed_10m_max, at, None),
            "sunrise": _at(daily.sunrise, at, ""),
            "sunset": _at(daily.sunset, at, ""),
        }
        for at, date in enumerate(daily.time)
    ]


def _at(values: Sequence[_T], at: int, otherwise: _T) -> _T:
    return values[at] if at < len(values) else otherwise
