"""The pack ``web`` of the entry-point group ``knackbox.tool_sources``.

It provides the client through which all requests of the pack are sent, and the tools that read pages and search.
"""

from typing import TYPE_CHECKING

from builtin_tools.web.content import CONTENT_TOOLS, content_services
from builtin_tools.web.contract import WebClient
from builtin_tools.web.route.lazy_client import LazyWebClient
from builtin_tools.web.settings import NAME, WebSettings
from engine.app.pack_settings import pack_settings
from engine.app.services import Services
from engine.contract.pack import Pack
from engine.registry.static import StaticSource

if TYPE_CHECKING:
    from builtin_tools.web.route.client import RoutedClient


async def open_pack(services: Services) -> Pack:
    """Open the web pack. Nothing is started or sent before the first request.

    Raises:
        ConfigError: `[packs.web]` is invalid.
    """
    settings = pack_settings(NAME, services.settings.packs.get(NAME, {}), WebSettings)

    def create() -> "RoutedClient":
        from builtin_tools.web.route.assembly import routed_client  # noqa: PLC0415 -- imports httpx, which is slow

        return routed_client(settings, services.home, services.sandbox, services.clock)

    client = LazyWebClient(create)
    content = content_services(
        client,
        services.sandbox,
        services.home.web_cache,
        services.clock,
        pages=settings.pages,
        search=settings.search,
    )
    return Pack(
        sources=(StaticSource(NAME, CONTENT_TOOLS),),
        provides={WebClient: client, **content},
        aclose=client.aclose,
    )
