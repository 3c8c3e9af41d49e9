"""Combines the configured modules into one tool source, without contacting or starting any of them."""

import ssl
from collections.abc import Mapping
from functools import partial

from pydantic import SecretStr

from engine.app.module_settings import McpServerSettings, ModuleSettings
from engine.app.services import Services
from engine.app.settings import Settings
from engine.contract.context import Clock
from engine.contract.failure import ConfigError
from engine.registry.updates import TOOLS_GENERATION, RegistryUpdates
from engine.remote.cache import FileCache, ManifestCache
from engine.remote.module import RemoteModule
from engine.remote.modules import Modules
from engine.remote.pins import ToolPins


def open_modules(services: Services) -> Modules:
    """Return the configured modules as one tool source.

    Raises:
        ConfigError: The settings of a module cannot be used.
    """
    settings, clock = services.settings, services.clock
    configured = [*http_modules(settings.modules), *mcp_modules(settings, clock)]
    return Modules(
        configured,
        cache_of(services) if configured else FileCache(services.home.manifests),
        clock,
        changed=partial(publish_changes, services.updates),
        generation=partial(services.records.generation, TOOLS_GENERATION),
        ttl_s=settings.modules.manifest_ttl,
        pins=ToolPins(services.records) if configured and settings.modules.pin_tools else None,
    )


def http_modules(settings: ModuleSettings) -> list[RemoteModule]:
    if not settings.module_services:
        return []
    from engine.remote.http_module import HttpModule  # noqa: PLC0415 -- httpx takes a third of a second to import

    tls = ssl.create_default_context()
    return [
        HttpModule(
            name,
            url,
            tls=tls,
            timeout_s=timeout_of(name, settings),
            token=settings.module_tokens[name].get_secret_value() if name in settings.module_tokens else "",
            trusted=name in settings.trusted_modules,
        )
        for name, url in settings.module_services.items()
    ]


def mcp_modules(settings: Settings, clock: Clock) -> list[RemoteModule]:
    if not settings.mcp_servers:
        return []
    # The SDK takes a second to import.
    from engine.remote.mcp_module import McpModule, McpServer  # noqa: PLC0415
    from engine.remote.mcp_process import Command  # noqa: PLC0415

    def server(name: str, given: McpServerSettings) -> McpServer:
        command = Command(given.command, given.args, revealed(given.env), given.cwd) if given.command else None
        return McpServer(
            command,
            given.url or "",
            revealed(given.headers),
            given.trusted,
            given.required_permission,
            timeout_of(name, settings.modules),
        )

    return [McpModule(name, server(name, given), clock) for name, given in settings.mcp_servers.items()]


def timeout_of(name: str, settings: ModuleSettings) -> float:
    return settings.tool_execution_timeout if name in settings.slow_modules else settings.module_timeout


def cache_of(services: Services) -> ManifestCache:
    url = services.settings.modules.redis_url.get_secret_value()
    if not url:
        return FileCache(services.home.manifests)
    try:
        from engine.remote.redis_cache import RedisCache  # noqa: PLC0415 -- needs an extra, takes 0.25 s to import
    except ImportError as error:
        raise ConfigError("modules.redis_url needs knackbox[redis]. Install it, or remove the setting.") from error
    return RedisCache(url, services.clock, services.settings.modules.manifest_ttl)


def publish_changes(updates: RegistryUpdates, module: str, tools: Mapping[str, str]) -> None:
    """Publish the changes of a module's tools since the last publication.

    Args:
        updates: Publishes the changes.
        module: The name of the module.
        tools: The digests of all tools of the module, by name.
    """
    updates.reconcile(f"module:{module}", "tools", tools)


def revealed(secrets: Mapping[str, SecretStr]) -> dict[str, str]:
    return {name: value.get_secret_value() for name, value in secrets.items()}
