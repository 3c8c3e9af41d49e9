"""A process may be killed while it reads documents or consolidates: each document and each step is whole or absent."""

import random
from pathlib import Path

import pytest

from builtin_tools.memory.dream.plan import StepKind, StepState
from builtin_tools.memory.entries import EntryKind
from engine.retrieval.passage import PassageFilter
from engine.stores.embedder import WordLlamaEmbedder
from tests.builtin_tools.memory.conftest import MemoryHome, SetClock, open_memory
from tests.builtin_tools.memory.dreamer import ADA, Dreamer
from tests.builtin_tools.memory.test_kills import heard_until_killed
from tests.builtin_tools.memory.victim import SECTIONS, ingest_and_dream
from tests.stores.processes import other

pytestmark = [pytest.mark.spec("MEM-3", "MEM-9"), pytest.mark.slow]

Steps = list[tuple[str, str, str]]


@pytest.mark.timeout(600)
def test_kills_during_ingest_and_dream_leave_nothing_half_written(tmp_path: Path, embedder: WordLlamaEmbedder) -> None:
    kill_often(tmp_path / "home", embedder, 5)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_200_kills_during_ingest_and_dream_leave_nothing_half_written(
    tmp_path: Path, embedder: WordLlamaEmbedder
) -> None:
    kill_often(tmp_path / "home", embedder, 200)


def kill_often(folder: Path, embedder: WordLlamaEmbedder, times: int) -> None:
    pick = random.Random(times)
    folder.mkdir()
    versions: dict[str, str] = {}  # uri -> version that must be stored
    facts: dict[str, str] = {}  # id -> text that must be there
    for round_number in range(times):
        with other(ingest_and_dream, str(folder), round_number) as process:
            steps = heard_until_killed(process, pick.randrange(2, 20), pick.random() * 0.1)
        home = open_memory(folder, SetClock(), embedder)
        try:
            check_documents(home, versions, steps)
            check_facts(home, facts, steps)
            check_plans(Dreamer(home, embedder))
            check_index(home)
        finally:
            home.close()


def check_documents(home: MemoryHome, versions: dict[str, str], steps: Steps) -> None:
    """Compare documents with what the process said, and accept the interrupted one in its old or new version."""
    versions.update({uri: version for step, uri, version in steps if step == "ingested"})
    unsure = {uri: version for step, uri, version in steps[-1:] if step == "ingesting"}
    with home.store.reading() as memory:
        documents = {each.uri: each for each in memory.documents([ADA])}
        passages = {each.id: memory.passages(each.id) for each in documents.values()}
        texts = {each.id: memory.document([ADA], each.id) for each in documents.values()}
        every = [entry for entry in memory.entries([ADA]) if entry.kind is EntryKind.PASSAGE]
    assert sorted(entry.id for entry in every) == sorted(each.id for own in passages.values() for each in own)
    assert versions.keys() <= documents.keys() <= versions.keys() | unsure.keys()
    for uri, stored in documents.items():
        whole, own = texts[stored.id], passages[stored.id]
        assert whole is not None
        possible = {versions.get(uri), unsure.get(uri)} - {None}
        found = [version for version in possible if f"of version {version}." in whole.text]
        assert len(found) == 1
        versions[uri] = str(found[0])
        assert [each.position for each in own] == list(range(len(own)))
        assert all(whole.text[each.source.start : each.source.end] == each.text for each in own)
        joined = "\n".join(each.text for each in own)
        assert all(joined.count(f"part {part} of version {found[0]}.") == 1 for part in range(SECTIONS))
        assert joined.count("of version ") == SECTIONS


def check_facts(home: MemoryHome, facts: dict[str, str], steps: Steps) -> None:
    facts.update({entry_id: text for step, text, entry_id in steps if step == "added"})
    unsure = {text for step, text, _ in steps[-1:] if step == "adding"}
    with home.store.reading() as memory:
        stored = {each.id: each.text for each in memory.entries([ADA]) if each.kind is EntryKind.FACT}
    assert facts.items() <= stored.items()
    assert {stored[entry_id] for entry_id in stored.keys() - facts.keys()} <= unsure
    facts.update(stored)


def check_plans(dreamer: Dreamer) -> None:
    """Exactly the facts of applied steps are closed; the newest plan can be continued, and undone to the last fact."""
    assert closed(dreamer) == closed_by_plans(dreamer)
    plan = dreamer.plans.get(ADA)
    if plan is None:
        return
    applied = dreamer.plans.apply(plan)
    assert StepState.PLANNED not in {step.state for step in applied.steps}
    assert closed(dreamer) == closed_by_plans(dreamer)
    undone = dreamer.plans.undo(applied)
    assert StepState.APPLIED not in {step.state for step in undone.steps}
    assert closed(dreamer) == closed_by_plans(dreamer)


def closed(dreamer: Dreamer) -> set[str]:
    with dreamer.home.store.reading() as memory:
        return {each.id for each in memory.entries([ADA]) if each.holds_to is not None}


def closed_by_plans(dreamer: Dreamer) -> set[str]:
    steps = [step for plan in dreamer.plans.all(ADA) for step in plan.steps]
    assert {step.kind for step in steps} <= {StepKind.MERGE}
    return {entry_id for step in steps if step.state is StepState.APPLIED for entry_id in step.entries}


def check_index(home: MemoryHome) -> None:
    with home.store.reading() as memory:
        stored = {each.id: each.text for each in memory.entries([ADA])}
    home.indexes.search(ADA, "parcel", 1, PassageFilter())
    index = home.indexes.of(ADA).index
    assert index.ids() == set(stored)
    assert len(index) == len(stored)
    for entry_id, text in list(stored.items())[:3]:
        assert entry_id in {found.id for found in index.search(text, len(stored))}
        assert entry_id in {found for found, _ in index.similar(text, len(stored))}
