"""Determines the place that a call is about: what the call names, or else what is known about the user."""

import asyncio
from dataclasses import dataclass
from typing import Literal

from builtin_tools.memory.profile import PROFILE, Profile
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.weather.address_lookup import look_up
from builtin_tools.weather.open_meteo import OpenMeteo
from builtin_tools.weather.place import Place, coordinates_in, place_at
from builtin_tools.weather.settings import WeatherSettings
from builtin_tools.web.contract import WebClient
from engine.contract.context import CallContext
from engine.contract.failure import ToolFailure
from engine.contract.spaces import sees
from engine.dispatch.refusals import wrong_arguments

MOST_OTHERS = 5  # further places with the same name that a result lists
# Keys of the profile that name where the user is, the most specific first.
PROFILE_KEYS = ("location", "current_location", "city", "home_city", "town", "home_town", "home_location", "residence")

LocationOrigin = Literal["call", "profile", "configuration", "lookup"]


@dataclass(frozen=True, slots=True)
class WantedPlace:
    """The place that a call names; empty if it names none.

    Attributes:
        name: A name, or coordinates as text.
        lookup: Whether to look up the location by the address of the internet connection.
    """

    name: str | None = None
    latitude: float | None = None
    longitude: float | None = None
    lookup: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    """The place that a call is about.

    Attributes:
        origin: Where it comes from.
        others: Further places with this name.
        route: The route of the request that found it; "" if none was sent.
    """

    place: Place
    origin: LocationOrigin
    others: tuple[Place, ...] = ()
    route: str = ""


async def locate(
    ctx: CallContext, client: WebClient, service: OpenMeteo, settings: WeatherSettings, wanted: WantedPlace
) -> Located:
    """Return the place that a call is about.

    It is the place that the call names, else the one in the user's profile, else the one in the configuration. It is
    looked up only if the call asks for it and a person allows it.

    Raises:
        ToolFailure: No place is known, or it was not found (DIAGNOSTIC); or as for `OpenMeteo.places` and `look_up`.
    """
    _check(wanted)
    if wanted.latitude is not None and wanted.longitude is not None:
        return Located(place_at(wanted.latitude, wanted.longitude), "call")
    if wanted.name is not None:
        return await _named(service, wanted.name, "call")
    if wanted.lookup:
        place, route = await look_up(ctx, client, settings)
        return Located(place, "lookup", route=route)
    known = await _in_profile(ctx)
    if known:
        return await _named(service, known, "profile")
    if settings.location.strip():
        return await _named(service, settings.location, "configuration")
    raise ToolFailure(
        "No location is known. Ask the user for a place, and pass it as `place`; `update_profile` with the key "
        "home_city keeps it. A person can set `location` in [packs.builtin.weather].",
        reason="no_location",
        may_have_started=False,
    )


def _check(wanted: WantedPlace) -> None:
    """Check that a call names its place in one way.

    Raises:
        ToolFailure: It does not (DIAGNOSTIC).
    """
    if (wanted.latitude is None) != (wanted.longitude is None):
        raise wrong_arguments("`latitude` and `longitude` belong together. Give both, or a `place`.")
    if (wanted.name is not None) + (wanted.latitude is not None) + wanted.lookup > 1:
        raise wrong_arguments("Use only one of `place`, `latitude` with `longitude`, and `lookup`.")


async def _named(service: OpenMeteo, name: str, origin: LocationOrigin) -> Located:
    place = coordinates_in(name)
    if place is not None:
        return Located(place, origin)
    found, route = await service.places(name.strip())
    if not found:
        where = {"call": "", "profile": " (from the user's profile)", "configuration": " (from the configuration)"}
        raise ToolFailure(
            f"No place {name[:100]!r}{where.get(origin, '')} was found. Use the name of a town, with the country after "
            "a comma, or coordinates.",
            reason="unknown_place",
            may_have_started=False,
        )
    return Located(found[0], origin, tuple(found[1 : 1 + MOST_OTHERS]), route)


async def _in_profile(ctx: CallContext) -> str:
    """Return the location in the user's profile; "" if there is none, or the agent may not see the profile."""
    profile = ctx.services.get(Profile)
    if profile is None or not sees(ctx.turn.memory_spaces, PROFILE):
        return ""
    items = await asyncio.to_thread(profile.items, MemoryScope.of(ctx.turn).owner(PROFILE))
    values = {item.key: item.value for item in items}
    return next((values[key] for key in PROFILE_KEYS if key in values), "")
