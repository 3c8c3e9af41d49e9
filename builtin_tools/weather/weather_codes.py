"""The weather codes of Open-Meteo in words. They are a part of WMO table 4677."""

from collections.abc import Mapping

# https://open-meteo.com/en/docs#weather_variable_documentation
_WORDS: Mapping[int, str] = {
    0: "clear sky",
    1: "mainly clear",
    2: "partly cloudy",
    3: "overcast",
    45: "fog",
    48: "fog with rime",
    51: "light drizzle",
    53: "drizzle",
    55: "heavy drizzle",
    56: "light freezing drizzle",
    57: "freezing drizzle",
    61: "light rain",
    63: "rain",
    65: "heavy rain",
    66: "light freezing rain",
    67: "freezing rain",
    71: "light snow",
    73: "snow",
    75: "heavy snow",
    77: "snow grains",
    80: "light rain showers",
    81: "rain showers",
    82: "violent rain showers",
    85: "light snow showers",
    86: "heavy snow showers",
    95: "thunderstorm",
    96: "thunderstorm with light hail",
    99: "thunderstorm with heavy hail",
}


def weather_in_words(code: float | None) -> str:
    """Return a weather code in words; "unknown" for None, and the number for a code that is not in the table."""
    if code is None:
        return "unknown"
    return _WORDS.get(int(code), f"weather code {int(code)}")
