"""The pack ``web`` of the entry-point group ``knackbox.tool_sources``.

It provides the client through which all requests of the pack are sent, and the tools that read pages, search, research
and check facts.
"""

from typing import TYPE_CHECKING

from builtin_tools.web.content import CONTENT_TOOLS, content_services
from builtin_tools.web.contract import PageReader, WebClient, WebSearch
from builtin_tools.web.research.deep_research import deep_research
from builtin_tools.web.research.fact_checking.fact_check import fact_check
from builtin_tools.web.research.service import ResearchService
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
    research = ResearchService(content[PageReader], content[WebSearch], services.embedder, services.home.research)
    return Pack(
        sources=(StaticSource(NAME, (*CONTENT_TOOLS, deep_research, fact_check)),),
        provides={WebClient: client, **content, ResearchService: research},
        aclose=client.aclose,
    )
