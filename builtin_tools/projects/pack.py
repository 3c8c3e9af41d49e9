"""The pack ``projects`` of the entry-point group ``knackbox.tool_sources``.

It provides the tool `manage_projects`, and the summary of the active project in prompts.
"""

import asyncio

from builtin_tools.projects.manage_projects import manage_projects
from builtin_tools.projects.project_block import ProjectBlock
from builtin_tools.projects.store import ProjectStore, UnknownProject
from engine.app.services import Services
from engine.contract.failure import refusal
from engine.contract.pack import Pack
from engine.contract.project_lookup import ProjectLookup
from engine.registry.static import StaticSource

NAME = "projects"


async def open_pack(services: Services) -> Pack:
    """Open the projects pack.

    Raises:
        ConfigError: The database cannot be used.
    """
    store = await asyncio.to_thread(ProjectStore.open, services.home.projects, services.clock)

    async def id_of(user: str, named: str) -> str:
        try:
            return (await asyncio.to_thread(store.find, user, named)).id
        except UnknownProject as error:
            raise refusal(str(error), "not_found") from error

    async def close() -> None:
        await asyncio.to_thread(store.close)

    return Pack(
        sources=(StaticSource(NAME, (manage_projects,)),),
        provides={ProjectStore: store, ProjectLookup: ProjectLookup(id_of)},
        aclose=close,
        blocks=(ProjectBlock(store, manage_projects.spec),),
    )
