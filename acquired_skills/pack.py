"""`open_pack`: the entry point ``skills`` of the group ``knackbox.tool_sources``."""

import asyncio
import logging
import secrets
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from acquired_skills.composed.runs import KeptRuns
from acquired_skills.distil.distiller import Distiller
from acquired_skills.find.catalog import Catalog
from acquired_skills.find.instruction_search import InstructionSearch
from acquired_skills.in_box.effort import Effort
from acquired_skills.lifecycle.approvals import ApprovalPolicy, DeclarationRules
from acquired_skills.lifecycle.learned_requests import LearnedRequests
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.lifecycle.track_record import TrackRecord
from acquired_skills.lifecycle.trial import SkillTrials
from acquired_skills.store.corrected_calls import CorrectedCalls
from acquired_skills.store.disputed_predictions import DisputedPredictions
from acquired_skills.store.failed_inputs import FailedInputs
from acquired_skills.store.keys import trust_of
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.past_requests import PastRequests
from acquired_skills.store.skill_store import SkillStore
from acquired_skills.tools.skill_source import SkillSource
from engine.app.services import Services
from engine.contract.failure import ConfigError
from engine.contract.pack import Pack
from engine.contract.tool_requests import ToolRequests
from engine.stores.engine_lock import EngineLock
from engine.stores.sqlite_file import DiskFull
from sandbox.contract import Destination

if TYPE_CHECKING:
    from engine.retrieval.index import HybridIndex
    from engine.retrieval.mirror import VectorMirror
    from engine.retrieval.reranking import SentenceReranker
    from engine.retrieval.stored_index import StoredIndex

log = logging.getLogger(__name__)

COLLECTION = "skills_active"  # contains only listed skills, so that no query needs a filter


async def open_pack(services: Services) -> Pack:
    """Open the skills of a home: a source of tools, and the library to manage them.

    The records are first made to agree with the folders of the skills.

    Raises:
        ConfigError: The folder of the skills, or the configured signing key, cannot be used.
    """

    def open_index() -> "StoredIndex":
        from engine.retrieval.stored_index import StoredIndex  # noqa: PLC0415 -- numpy, which only a search needs

        return StoredIndex(services.home.skill_index, services.embedder())

    def open_mirror(index: "StoredIndex") -> "VectorMirror":
        from engine.retrieval.mirror import VectorMirror  # noqa: PLC0415 -- numpy, which only a search needs

        embedder = services.embedder()
        return VectorMirror(
            index, lambda: services.vectors().collection(COLLECTION, embedder.dimensions), embedder.name
        )

    def open_instruction_index() -> "HybridIndex":
        from engine.retrieval.index import HybridIndex  # noqa: PLC0415 -- numpy, which only a search needs
        from engine.retrieval.memory import MemoryVectors  # noqa: PLC0415 -- same

        embedder = services.embedder()
        return HybridIndex(MemoryVectors(embedder.dimensions), embedder)

    def open_reranker() -> "SentenceReranker | None":
        from engine.retrieval.reranking import SentenceReranker  # noqa: PLC0415 -- numpy, which only a search needs
        from engine.stores.sentence_embedder import NAME, SentenceEmbedder, installed  # noqa: PLC0415 -- numpy
        from engine.stores.vector_cache import VectorCache  # noqa: PLC0415 -- numpy

        wanted = services.settings.skills.encoder
        if wanted == "words" or (wanted == "auto" and not installed()):
            return None
        return SentenceReranker(SentenceEmbedder, VectorCache(services.home.sentence_vectors, NAME))

    ledger = await asyncio.to_thread(Ledger, services.records)
    try:
        store = await asyncio.to_thread(
            SkillStore, services.home.skills, trust_of(services.home, services.settings.skills)
        )
    except OSError as error:
        raise ConfigError(
            f"{error.filename or services.home.skills}: cannot be used to store skills ({error.strerror}). "
            "Check what is there and its permissions, or choose another home with --home."
        ) from error
    past = await asyncio.to_thread(PastRequests, services.records)
    learned = LearnedRequests(past, on=services.settings.skills.learn_requests)
    catalog = Catalog(ledger, open_index, past, use_past=learned.on, mirror=open_mirror, reranker=open_reranker)
    failed = await asyncio.to_thread(FailedInputs, services.records)
    corrected = await asyncio.to_thread(CorrectedCalls, services.records)
    rules = DeclarationRules(
        frozenset(map(Destination.parse, services.settings.egress.allow)),
        ApprovalPolicy(frozenset(services.settings.skills.packages), services.settings.skills.ask_always),
    )
    library = SkillLibrary(
        store=store,
        ledger=ledger,
        catalog=catalog,
        track=TrackRecord(ledger, failed, corrected, services.clock),
        sandbox=services.sandbox,
        clock=services.clock,
        static_names=services.static_names,
        seed=lambda: secrets.randbits(32),
        retrieve=services.settings.skills.retrieve,
        fits=services.settings.skills.fits,
        compared=services.settings.skills.compared,
        allowed=rules.destinations,
        effort=Effort(threshold=services.settings.skills.mutants_killed),
        updates=services.updates,
        disputed=await asyncio.to_thread(DisputedPredictions, services.records),
        approval_policy=rules.policy,
    )
    try:
        await library.folders.reconcile()
    except DiskFull as error:
        log.warning("The records of skills cannot be updated, so skills are offered as they were recorded: %s", error)
    lock = await asyncio.to_thread(EngineLock, services.home.engines)
    runs = await asyncio.to_thread(KeptRuns, services.records, lock, services.clock, lambda: secrets.token_hex(8))

    watching = asyncio.create_task(library.folders.watch())

    async def aclose() -> None:
        watching.cancel()
        await asyncio.wait([watching])
        async with AsyncExitStack() as closing:  # in reverse order, each even if another cannot be closed
            closing.callback(runs.close)
            closing.push_async_callback(library.aclose)
            closing.push_async_callback(learned.aclose)

    trials = SkillTrials(library.track, services.sandbox, lambda: secrets.randbits(32))
    texts = InstructionSearch(library.instructions, open_instruction_index)
    return Pack(
        sources=(SkillSource(library, texts),),
        provides={
            SkillLibrary: library,
            KeptRuns: runs,
            InstructionSearch: texts,
            DeclarationRules: rules,
            SkillTrials: trials,
            Distiller: Distiller(services.programs, services.sandbox),
            TrackRecord: library.track,
            ToolRequests: learned,
        },
        aclose=aclose,
    )
