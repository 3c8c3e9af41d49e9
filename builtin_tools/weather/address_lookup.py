"""Looks up the location of the machine by the address of its internet connection, if a person allows it.

It is never looked up unless a call asks for it. Through Tor or a proxy, the result would be the location of the exit,
so the lookup needs a direct route.
"""

from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, Field

from builtin_tools.weather.open_meteo import Number, Text, checked
from builtin_tools.weather.place import Place
from builtin_tools.weather.settings import WeatherSettings
from builtin_tools.web.contract import WebClient
from engine.contract.context import CallContext
from engine.contract.spec import Annotations, ToolSpec
from engine.dispatch.refusals import not_configured
from engine.policy.approval import ApprovalGuard

_MOST_BYTES = 64 << 10
_QUESTION = ToolSpec(
    name="system_utility",
    description="Look up the location of this machine by the address of its internet connection.",
    category="system",
    annotations=Annotations(read_only=True, requires_confirmation=True),
    side_effects=("network",),
)


class _FoundLocation(BaseModel):
    latitude: Number = Field(ge=-90, le=90, validation_alias=AliasChoices("latitude", "lat"))
    longitude: Number = Field(ge=-180, le=180, validation_alias=AliasChoices("longitude", "lon"))
    city: Text = ""
    region: Text = Field("", validation_alias=AliasChoices("region", "regionName"))
    country: Text = Field("", validation_alias=AliasChoices("country_name", "country"))


async def look_up(ctx: CallContext, client: WebClient, settings: WeatherSettings) -> tuple[Place, str]:
    """Return the location of the machine, and the route of the request.

    Raises:
        ToolFailure: Nobody allowed it, or the route is not direct (FATAL); or the service failed, as for
            `OpenMeteo.places`.
    """
    host = urlsplit(settings.lookup_url).hostname or ""
    if settings.lookup == "never":
        raise not_configured(
            'The location is not looked up, because `lookup` in [packs.builtin.weather] is "never". Ask the user for '
            "a place."
        )
    if settings.lookup == "ask" and ctx.turn.trial:
        raise not_configured("The location is not looked up in a trial, because nobody is asked to allow it.")
    proxy, route = await client.proxy_of(host, circuit=ctx.call_id)
    if proxy is not None:
        raise not_configured(
            f"Requests to {host} go through {route}, so a lookup would find the location of its exit, not of this "
            f'machine. Ask the user for a place. A person can set hosts = {{ "{host}" = "direct" }} in [packs.web], or '
            "`location` in [packs.builtin.weather]."
        )
    if settings.lookup == "ask":
        arguments = {"action": "location", "lookup": True, "service": settings.lookup_url, "route": route}
        await ctx.need(ApprovalGuard).confirm(_QUESTION, arguments, call_id=ctx.call_id, user=ctx.user)
    response = await client.get(settings.lookup_url, circuit=ctx.call_id, max_bytes=_MOST_BYTES, progress=ctx.progress)
    found = checked(response, _FoundLocation, "lookup_url")
    return Place(found.city, found.latitude, found.longitude, found.region, found.country), response.route
