"""`recall` finds entries of every kind with filters and times, and says when nothing fits."""

from datetime import UTC, datetime

import pytest

from builtin_tools.memory.entries import EntryKind, EntrySource, KnownDocument, NewEntry, SourceKind
from builtin_tools.memory.recall import RecallRequest, RecallResult
from builtin_tools.memory.service import FactToAdd
from engine.contract.failure import ToolFailure
from engine.contract.turn import Turn
from tests.builtin_tools.memory.conftest import MemoryHome

ADA = Turn(user="ada")

pytestmark = pytest.mark.spec("MEM-4")


async def tell(home: MemoryHome, *texts: str, space: str = "", turn: Turn = ADA) -> None:
    for text in texts:
        await home.service.add(turn, FactToAdd(text, space))


async def ask(home: MemoryHome, text: str, turn: Turn = ADA, **more) -> RecallResult:
    return await home.service.recall(turn, RecallRequest(text, **more))


def texts(found: RecallResult) -> list[str]:
    return [hit.entry.text for hit in found.hits]


async def test_the_best_hit_answers_the_question_and_names_its_source(home: MemoryHome) -> None:
    await tell(home, "Ada lives in Rome.", "Bob works at Acme.", "The deadline of the report is Friday.")
    found = await ask(home, "Where does Ada live?")
    assert texts(found)[0] == "Ada lives in Rome."
    assert found.hits[0].entry.source == EntrySource(SourceKind.USER, "ada", "main")
    assert found.hits[0].holds


async def test_it_says_when_nothing_fits(home: MemoryHome) -> None:
    assert (await ask(home, "Where does Ada live?")).note == "The memory is empty."
    await tell(home, "Ada lives in Rome.")
    found = await ask(home, "the boiling point of tungsten")
    assert (texts(found), found.note) == ([], "Nothing in the memory fits.")


async def test_facts_are_recalled_as_of_a_time(home: MemoryHome) -> None:
    await tell(home, "Ada moved to Rome in 2015.", "Ada moved to Oslo in 2020.")
    question = "In which city does Ada live?"
    assert texts(await ask(home, question)) == ["Ada moved to Oslo in 2020."]
    assert texts(await ask(home, question, as_of="2017-06-01")) == ["Ada moved to Rome in 2015."]
    assert texts(await ask(home, question, as_of="March 2018")) == ["Ada moved to Rome in 2015."]
    assert texts(await ask(home, question, as_of="2010-01-01")) == []
    both = await ask(home, question, history=True)
    assert {hit.entry.text: hit.holds for hit in both.hits} == {
        "Ada moved to Oslo in 2020.": True,
        "Ada moved to Rome in 2015.": False,
    }


async def test_a_time_expression_limits_when_it_was_learned(home: MemoryHome) -> None:
    home.clock.set(datetime(2026, 3, 10, 8, 30, tzinfo=UTC))  # 09:30 in Berlin, on a Tuesday
    await tell(home, "The boiler makes a strange noise.")
    home.clock.set(datetime(2026, 3, 10, 15, 0, tzinfo=UTC))
    await tell(home, "The boiler was repaired by Mr. Kurz.")
    home.clock.set(datetime(2026, 3, 11, 15, 30, tzinfo=UTC))
    assert texts(await ask(home, "the boiler", when="yesterday morning")) == ["The boiler makes a strange noise."]
    assert texts(await ask(home, "What about the boiler yesterday morning?")) == ["The boiler makes a strange noise."]
    assert texts(await ask(home, "What did I say yesterday morning?")) == ["The boiler makes a strange noise."]
    assert len((await ask(home, "the boiler", when="since Monday")).hits) == 2
    empty = await ask(home, "the boiler", when="last year")
    assert (empty.hits, empty.note) == ((), "Nothing in the memory fits.")
    other = await ask(home, "What was wrong with the boiler in 2019?")
    assert len(other.hits) == 2
    assert "Nothing is from" in other.note
    with pytest.raises(ToolFailure, match="is not understood"):
        await ask(home, "the boiler", when="when pigs fly")


async def test_a_time_that_a_fact_mentions_is_found_too(home: MemoryHome) -> None:
    await tell(home, "Dentist appointment this Friday 6pm", "Choir practice on Saturday at 10am")
    assert texts(await ask(home, "appointment", when="this Friday 6pm")) == ["Dentist appointment this Friday 6pm"]


async def test_hits_are_limited_to_kinds_spaces_and_a_document(home: MemoryHome) -> None:
    await tell(home, "The pump needs oil.", space="personal:garage")
    await tell(home, "The pump needs water.", space="shared:household")
    document = KnownDocument(
        "d1", "user:ada", "personal:general", "pump.md", "Pump", "0" * 64, "text/markdown", "", 1.0
    )
    source = EntrySource(SourceKind.DOCUMENT, "ada", page=2, start=0, end=10)
    with home.store.changing() as memory:
        memory.add_document(
            document,
            [
                NewEntry("user:ada", "personal:general", EntryKind.PASSAGE, text, source, "Pump", position=at)
                for at, text in enumerate(
                    ["Unpack the pump.", "The pump needs grease every year.", "Store the pump dry."]
                )
            ],
        )
    assert texts(await ask(home, "what the pump needs", spaces=["personal:garage"])) == ["The pump needs oil."]
    assert texts(await ask(home, "what the pump needs", spaces=["shared:*"])) == ["The pump needs water."]
    assert {hit.entry.kind for hit in (await ask(home, "the pump", kinds=[EntryKind.PASSAGE])).hits} == {
        EntryKind.PASSAGE
    }
    found = await ask(home, "the pump needs grease", document="d1", limit=1, around=1)
    assert found.hits[0].document == "Pump (pump.md)"
    assert [each.text for each in found.hits[0].around] == ["Unpack the pump.", "Store the pump dry."]


async def test_open_contradictions_are_shown_on_both_sides(home: MemoryHome) -> None:
    await tell(home, "Platform changes at Lyon take 20 minutes on Sundays")
    home.clock.later(days=1)
    await tell(home, "Platform changes at Lyon take 30 minutes on Sundays")
    found = await ask(home, "How long do platform changes at Lyon take?")
    assert {hit.entry.text[-21:-19]: [each.text[-21:-19] for each in hit.contradicts] for hit in found.hits} == {
        "20": ["30"],
        "30": ["20"],
    }


async def test_an_empty_request_lists_the_newest_entries(home: MemoryHome) -> None:
    for text in ("Ada lives in Rome.", "Bob works at Acme."):
        await tell(home, text)
        home.clock.later(minutes=1)
    assert texts(await ask(home, "")) == ["Bob works at Acme.", "Ada lives in Rome."]


async def test_what_another_process_stores_is_found_at_once(home: MemoryHome, embedder) -> None:
    from tests.builtin_tools.memory.conftest import open_memory

    await tell(home, "Ada lives in Rome.")
    assert len((await ask(home, "Ada")).hits) == 1
    other = open_memory(home.root, home.clock, embedder)
    try:
        await tell(other, "Ada's dog is called Rex.")
    finally:
        other.close()
    assert texts(await ask(home, "What is the name of Ada's dog?"))[0] == "Ada's dog is called Rex."
