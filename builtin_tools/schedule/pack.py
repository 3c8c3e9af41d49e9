"""The pack ``schedule`` of the entry-point group ``knackbox.tool_sources``.

It provides the tool `manage_tasks`, the scheduler port, and the worker that runs jobs while an engine serves.
"""

import asyncio

from pydantic import BaseModel, ConfigDict, Field

from builtin_tools.schedule.manage_tasks import manage_tasks
from builtin_tools.schedule.service import ScheduleService
from builtin_tools.schedule.store import JobStore
from builtin_tools.schedule.worker import JobWorker
from engine.app.pack_settings import pack_settings
from engine.app.services import Services
from engine.contract.pack import Pack
from engine.contract.ports import Ports
from engine.registry.static import StaticSource
from engine.times.time_zones import zones_of_users

NAME = "schedule"  # the name of the entry point and therefore of the configuration table


class ScheduleSettings(BaseModel):
    """The table `[packs.schedule]` of the configuration.

    Attributes:
        slots: How many runs of jobs one process makes at the same time.
        most_jobs: How many jobs a user may have that have not ended.
        shortest_s: The shortest time between two runs of a job, in seconds.
        stop_s: How many seconds running jobs get to end when their process is stopped.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    slots: int = Field(4, ge=1, le=100)
    most_jobs: int = Field(100, ge=0)
    shortest_s: float = Field(1.0, ge=1)
    stop_s: float = Field(10.0, ge=0)


async def open_pack(services: Services) -> Pack:
    """Open the schedule pack.

    Raises:
        ConfigError: `[packs.schedule]` is invalid, or the database cannot be used.
    """
    settings = pack_settings(NAME, services.settings.packs.get(NAME, {}), ScheduleSettings)
    time = services.settings.time
    store = await asyncio.to_thread(JobStore.open, services.home.schedule, services.clock)
    zone_of = zones_of_users(time.zone, time.zones)
    service = ScheduleService(store, zone_of, most_jobs=settings.most_jobs, shortest_s=settings.shortest_s)
    worker = JobWorker(store, services.home.workers, services.clock, slots=settings.slots, stop_s=settings.stop_s)
    return Pack(
        sources=(StaticSource(NAME, (manage_tasks,)),),
        provides={ScheduleService: service},
        aclose=service.aclose,
        ports=Ports(scheduler=service.port),
        background=(worker,),
    )
