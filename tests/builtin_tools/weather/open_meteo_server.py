"""Answers requests as Open-Meteo does: a forecast for coordinates, and a search for places by name.

The formats are those of https://open-meteo.com/en/docs and https://open-meteo.com/en/docs/geocoding-api.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.builtin_tools.http_server import Answer, Seen, Server, reply, serving

Query = dict[str, str]
OSLO = {
    "id": 3143244,
    "name": "Oslo",
    "latitude": 59.91273,
    "longitude": 10.74609,
    "elevation": 26.0,
    "feature_code": "PPLC",
    "country_code": "NO",
    "admin1": "Oslo",
    "timezone": "Europe/Oslo",
    "population": 580000,
    "country_id": 3144096,
    "country": "Norway",
}
PARIS = {
    "id": 2988507,
    "name": "Paris",
    "latitude": 48.85341,
    "longitude": 2.3488,
    "country_code": "FR",
    "admin1": "Île-de-France",
    "timezone": "Europe/Paris",
    "country": "France",
}
PARIS_TEXAS = {
    "id": 4717560,
    "name": "Paris",
    "latitude": 33.66094,
    "longitude": -95.55551,
    "country_code": "US",
    "admin1": "Texas",
    "timezone": "America/Chicago",
    "country": "United States",
}
CELSIUS, KMH, MM = 10.0, 36.0, 25.4  # the weather everywhere


class OpenMeteoAnswers(dict[str, Answer]):
    """The answers by path, whatever the query.

    Attributes:
        places: What the search knows.
        narrows: Whether the search knows names followed by a region or country, which older servers do not.
        failures: Statuses with which the next requests fail.
        changes: Changes of the forecast's response.
    """

    def __init__(self, *, narrows: bool = True) -> None:
        super().__init__()
        self.places: list[dict[str, Any]] = [OSLO, PARIS, PARIS_TEXAS]
        self.narrows = narrows
        self.failures: list[tuple[int, dict[str, str]]] = []
        self.changes: dict[str, Any] = {}

    def get(self, path: str, default: Any = None) -> Any:
        """Return the answer to a request."""
        parts = urlsplit(path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        found = {"/v1/forecast": self.forecast, "/v1/search": self.search}.get(parts.path)
        if self.failures:
            status, headers = self.failures.pop(0)
            return lambda handler, _: reply(handler, status, b'{"error": true, "reason": "failed"}', headers)
        if found is None:
            return super().get(path, default)

        def answer(handler: BaseHTTPRequestHandler, _: Seen) -> None:
            status, body = found(query)
            reply(handler, status, json.dumps(body).encode(), {"Content-Type": "application/json; charset=utf-8"})

        return answer

    def search(self, query: Query) -> tuple[int, dict[str, Any]]:
        name, *parts = (part.strip().casefold() for part in query["name"].split(","))
        if parts and not self.narrows:
            return 200, {"generationtime_ms": 0.5}
        found = [
            place
            for place in self.places
            if len(name) > 1
            and place["name"].casefold().startswith(name)
            and all(part in {str(value).casefold() for value in place.values()} for part in parts)
        ]
        results = {"results": found[: int(query.get("count", "10"))]} if found else {}
        return 200, {**results, "generationtime_ms": 0.5}

    def forecast(self, query: Query) -> tuple[int, dict[str, Any]]:
        latitude, longitude = float(query["latitude"]), float(query["longitude"])
        if not -90 <= latitude <= 90:
            return _error(f"Latitude must be in range of -90 to 90°. Given: {latitude}.")
        days = int(query.get("forecast_days", "7"))
        if not 0 <= days <= 16:
            return _error(f"Forecast days is invalid. Allowed range 0 to 16. Given {days}.")
        if "daily" in query and "timezone" not in query:
            return _error("Timezone is required")
        degrees, temperature = _converted(query, "temperature_unit", "celsius", CELSIUS)
        speed, wind = _converted(query, "wind_speed_unit", "kmh", KMH)
        depth, rain = _converted(query, "precipitation_unit", "mm", MM)
        values = {
            "temperature": (degrees, temperature),
            "apparent": (degrees, temperature),
            "wind_speed": (speed, wind),
            "wind_gusts": (speed, wind),
            "wind_direction": ("°", 270),
            "precipitation_probability": ("%", 80),
            "precipitation": (depth, rain),
            "relative": ("%", 70),
            "weather_code": ("wmo code", 61),
            "sunrise": ("iso8601", "2026-11-26T08:31"),
            "sunset": ("iso8601", "2026-11-26T15:26"),
        }

        def of(variable: str) -> tuple[str, Any]:
            return next(found for start, found in values.items() if variable.startswith(start))

        current, daily = query.get("current", "").split(","), query.get("daily", "").split(",")
        body = {
            "latitude": latitude,
            "longitude": longitude,
            "generationtime_ms": 0.1,
            "utc_offset_seconds": 3600,
            "timezone": "Europe/Oslo",
            "timezone_abbreviation": "GMT+1",
            "elevation": 26.0,
            "current_units": {"time": "iso8601", "interval": "seconds", **{each: of(each)[0] for each in current}},
            "current": {"time": "2026-11-26T13:15", "interval": 900, **{each: of(each)[1] for each in current}},
            "daily_units": {"time": "iso8601", **{each: of(each)[0] for each in daily}},
            "daily": {
                "time": [f"2026-11-{26 + day}" if day < 5 else f"2026-12-{day - 4:02}" for day in range(days)],
                **{each: [of(each)[1]] * days for each in daily},
            },
        }
        return 200, {**body, **self.changes}


def _error(reason: str) -> tuple[int, dict[str, Any]]:
    return 400, {"error": True, "reason": reason}


def _converted(query: Query, parameter: str, default: str, value: float) -> tuple[str, float]:
    units = {
        "celsius": ("°C", value),
        "fahrenheit": ("°F", value * 9 / 5 + 32),
        "kmh": ("km/h", value),
        "mph": ("mp/h", round(value / 1.609344, 1)),
        "mm": ("mm", value),
        "inch": ("inch", value / 25.4),
    }
    return units[query.get(parameter, default)]


@contextmanager
def open_meteo(**options: Any) -> Iterator[tuple[Server, OpenMeteoAnswers]]:
    """Serve Open-Meteo's protocol until the end of the block."""
    answers = OpenMeteoAnswers(**options)
    with serving(answers) as server:
        yield server, answers


def queries(server: Server, path: str) -> list[Query]:
    """Return the queries of the requests to a path."""
    split = [urlsplit(seen.path) for seen in server.seen]
    return [{name: each[-1] for name, each in parse_qs(url.query).items()} for url in split if url.path == path]
