"""The pack ``swarm`` of the entry-point group ``knackbox.tool_sources``.

It provides the tool `delegate_to_swarm`, and the runner that works on child runs.
"""

from pydantic import BaseModel, ConfigDict, Field

from builtin_tools.swarm.delegate_to_swarm import delegate_to_swarm
from builtin_tools.swarm.runner import SwarmRunner
from builtin_tools.swarm.service import SwarmService
from builtin_tools.swarm.swarm_block import SwarmBlock
from engine.app.pack_settings import pack_settings
from engine.app.services import Services
from engine.contract.pack import Pack
from engine.registry.static import StaticSource

NAME = "swarm"  # the name of the entry point and therefore of the configuration table


class SwarmSettings(BaseModel):
    """The table `[packs.swarm]` of the configuration.

    Attributes:
        slots: How many child runs of the same depth one process works on at the same time.
        depth: The greatest depth of a tree of runs. With 1, child runs cannot delegate.
        most: How many child runs of one tree may not have ended.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: int = Field(8, ge=1, le=200)
    depth: int = Field(2, ge=1, le=5)
    most: int = Field(200, ge=1)


async def open_pack(services: Services) -> Pack:
    """Open the swarm pack.

    Raises:
        ConfigError: `[packs.swarm]` is invalid.
    """
    settings = pack_settings(NAME, services.settings.packs.get(NAME, {}), SwarmSettings)
    children, loop, workspaces = services.child_runs, services.child_loop, services.home.child_workspaces
    runner = SwarmRunner(children, loop, workspaces, slots=settings.slots, depth=settings.depth)
    loop.call_when_used(runner.begin)
    loop.call_before_close(runner.aclose)
    service = SwarmService(children, loop, runner, workspaces, depth=settings.depth, most=settings.most)
    return Pack(
        sources=(StaticSource(NAME, (delegate_to_swarm,)),),
        provides={SwarmService: service},
        blocks=(SwarmBlock(children),),
        background=(runner,),
    )
