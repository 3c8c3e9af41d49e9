"""`OpenMeteo`: asks a server that speaks Open-Meteo's protocol for places and forecasts.

The protocol: https://open-meteo.com/en/docs and https://open-meteo.com/en/docs/geocoding-api
"""

from typing import Annotated, Any, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from builtin_tools.weather.place import Place
from builtin_tools.weather.settings import Units, WeatherSettings
from builtin_tools.web.contract import Progress, WebClient, WebResponse
from engine.contract.failure import FailureClass, ToolFailure
from engine.contract.strict_json import JsonError, read_json
from engine.remote.text import one_line

MOST_DAYS = 16  # of a forecast
_MOST_BYTES = 256 << 10  # of a response; 100 places have about 50 kB
_MOST_PLACES = 100  # the largest `count`
_USUAL_PLACES = 10
_MOST_NAME = 100  # characters
_DECIMALS = 2  # of coordinates that are sent: about 1 km, finer than the grids of the forecasts
_CURRENT = (
    "temperature_2m",
    "apparent_temperature",
    "relative_humidity_2m",
    "precipitation",
    "weather_code",
    "wind_speed_10m",
    "wind_gusts_10m",
    "wind_direction_10m",
)
_DAILY = (
    "weather_code",
    "temperature_2m_min",
    "temperature_2m_max",
    "precipitation_sum",
    "precipitation_probability_max",
    "wind_speed_10m_max",
    "sunrise",
    "sunset",
)
_IMPERIAL = {"temperature_unit": "fahrenheit", "wind_speed_unit": "mph", "precipitation_unit": "inch"}

Answer = TypeVar("Answer", bound=BaseModel)
Number = Annotated[float, Field(allow_inf_nan=False)]


def _text(value: Any) -> Any:
    if value is None:
        return ""
    return one_line(value, _MOST_NAME) if isinstance(value, str) else value


Text = Annotated[str, BeforeValidator(_text)]  # without control and invisible characters


class _FoundPlace(BaseModel):
    name: Text
    latitude: Number = Field(ge=-90, le=90)
    longitude: Number = Field(ge=-180, le=180)
    admin1: Text = ""
    country: Text = ""
    country_code: Text = ""


class _FoundPlaces(BaseModel):
    results: list[_FoundPlace] = Field(default=[], max_length=_MOST_PLACES)  # missing if there are none


class CurrentWeather(BaseModel):
    """The weather now. A value that is not known is None.

    Attributes:
        time: The local time, in ISO 8601 without an offset.
        wind_direction_10m: Where the wind comes from, in degrees clockwise from north.
    """

    model_config = ConfigDict(frozen=True)

    time: Text
    temperature_2m: Number | None = None
    apparent_temperature: Number | None = None
    relative_humidity_2m: Number | None = None
    precipitation: Number | None = None
    weather_code: Number | None = None
    wind_speed_10m: Number | None = None
    wind_gusts_10m: Number | None = None
    wind_direction_10m: Number | None = None


Numbers = Annotated[list[Number | None], Field(default=[], max_length=MOST_DAYS)]


class DailyWeather(BaseModel):
    """The weather of some days: a list for each variable, with one value for each day."""

    model_config = ConfigDict(frozen=True)

    time: list[Text] = Field(max_length=MOST_DAYS)
    weather_code: Numbers
    temperature_2m_min: Numbers
    temperature_2m_max: Numbers
    precipitation_sum: Numbers
    precipitation_probability_max: Numbers
    wind_speed_10m_max: Numbers
    sunrise: list[Text] = Field(default=[], max_length=MOST_DAYS)
    sunset: list[Text] = Field(default=[], max_length=MOST_DAYS)


class Forecast(BaseModel):
    """A forecast.

    Attributes:
        timezone: The time zone of all times.
        current_units, daily_units: The unit of each variable, as the server states it.
    """

    model_config = ConfigDict(frozen=True)

    timezone: Text = ""
    current: CurrentWeather
    current_units: dict[Text, Text] = Field(default={}, max_length=50)
    daily: DailyWeather
    daily_units: dict[Text, Text] = Field(default={}, max_length=50)


