"""Real parts, combined as a pack combines them, and proposals, for the tests of skills."""

import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path

from acquired_skills.find.catalog import Catalog
from acquired_skills.in_box.effort import Effort
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.lifecycle.track_record import TrackRecord
from acquired_skills.model.proposal import Proposal
from acquired_skills.model.skill import Skill, SkillState
from acquired_skills.store.corrected_calls import CorrectedCalls
from acquired_skills.store.disputed_predictions import DisputedPredictions
from acquired_skills.store.failed_inputs import FailedInputs
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.past_requests import PastRequests
from acquired_skills.store.skill_store import SkillStore
from acquired_skills.store.trust import Trust
from engine.contract.context import CallContext
from engine.contract.turn import Turn
from engine.retrieval.mirror import VectorMirror
from engine.retrieval.stored_index import StoredIndex
from engine.stores.clock import SystemClock
from engine.stores.embedder import WordLlamaEmbedder
from engine.stores.records import Records
from engine.stores.vectors import VectorStore
from engine.stores.workspace import FolderWorkspace
from sandbox.contract import Destination, Job, OnOutput, Outcome, Protections, Sandbox

# Admits a skill without mutation testing, which takes two thirds of an admission and is tested in `tests/skills/proof`.
WITHOUT_MUTANTS = Effort(threshold=0.0)
# Its time limits are not reached even on a loaded machine, where mutants and calls would otherwise be left untried.
UNHURRIED = Effort(stub_test_s=0.5, test_s=1.0, total_s=60.0, mutants_s=60.0, similar_calls_s=60.0)
ENVIRON_WITHOUT_MUTANTS = {"KNACKBOX_SKILLS_MUTANTS_KILLED": "0"}  # the same for an engine or a command
STATIC = frozenset({"execute", "file_system", "create_skill"})


class NoSandbox:
    """A sandbox that fails the test if anything runs."""

    name = "none"

    async def run(self, job: Job, *, on_output: OnOutput | None = None) -> Outcome:
        raise AssertionError("nothing may run here")

    async def report(self) -> Protections:
        return Protections("none", ())

    async def aclose(self) -> None:
        pass


@contextmanager
def opened_records(home: Path) -> Iterator[Records]:
    records = Records.open(f"sqlite:///{home}/records.db")
    try:
        yield records
    finally:
        records.close()


@asynccontextmanager
async def opened_library(
    home: Path,
    box: Sandbox | None = None,
    *,
    retrieve: int = 8,
    allowed: frozenset[Destination] = frozenset(),
    compared: int = 0,
    trust: Trust | None = None,
    effort: Effort = WITHOUT_MUTANTS,
) -> AsyncIterator[SkillLibrary]:
    """Open the library of a home with the same real parts as `acquired_skills.pack`.

    By default, `compared` is 0, because most skills of these tests are duplicates.
    """
    with opened_records(home) as records:
        vectors = VectorStore(home / "chroma", records)

        def open_index() -> StoredIndex:
            return StoredIndex(home / "skill_index.db", WordLlamaEmbedder())

        def open_mirror(index: StoredIndex) -> VectorMirror:
            return VectorMirror(index, lambda: vectors.collection("skills_active", 256), WordLlamaEmbedder().name)

        ledger, past = Ledger(records), PastRequests(records)
        library = SkillLibrary(
            store=SkillStore(home / "acquired_skills", trust),
            ledger=ledger,
            catalog=Catalog(ledger, open_index, past, mirror=open_mirror),
            track=TrackRecord(ledger, FailedInputs(records), CorrectedCalls(records), SystemClock()),
            sandbox=box or NoSandbox(),
            clock=SystemClock(),
            static_names=lambda: STATIC,
            seed=lambda: 7,
            retrieve=retrieve,
            compared=compared,
            allowed=allowed,
            effort=effort,
            disputed=DisputedPredictions(records),
        )
        await library.folders.reconcile()
        try:
            yield library
        finally:
            await library.aclose()
            vectors.close()


def context(library: SkillLibrary, box: Sandbox, folder: Path) -> CallContext:
    workspace = FolderWorkspace(folder)
    return CallContext(Turn(), "call-1", box, workspace, SystemClock(), services={SkillLibrary: library})


ADD_ONE_TESTS = """from add_one import add_one


def test_adds():
    assert add_one(1) == 2
    assert add_one(0) == 1
    assert add_one(-5) == -4
"""
"""Tests of enough calls that admission asks no questions."""


def proposal(name: str = "add_one", body: str = "return number + 1", tests: str = "", **more: object) -> Proposal:
    """Return a proposal of a skill that adds one, with other values for some fields."""
    code = f'def {name}(number: int) -> int:\n    """Add one.\n\n    Args:\n        number: to add to.\n    """\n    {body}\n'
    tests = tests or f"from {name} import {name}\n\n\ndef test_adds():\n    assert {name}(1) == 2\n"
    return replace(Proposal(name, "Adds one to a whole number.", code, tests), **more)  # type: ignore[arg-type]


def skill(name: str = "add_one", version: int = 1, code: bytes = b"code\n", tests: bytes = b"tests\n") -> Skill:
    """Return a skill as it is after admission, for stores, which never run it."""
    return Skill(
        name=name,
        version=version,
        state=SkillState.PROBATION,
        description=f"What {name} does.",
        parameters={"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]},
        plain=True,
        imports=("math",),
        created="2026-01-02T03:04:05+00:00",
        code_sha256=hashlib.sha256(code).hexdigest(),
        tests_sha256=hashlib.sha256(tests).hexdigest(),
        tests=1,
        examples=("add one to three",),
    )
