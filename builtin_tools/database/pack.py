"""The pack ``database`` of the entry-point group ``knackbox.tool_sources``. It provides the tool `postgres_admin`."""

import asyncio
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING

from builtin_tools.database.database_actions import DatabaseActions
from builtin_tools.database.postgres_admin import DRIVER, DSN, configured_tool
from builtin_tools.database.settings import NAME, DatabaseSettings, database_settings, environment
from engine.app.services import Services
from engine.contract.pack import Pack
from engine.registry.static import StaticSource

if TYPE_CHECKING:
    from builtin_tools.database.postgres_actions import PostgresActions


async def open_pack(services: Services) -> Pack:
    """Open the database pack. It does not connect.

    Raises:
        ConfigError: `[packs.database]` is invalid.
    """
    settings = database_settings(services.settings.packs.get(NAME, {}))
    environ = environment()
    installed = find_spec(DRIVER) is not None
    meets = {DRIVER} if installed else set()
    tool = configured_tool(settings, services.settings.policy.approval_expires_s)
    sources = (StaticSource(NAME, (tool,)),)
    if not settings.reading.available(environ):
        return Pack(sources=sources, meets=frozenset(meets))
    meets.add(DSN)
    if not installed:
        return Pack(sources=sources, meets=frozenset(meets))
    actions = await asyncio.to_thread(load_actions, settings, environ)
    return Pack(sources=sources, provides={DatabaseActions: actions}, aclose=actions.aclose, meets=frozenset(meets))


def load_actions(settings: DatabaseSettings, environ: Mapping[str, str]) -> "PostgresActions":
    """Return the implementation of the actions."""
    from builtin_tools.database.postgres_actions import PostgresActions  # noqa: PLC0415 -- psycopg is optional and slow

    return PostgresActions(settings, environ)
