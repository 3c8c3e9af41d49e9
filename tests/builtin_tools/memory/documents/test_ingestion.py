"""Documents are stored once, replaced when they change, and cited by places in their text."""

import asyncio
from dataclasses import replace

import pytest

from builtin_tools.memory.documents.concurrent_map import concurrent_map
from builtin_tools.memory.documents.ingestion import DocumentIngestion, FoundDocument, IngestedDocument
from builtin_tools.memory.documents.ingestion import IngestionStatus as Status
from builtin_tools.memory.entries import EntrySource, SourceKind
from builtin_tools.memory.store import MemoryStore
from engine.contract.failure import ToolFailure
from sandbox.contract import Sandbox
from tests.builtin_tools.memory.documents import samples

ADA = EntrySource(SourceKind.TOOL, user="ada", agent="main", call_id="c1")
TEXT = "# Garden\n\n" + "Water the roses. " * 60 + "\n\n## Winter\n\nCover the roses.\n"


@pytest.mark.slow
@pytest.mark.spec("MEM-3")
async def test_a_document_is_stored_once_and_replaced_when_it_changes(store: MemoryStore, box: Sandbox) -> None:
    ingestion = DocumentIngestion(store, box)

    async def ingest(uri: str, text: str) -> IngestedDocument:
        found = FoundDocument(uri, text.encode())
        return await ingestion.ingest(found, owner="user:ada", space="personal:general", source=ADA)

    new = await ingest("garden.md", TEXT)
    assert (new.status, new.document.title, new.passages) == (Status.NEW, "Garden", 2)
    assert (await ingest("garden.md", TEXT)).status is Status.UNCHANGED
    copy = await ingest("copy.md", TEXT)
    assert (copy.status, copy.document.uri) == (Status.SAME_CONTENT, "garden.md")
    changed = await ingest("garden.md", TEXT.replace("roses", "tulips"))
    assert (changed.status, changed.document.id) == (Status.REPLACED, new.document.id)
    with pytest.raises(ToolFailure, match=r"broken\.json: it is not valid JSON"):
        await ingest("broken.json", "{")
    with store.reading() as memory:
        assert [each.uri for each in memory.documents(["user:ada"])] == ["garden.md"]
        passages = memory.passages(new.document.id)
        stored = memory.document(["user:ada"], new.document.id)
    assert stored is not None
    assert len(passages) == 2
    assert not [each for each in passages if "roses" in each.text]
    for at, each in enumerate(passages):
        assert stored.text[each.source.start : each.source.end] == each.text
        assert (each.position, each.source) == (at, replace(each.source, kind=SourceKind.DOCUMENT, call_id="c1"))
    assert passages[-1].title == "Garden > Winter"


@pytest.mark.slow
@pytest.mark.spec("MEM-3")
async def test_a_citation_names_the_page_of_its_passage(store: MemoryStore, box: Sandbox) -> None:
    data = samples.pdf("Cover.", *(f"This is about subject {number}." for number in range(2, 6)), title="Book")
    found = await DocumentIngestion(store, box).ingest(
        FoundDocument("book.pdf", data), owner="user:ada", space="personal:general", source=ADA
    )
    with store.reading() as memory:
        passages = memory.passages(found.document.id)
    assert [(each.source.page, each.text) for each in passages] == [
        (1, "Cover."),
        *((number, f"This is about subject {number}.") for number in range(2, 6)),
    ]
    assert {each.title for each in passages} == {"Book"}


@pytest.mark.slow
@pytest.mark.spec("MEM-3")
async def test_equal_documents_that_are_read_at_the_same_time_are_stored_once(store: MemoryStore, box: Sandbox) -> None:
    ingestion = DocumentIngestion(store, box)

    async def ingest(uri: str) -> IngestedDocument:
        found = FoundDocument(uri, TEXT.encode())
        return await ingestion.ingest(found, owner="user:ada", space="personal:general", source=ADA)

    taken = await concurrent_map([f"{number}.md" for number in range(4)], ingest, 4)
    assert sorted(each.status for each in taken) == [Status.NEW, *[Status.SAME_CONTENT] * 3]
    assert len({each.document.id for each in taken}) == 1


@pytest.mark.spec("MEM-3")
async def test_several_documents_keep_their_order_and_the_first_failure_is_raised() -> None:
    running, most = set(), []
    may_end = asyncio.Event()

    async def process(number: int) -> int:
        running.add(number)
        most.append(len(running))
        if len(running) == 3:
            may_end.set()
        await may_end.wait()
        running.remove(number)
        if number == 9:
            raise ValueError("nine")
        return -number

    assert await concurrent_map(range(8), process, 3) == [-number for number in range(8)]
    assert max(most) == 3
    with pytest.raises(ValueError, match="nine"):
        await concurrent_map([8, 9], process, 3)
