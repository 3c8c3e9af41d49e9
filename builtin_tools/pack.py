"""The pack of built-in tools, which the engine finds through the entry-point group `knackbox.tool_sources`."""

from pydantic import BaseModel, ConfigDict, Field

from builtin_tools.abort_attempt import abort_attempt
from builtin_tools.bridge.declared_tools import DeclaredToolPrograms
from builtin_tools.bridge.recorded_programs import RecordedPrograms
from builtin_tools.bridge.stub_block import StubBlock
from builtin_tools.compose_skill import compose_skill
from builtin_tools.create_skill import create_skill
from builtin_tools.download_rules import DownloadRules
from builtin_tools.execute import execute
from builtin_tools.file_system import file_system
from builtin_tools.image_generation import image_generation, with_client_choices
from builtin_tools.kernels.child_kernels import ChildKernels
from builtin_tools.kernels.service import Kernels
from builtin_tools.kernels.tool import kernels
from builtin_tools.manage_skills import manage_skills
from builtin_tools.replan import replan
from builtin_tools.scratchpad import Scratchpad, scratchpad
from builtin_tools.system_utility import system_utility
from builtin_tools.vision.page_finder import PageFinder
from builtin_tools.vision_analysis import vision_analysis
from builtin_tools.weather.settings import WeatherSettings
from engine.app.models import images_of
from engine.app.pack_settings import pack_settings
from engine.app.services import Services
from engine.contract.pack import Pack
from engine.contract.repeatable_calls import RepeatableCalls
from engine.contract.tool_programs import ToolPrograms
from engine.registry.static import StaticSource
from engine.stores.records import Records

NAME = "builtin"  # the name of the entry point and therefore of the configuration table
TOOLS = (
    abort_attempt,
    compose_skill,
    create_skill,
    execute,
    file_system,
    image_generation,
    kernels,
    manage_skills,
    replan,
    scratchpad,
    system_utility,
    vision_analysis,
)


class BuiltinSettings(BaseModel):
    """The table `[packs.builtin]` of the configuration.

    Attributes:
        download_allow: Host names, addresses or networks from which `file_system` may download even if they are not
            public.
        download_max_bytes: Size limit of a download.
        weather: Where the weather comes from, and for which place.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    download_allow: tuple[str, ...] = ()
    download_max_bytes: int = Field(default=DownloadRules().max_bytes, ge=1, le=1 << 30)
    weather: WeatherSettings = WeatherSettings()


async def open_pack(services: Services) -> Pack:
    """Open the pack of built-in tools.

    Raises:
        ConfigError: `[packs.builtin]` is invalid.
    """
    settings = pack_settings(NAME, services.settings.packs.get(NAME, {}), BuiltinSettings)
    rules = DownloadRules(
        max_bytes=settings.download_max_bytes, allow=tuple(entry.strip().lower() for entry in settings.download_allow)
    )
    image_tool = with_client_choices(images_of(services.settings))
    programs = RecordedPrograms(services.programs)
    stubs = StubBlock(services.sandbox, execute.spec)
    notes = Scratchpad.open(services.records, services.clock)
    open_kernels = Kernels(services.sandbox, services.settings.kernels, services.home.run)
    return Pack(
        sources=(StaticSource(NAME, [image_tool if each is image_generation else each for each in TOOLS]),),
        provides={
            DownloadRules: rules,
            Scratchpad: notes,
            Records: services.records,
            Kernels: open_kernels,
            RecordedPrograms: programs,
            RepeatableCalls: programs,
            ToolPrograms: DeclaredToolPrograms(),
            PageFinder: PageFinder(services.embedder),
            WeatherSettings: settings.weather,
        },
        aclose=open_kernels.aclose,
        blocks=(stubs,),
        observers=(ChildKernels(open_kernels),),
        started=stubs.start,
    )
