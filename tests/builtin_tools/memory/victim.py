"""Processes that change a memory until they are killed. They say what they have done, so that nothing of it may be lost."""

import asyncio
import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from builtin_tools.memory.documents.ingestion import DocumentIngestion, FoundDocument
from builtin_tools.memory.dream import plans
from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.recall import RecallRequest
from builtin_tools.memory.scope import MemoryScope
from builtin_tools.memory.service import FactToAdd
from engine.contract.turn import Turn
from engine.retrieval.passage_encoder import PassageEncoder
from engine.retrieval.passage_fit import SENTENCE_FIT
from engine.stores.embedder import Vectors, WordLlamaEmbedder
from sandbox.namespace.backend import NamespaceSandbox
from tests.builtin_tools.memory.conftest import SetClock, open_memory
from tests.builtin_tools.memory.dreamer import Dreamer
from tests.retrieval.topic_encoder import TopicEncoder, loader_of, topic_encoder

ADA = Turn(user="ada")
SECTIONS = 6  # of each document
OTHERS = ("Rome", "Oslo", "Bonn", "Lyon", "Kyiv")


def insert_and_forget(pipe: Any, folder: str, seed: int, *, encoded: bool = False) -> None:
    """Insert facts, which sometimes close others, search, and forget, telling the pipe after each step."""
    pick = random.Random(seed)
    loader = loader_of(topic_encoder()) if encoded else None
    home = open_memory(Path(folder), SetClock(), WordLlamaEmbedder(), encoder=loader)
    service = home.service
    pipe.send(("ready", "", ""))
    number = 0
    while True:
        number += 1
        text = f"Person {seed} x{number} lives in {pick.choice(OTHERS)} since {number}."
        pipe.send(("adding", text, ""))
        added = service._add(ADA, FactToAdd(text))
        pipe.send(("added", text, added.entry.id))
        service.recaller.recall(MemoryScope.of(ADA), RecallRequest("Who lives in Rome?"))
        if pick.random() < 0.4:
            with home.store.reading() as memory:
                victim = pick.choice(memory.entries(["user:ada"]))
            pipe.send(("forgetting", victim.text, victim.id))
            service.erasure.erase([victim])
            pipe.send(("forgot", victim.text, victim.id))


def insert_and_forget_encoded(pipe: Any, folder: str, seed: int) -> None:
    """Do the same with an encoder."""
    insert_and_forget(pipe, folder, seed, encoded=True)


def document(version: str) -> bytes:
    """Return a document of which every section names the version."""
    sections = (
        f"# Part {part}\n\nThis is part {part} of version {version}.{' Roses.' * 80}\n\n" for part in range(SECTIONS)
    )
    return "".join(sections).encode()


def ingest_and_dream(pipe: Any, folder: str, seed: int) -> None:
    """Ingest documents, replace them, and merge near-duplicates, telling the pipe before and after each step."""
    plans.MOST_PLANS = 1_000_000  # the test compares what is closed with the plans of all processes
    asyncio.run(_ingest_and_dream(pipe, Path(folder), seed))


async def _ingest_and_dream(pipe: Any, folder: Path, seed: int) -> None:
    pick = random.Random(seed)
    embedder = WordLlamaEmbedder()
    home = open_memory(folder, SetClock(), embedder)
    dreamer = Dreamer(home, embedder)
    source = EntrySource(SourceKind.TOOL, user="ada")
    async with NamespaceSandbox() as box:
        ingestion = DocumentIngestion(home.store, box)
        pipe.send(("ready", "", ""))
        for number in itertools.count():
            version, uri = f"{seed}x{number}", f"{pick.choice(OTHERS)}.md"
            found = FoundDocument(uri, document(version))
            pipe.send(("ingesting", uri, version))
            await ingestion.ingest(found, owner="user:ada", space="personal:general", source=source)
            pipe.send(("ingested", uri, version))
            for now in ("", "currently "):
                text = f"The parcel {version} for Bob is {now}in the hallway."
                pipe.send(("adding", text, ""))
                added = await home.service.add(ADA, FactToAdd(text))
                pipe.send(("added", text, added.entry.id))
            plan = await dreamer.dreaming.make(ADA)
            pipe.send(("applying", plan.id, ""))
            plan = await dreamer.dreaming.apply(plan)
            pipe.send(("applied", plan.id, str(len(plan.steps))))
            if pick.random() < 0.5:
                await dreamer.dreaming.undo(plan)
                pipe.send(("undone", plan.id, ""))


class TalkativeEncoder(TopicEncoder):
    """Tells the pipe how many texts it is about to encode."""

    def __init__(self, pipe: Any) -> None:
        super().__init__()
        self._pipe = pipe

    def embed(self, texts: Sequence[str]) -> Vectors:
        self._pipe.send(("encoding", str(len(texts)), ""))
        return super().embed(texts)


def reindex(pipe: Any, folder: str) -> None:
    """Re-index a memory for an encoder, telling the pipe before each batch, and finally that all is done."""
    loader = loader_of(PassageEncoder(TalkativeEncoder(pipe), SENTENCE_FIT))
    home = open_memory(Path(folder), SetClock(), WordLlamaEmbedder(), encoder=loader)
    home.service.reindexing.run()
    pipe.send(("done", "", ""))
    home.close()
