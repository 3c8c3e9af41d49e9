"""The pack ``self_play`` of the entry-point group ``knackbox.tool_sources``.

It provides the tools `self_play`, `self_play_loop` and `stop_self_play`, and rolls back at the start what a killed
process left unfinished.
"""

import asyncio

from pydantic import BaseModel, ConfigDict, Field

from acquired_skills.lifecycle.library import SkillLibrary
from builtin_tools.memory.lessons.lesson_book import LessonBook
from builtin_tools.self_play.attempts import PlayLimits
from builtin_tools.self_play.cycle_run import PlayParts
from builtin_tools.self_play.play_loop import PlayLoop, StopAtMessages
from builtin_tools.self_play.self_play import SelfPlay
from builtin_tools.self_play.store import PlayStore
from builtin_tools.self_play.tools import self_play, self_play_loop, stop_self_play
from engine.app.engine_host import EngineHost
from engine.app.pack_settings import pack_settings
from engine.app.services import Services
from engine.contract.pack import Need, Pack
from engine.registry.static import StaticSource
from engine.stores.call_views import AuditView

NAME = "self_play"  # the name of the entry point and therefore of the configuration table


class SelfPlaySettings(BaseModel):
    """The table `[packs.self_play]` of the configuration.

    Attributes:
        wall_s: The longest time of one cycle, in seconds.
        tokens: The tokens that one cycle may use.
        attempt_s: The longest time of one attempt, in seconds.
        held_out: How many held-out tasks a user may have. Every change is compared on all of them.
        pause_s: How long the loop waits if the record shows no weakness, in seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    wall_s: float = Field(600.0, gt=0, le=600)
    tokens: int = Field(500_000, ge=1)
    attempt_s: float = Field(120.0, gt=0)
    held_out: int = Field(40, ge=1)
    pause_s: float = Field(30.0, ge=0)


async def open_pack(services: Services) -> Pack:
    """Open the self-play pack.

    Raises:
        ConfigError: `[packs.self_play]` is invalid.
    """
    settings = pack_settings(NAME, services.settings.packs.get(NAME, {}), SelfPlaySettings)
    store = await asyncio.to_thread(PlayStore, services.records, services.clock)
    limits = PlayLimits(settings.wall_s, settings.tokens, settings.attempt_s)
    play = SelfPlay(store, services.home.self_play, limits, most_held_out=settings.held_out)
    loop = PlayLoop(play, pause_s=settings.pause_s)

    async def started(need: Need) -> None:
        parts = PlayParts(need(EngineHost), need(SkillLibrary), need(LessonBook), need(AuditView), services.sandbox)
        await play.start(parts)

    async def aclose() -> None:
        await loop.aclose()
        await asyncio.to_thread(play.close)

    return Pack(
        sources=(StaticSource(NAME, (self_play, self_play_loop, stop_self_play)),),
        provides={SelfPlay: play, PlayLoop: loop},
        aclose=aclose,
        blocks=(StopAtMessages(loop),),
        started=started,
    )
