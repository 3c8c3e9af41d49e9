"""`WeatherSettings`: where the weather comes from, and which place it is for if nobody names one."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Units = Literal["metric", "imperial"]
LookupMode = Literal["never", "ask", "allow"]


def _url(value: str) -> str:
    """Check the URL of a service, and remove the slash at its end.

    Raises:
        ValueError: It is not an http(s) URL, or it has a query.
    """
    parts = urlsplit(value)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError('give an http(s) URL without a query, such as "https://api.open-meteo.com"')
    return value.rstrip("/")


ServiceUrl = Annotated[str, AfterValidator(_url)]


class WeatherSettings(BaseModel):
    """The table `[packs.builtin.weather]` of the configuration.

    Attributes:
        location: The place of users whose profile names none: a name such as ``"Oslo, Norway"``, or coordinates such as
            ``"59.91, 10.75"``; "" for none.
        units: The units if a call names none.
        forecast_url: The server of the forecast, which speaks Open-Meteo's protocol.
        geocoding_url: The server that finds places by name, which speaks Open-Meteo's protocol.
        lookup: Whether the location may be looked up by the address of the internet connection: ``"never"``, ``"ask"``
            a person each time, or ``"allow"``. It is only looked up if a call asks for it.
        lookup_url: The service that is asked. Its JSON has ``latitude`` and ``longitude`` (or ``lat`` and ``lon``),
            and may have ``city``, ``region`` and ``country``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    location: str = Field(default="", max_length=200)
    units: Units = "metric"
    forecast_url: ServiceUrl = "https://api.open-meteo.com"
    geocoding_url: ServiceUrl = "https://geocoding-api.open-meteo.com"
    lookup: LookupMode = "ask"
    lookup_url: ServiceUrl = "https://ipwho.is"