class OpenMeteo:
    """Sends the requests of one call."""

    def __init__(self, client: WebClient, settings: WeatherSettings, circuit: str, progress: Progress) -> None:
        """Create the object. Nothing is sent.

        Args:
            client: Sends the requests.
            settings: The servers.
            circuit: Names the call (see `WebClient.get`).
            progress: Receives the state of the route.
        """
        self._client = client
        self._settings = settings
        self._circuit = circuit
        self._progress = progress

    async def places(self, name: str) -> tuple[list[Place], str]:
        """Return the places with this name, the best match first, and the route of the request.

        A region or a country may follow the name after a comma. If the server does not know this form, places with the
        name alone are filtered.

        Raises:
            ToolFailure: The server failed: RETRYABLE for temporary problems, such as 429 and most 5xx; UNKNOWN if the
                response is not in the documented format.
        """
        found, route = await self._search(name, _USUAL_PLACES)
        alone, *parts = (part.strip() for part in name.split(","))
        if not found and parts and alone:
            named, route = await self._search(alone, _MOST_PLACES)
            found = [place for place in named if all(place.matches(part) for part in parts if part)]
        return found, route

    async def forecast(self, place: Place, units: Units, days: int) -> tuple[Forecast, WebResponse]:
        """Return the current weather and the forecast for a place, and the response that contains it.

        Args:
            place: The place. Its coordinates are rounded before they are sent.
            units: The units of the values.
            days: The number of days, from 1 to `MOST_DAYS`, beginning today.

        Raises:
            ToolFailure: As for `places`.
        """
        parameters = {
            "latitude": f"{place.latitude:.{_DECIMALS}f}",
            "longitude": f"{place.longitude:.{_DECIMALS}f}",
            "current": ",".join(_CURRENT),
            "daily": ",".join(_DAILY),
            "timezone": "auto",
            "forecast_days": str(days),
            **(_IMPERIAL if units == "imperial" else {}),
        }
        url = f"{self._settings.forecast_url}/v1/forecast?{urlencode(parameters, safe=',')}"
        response = await self._get(url)
        return checked(response, Forecast, "forecast_url"), response

    async def _search(self, name: str, count: int) -> tuple[list[Place], str]:
        parameters = {"name": name, "count": str(count), "language": "en", "format": "json"}
        response = await self._get(f"{self._settings.geocoding_url}/v1/search?{urlencode(parameters)}")
        found = checked(response, _FoundPlaces, "geocoding_url").results
        places = [
            Place(each.name, each.latitude, each.longitude, each.admin1, each.country, each.country_code)
            for each in found
        ]
        return places, response.route

    async def _get(self, url: str) -> WebResponse:
        return await self._client.get(url, circuit=self._circuit, max_bytes=_MOST_BYTES, progress=self._progress)


def checked(response: WebResponse, model: type[Answer], setting: str) -> Answer:
    """Return the content of a response.

    Args:
        response: The response of a server. It is small, and JSON, so that it need not be read in a box.
        model: The documented format.
        setting: The setting that names the server, for messages.

    Raises:
        ToolFailure: The response is not in this format (UNKNOWN), or the server reports an error (DIAGNOSTIC).
    """
    server = response.url.split("?", 1)[0]
    try:
        value: Any = read_json(response.data)
        if isinstance(value, dict) and value.get("error") is True:
            reason = one_line(str(value.get("reason", "without a reason")))
            raise ToolFailure(f"{server} reports an error: {reason}", reason="service_error", may_have_started=False)
        return model.model_validate(value)
    except (JsonError, ValidationError) as error:
        detail = one_line(str(error))
        raise ToolFailure(
            f"{server} answered with something else than Open-Meteo's format ({detail}). A person can check "
            f"`{setting}` in [packs.builtin.weather].",
            failure_class=FailureClass.UNKNOWN,
            reason="unexpected_response",
            may_have_started=False,
        ) from error
