"""`Place`: a place on the earth, and how it is written."""

import re
from dataclasses import dataclass

from engine.dispatch.refusals import wrong_arguments

_NUMBER = r"[+-]?\d{1,3}(?:\.\d{1,15})?"
_COORDINATES = re.compile(rf"\s*({_NUMBER})\s*[,;\s]\s*({_NUMBER})\s*")
_MOST_LATITUDE, _MOST_LONGITUDE = 90.0, 180.0


@dataclass(frozen=True, slots=True)
class Place:
    """A place.

    Attributes:
        name: Its name; "" if only the coordinates are known.
        latitude, longitude: In degrees (WGS 84), positive in the north and the east.
        region: The state or province; "" if unknown.
        country: The name of the country; "" if unknown.
        country_code: ISO 3166-1 alpha-2; "" if unknown.
    """

    name: str
    latitude: float
    longitude: float
    region: str = ""
    country: str = ""
    country_code: str = ""

    @property
    def shown(self) -> str:
        """The place for people, such as ``Oslo, Norway (59.91, 10.75)``."""
        names = ", ".join(dict.fromkeys(part for part in (self.name, self.region, self.country) if part))
        numbers = f"{self.latitude:.4g}, {self.longitude:.4g}"
        return f"{names} ({numbers})" if names else numbers

    def matches(self, part: str) -> bool:
        """Return whether the place is in the region or country with this name or code."""
        return part.casefold() in {each.casefold() for each in (self.region, self.country, self.country_code) if each}


def place_at(latitude: float, longitude: float) -> Place:
    """Return the place at these coordinates.

    Raises:
        ToolFailure: They are not on the earth (DIAGNOSTIC).
    """
    if not (abs(latitude) <= _MOST_LATITUDE and abs(longitude) <= _MOST_LONGITUDE):  # also False for NaN
        raise wrong_arguments(
            f"{latitude}, {longitude} is not a place: the latitude is from -90 to 90, and the longitude from -180 to "
            "180, in this order."
        )
    return Place("", latitude, longitude)


def coordinates_in(text: str) -> Place | None:
    """Return the place if a text consists of coordinates, such as ``59.91, 10.75``, and None otherwise.

    Raises:
        ToolFailure: They are not on the earth (DIAGNOSTIC).
    """
    match = _COORDINATES.fullmatch(text)
    return place_at(float(match[1]), float(match[2])) if match else None
