"""`knowledge_base` and `recall` as an engine offers them, and what the engine records of them."""

from collections.abc import AsyncIterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from builtin_tools.memory.knowledge_base import knowledge_base
from builtin_tools.memory.recall_tool import recall
from builtin_tools.memory.service import MemoryService
from engine import Engine
from engine.app.settings import Settings
from engine.contract.result import ToolResult
from engine.contract.turn import Turn
from tests.builtin_tools.http_server import Seen, reply, serving

pytestmark = [pytest.mark.spec("MEM-2", "TOOL-4"), pytest.mark.slow]

ADA = Turn(user="ada")


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    async with Engine.open(home=tmp_path / "home") as opened:
        yield opened


async def do(engine: Engine, action: str, turn: Turn = ADA, **arguments: Any) -> ToolResult:
    return await engine.call("knowledge_base", {"action": action, **arguments}, turn)


async def test_facts_are_inserted_recalled_replaced_and_forgotten(engine: Engine, tmp_path: Path) -> None:
    first = await do(engine, "insert_fact", text="Ada lives in Rome.")
    assert first.success, first.error
    assert first.side_effects == (f"remembered:{first.output['entry']['id']}",)
    second = await do(engine, "insert_fact", text="Ada moved to Oslo.")
    assert [each["text"] for each in second.output["replaced"]] == ["Ada lives in Rome."]
    found = await engine.call("recall", {"query": "Where does Ada live?"}, ADA)
    assert [hit["text"] for hit in found.output["hits"]] == ["Ada moved to Oslo."]
    history = await engine.call("recall", {"query": "Where does Ada live?", "history": True}, ADA)
    assert len(history.output["hits"]) == 2
    preview = await do(engine, "forget", query="Oslo")
    assert (preview.output["deleted"], [each["text"] for each in preview.output["entries"]]) == (
        False,
        ["Ada moved to Oslo."],
    )
    done = await do(engine, "forget", query="Oslo", confirm=preview.output["confirm"])
    assert done.output["deleted"], done.message
    await engine._components.trail.flush()
    contents = b"".join(path.read_bytes() for path in (tmp_path / "home").rglob("*") if path.is_file())
    assert b"Ada moved to Oslo" not in contents
    assert b"Ada lives in Rome" in contents
    assert done.output["still_in"] == []


async def test_reset_all_asks_first_and_spares_other_users(engine: Engine) -> None:
    bob = Turn(user="bob")
    for turn in (ADA, bob):
        await do(engine, "insert_fact", turn, text="The bicycle is green.")
    preview = await do(engine, "reset_all")
    assert not preview.output["deleted"]
    assert not (await do(engine, "reset_all", confirm="wrong")).output["deleted"]
    assert (await do(engine, "reset_all", confirm=preview.output["confirm"])).output["deleted"]
    assert (await engine.call("recall", {"query": "bicycle"}, ADA)).output["hits"] == []
    assert len((await engine.call("recall", {"query": "bicycle"}, bob)).output["hits"]) == 1


async def test_wrong_arguments_say_what_is_missing(engine: Engine) -> None:
    for action, arguments, text in [
        ("insert_fact", {}, "`text` is missing"),
        ("ingest_document", {}, "`source` is missing"),
        ("forget", {}, "exactly one of"),
        ("insert_fact", {"text": "x", "space": "kitchen"}, "is not a memory space"),
        ("insert_fact", {"text": "x", "since": "when pigs fly"}, "is not understood"),
    ]:
        failed = await do(engine, action, **arguments)
        assert not failed.success
        assert text in (failed.error or "")
    assert (await do(engine, "list_docs")).output == []


async def test_the_content_of_a_call_is_not_recorded(engine: Engine, tmp_path: Path) -> None:
    await do(engine, "insert_fact", text="The password is heliotrope.", turn=ADA)
    await engine.call("recall", {"query": "Which password is heliotrope?"}, ADA)
    await engine._components.trail.flush()
    for name in ("records.db", "records.db-wal", "events.db", "events.db-wal"):
        file = tmp_path / "home" / name
        assert not file.exists() or b"heliotrope" not in file.read_bytes(), name


def test_the_tools_declare_what_they_do() -> None:
    assert recall.spec.annotations.read_only
    assert knowledge_base.spec.annotations.destructive
    assert "text" in knowledge_base.spec.private_arguments
    assert "query" in recall.spec.private_arguments


async def test_the_port_of_a_call_is_the_memory_of_its_user(engine: Engine) -> None:
    port = engine.need(MemoryService).port(ADA)
    entry_id = await port.remember("Ada plays the violin.", "personal:general")
    assert [each.id for each in await port.recall("violin")] == [entry_id]
    assert await port.forget(entry_id, "personal:general")
    assert not await port.forget(entry_id, "personal:general")


@pytest.mark.spec("MEM-3")
async def test_a_folder_of_the_workspace_is_taken_in_except_what_cannot_be_read(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "home" / "workspace" / "papers"
    folder.mkdir(parents=True)
    (folder / "boat.md").write_text("# Boats\n\nThe ferry to Trondheim leaves at noon.\n")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing else")
    (tmp_path / "home" / "secret.md").write_text("# Not for agents\n")
    done = await do(engine, "ingest_document", source="papers")
    assert done.success, done.error
    boat, broken = done.output
    assert (boat["uri"], boat["passages"], boat["note"]) == ("papers/boat.md", 1, "")
    assert (broken["uri"], broken["passages"]) == ("papers/broken.pdf", 0)
    assert broken["note"].startswith("Not taken in: papers/broken.pdf: ")
    assert [each["uri"] for each in (await do(engine, "list_docs")).output] == ["papers/boat.md"]
    outside = await do(engine, "ingest_document", source="../secret.md")
    assert not outside.success


@pytest.mark.spec("MEM-3")
async def test_a_url_is_taken_in_only_where_downloads_are_allowed(tmp_path: Path) -> None:
    page = b"<html><title>Boats</title><body><p>The ferry to Trondheim leaves at noon.</p></body></html>"

    def answer(handler: BaseHTTPRequestHandler, seen: Seen) -> None:
        reply(handler, 200, page, {"Content-Type": "text/html; charset=utf-8"})

    with serving({"/boats": answer}) as server:
        url = server.url("/boats")
        async with Engine.open(home=tmp_path / "closed") as engine:
            refused = await do(engine, "ingest_document", source=url)
            assert not refused.success
            assert server.seen == []
        allowed = Settings(packs={"builtin": {"download_allow": ["127.0.0.1"]}})
        async with Engine.open(home=tmp_path / "open", settings=allowed) as engine:
            done = await do(engine, "ingest_document", source=url)
            assert done.success, done.error
            assert [(each["title"], each["uri"]) for each in done.output] == [("Boats", url)]
            found = await engine.call("recall", {"query": "When does the ferry leave?"}, ADA)
            assert "noon" in found.output["hits"][0]["text"]
            assert (await do(engine, "ingest_document", source=url)).output[0]["unchanged"]
