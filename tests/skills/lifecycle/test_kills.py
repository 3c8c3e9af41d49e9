"""`kill -9` at random moments of all operations that change skills (SKILL-10).

An independent reader checks the result. It opens the files, the database and the index, and shares no code with the
writers.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import pickle
import random
import select
import signal
import sqlite3
from dataclasses import replace
from functools import cache
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import strictyaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.parsed import ParsedProposal
from acquired_skills.model.proposal import Proposal
from acquired_skills.model.skill import SkillError, SkillState
from acquired_skills.portable.exporting import zipped
from acquired_skills.portable.importing import import_skills
from acquired_skills.proof import stages
from acquired_skills.proof.admission import Admission, admit
from acquired_skills.store.trust import Trust
from engine.registry.signing import SigningKey
from engine.retrieval.stored_index import StoredIndex
from engine.stores.embedder import WordLlamaEmbedder
from sandbox.contract import Language, Sandbox
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import opened_library, proposal
from tests.stores.processes import other

pytestmark = pytest.mark.spec("SKILL-10")

NAMES = ("add_one", "add_two", "add_three")
SHORT, LONG = 5, 100
MOST_DONE = 8  # maximum number of changes before the kill
MOST_AFTER_S = 0.05  # maximum seconds from a change to the kill, which then falls into the next change


def variant(name: str, turn: int) -> Proposal:
    return proposal(name, f"return number + 1  # {turn}", breaking=True)


class Gate:
    """Real admission, whose result for each skill is cached, so that most of the time is spent on writing."""

    def __init__(self, said: dict[tuple[str, bool], Admission]) -> None:
        self.said = said

    async def __call__(self, parsed: ParsedProposal, box: Sandbox, **how: Any) -> Admission:
        asked = (parsed.proposal.name, how["earlier_tests"] is not None)
        if asked not in self.said:
            self.said[asked] = await admit(parsed, box, **how)
        return self.said[asked]


async def record(home: Path, patch: pytest.MonkeyPatch) -> dict[tuple[str, bool], Admission]:
    gate = Gate({})
    patch.setattr(stages, "_PYTHON", replace(stages.stages_for(Language.PYTHON), admit=gate))
    async with NamespaceSandbox() as box, opened_library(home, box) as library:
        for name in NAMES:
            await library.create(variant(name, 0))
            await library.create(proposal(name, "return 1 + number"))
    return gate.said


async def change(library: SkillLibrary, pick: random.Random, home: Path, turn: int) -> None:
    """Make a change of one kind, if the state after the last change allows it."""
    name = pick.choice(NAMES)
    match pick.choice(("create", "create", "delete", "restore", "rollback", "state", "reindex", "import", "text")):
        case "create":
            await library.create(variant(name, turn))
        case "delete":
            await library.delete(name)
        case "restore":
            await library.restore(name)
        case "rollback":
            await library.rollback(name)
        case "state":
            await library.set_state(name, pick.choice((SkillState.DISABLED, SkillState.PROBATION)))
        case "reindex":
            await library.reindex()
        case "import":
            offered, file = variant(name, turn), home / f"{os.getpid()}.zip"
            front = f"---\nname: {name.replace('_', '-')}\ndescription: {offered.description}\n---\n"
            files = {"SKILL.md": front, f"{name}.py": offered.code, f"test_{name}.py": offered.tests}
            file.write_bytes(zipped({name: {path: text.encode() for path, text in files.items()}}))
            (brought,) = await import_skills(file, library, provenance={"by": "import"})
            assert brought.outcome in ("admitted", "refused"), brought.text
        case _:
            folder = home / "offered" / f"text-{turn}-{os.getpid()}"
            folder.mkdir(parents=True)
            (folder / "SKILL.md").write_text(f"---\nname: {folder.name}\ndescription: x\n---\n" + "y" * 50_000)
            await import_skills(folder, library, provenance={})


def busy(done: int, home: Path, said: dict[tuple[str, bool], Admission], seed: int) -> None:
    """Change skills in a loop. After each change, print a line with the existing versions."""
    python = stages.stages_for(Language.PYTHON)
    vars(stages)["_PYTHON"] = replace(python, admit=Gate(said))  # this process does nothing else

    async def work() -> None:
        pick = random.Random(seed)
        async with opened_library(home, trust=Trust(SigningKey(home / "key"))) as library:
            await library.search("adds one", 3)
            for turn in count(seed * 1000):
                with contextlib.suppress(SkillError):
                    await change(library, pick, home, turn)
                await library.search("adds one", 3)  # the search brings the index up to date
                now = {each.name: each.version for each in await library.skills()}
                os.write(done, json.dumps(now).encode() + b"\n")

    asyncio.run(work())


def nursery(pipe: "Connection[Any, Any]", home: Path, recorded: bytes) -> None:
    """Fork a process that changes skills for each request, and kill it after the requested changes and delay."""
    said = pickle.loads(recorded)
    while (asked_for := pipe.recv()) is not None:
        seed, changes, moment = asked_for
        heard, done = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(heard)
            try:
                busy(done, home, said, seed)
            finally:
                os._exit(1)
        os.close(done)
        told = b""
        while told.count(b"\n") < changes and (more := os.read(heard, 65536)):
            told += more
        select.select([], [], [], moment)
        os.kill(child, signal.SIGKILL)
        ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        while more := os.read(heard, 65536):
            told += more
        os.close(heard)
        pipe.send((ended, [json.loads(line) for line in told.split(b"\n")[:-1]]))


def front_of(folder: Path) -> dict[str, str]:
    """Return the metadata of a version's `SKILL.md`, after checking its hashes and its signature independently."""
    (code,), (tests,) = (folder / "scripts").iterdir(), (folder / "tests").iterdir()
    found = checked((folder / "SKILL.md").read_bytes(), code.read_bytes(), tests.read_bytes())
    assert (code.name, tests.name) == (f"{found['name']}.py", f"test_{found['name']}.py")
    return found


@cache
def checked(data: bytes, code: bytes, tests: bytes) -> dict[str, str]:
    head = data.split(b"\n---\n")[0].removeprefix(b"---\n")
    front = strictyaml.load(head.decode()).data
    found: dict[str, str] = front["metadata"]
    for source, hashed in ((code, "code"), (tests, "tests")):
        assert hashlib.sha256(source).hexdigest() == found[f"knackbox-{hashed}-sha256"]
    _, public, signature = found["knackbox-signature"].split(":")
    line = next(line for line in data.splitlines(keepends=True) if b"knackbox-signature" in line)
    Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(
        bytes.fromhex(signature), b"knackbox skill\0" + data.replace(line, b"")
    )
    return {**found, "name": front["name"].replace("-", "_")}


def verified(home: Path) -> dict[str, int]:
    """Check that everything is complete and consistent. Return the highest version that each skill ever had."""
    root = home / "acquired_skills"
    here: dict[str, tuple[int, str, str]] = {}
    highest: dict[str, int] = {}
    for folder in [*root.glob("[a-z]*"), *(root / ".deleted").iterdir()]:
        now = front_of(folder)
        version = int(now["knackbox-version"])
        highest[now["name"]] = max(version, highest.get(now["name"], 0))
        older = sorted(int(each.name) for each in (folder / "versions").glob("*"))
        assert older == list(range(version - len(older), version))
        for number in older:
            assert front_of(folder / "versions" / str(number))["knackbox-version"] == str(number)
        if folder.parent == root:
            assert folder.name == now["name"].replace("_", "-")
            here[now["name"]] = (version, now["knackbox-state"], now["knackbox-code-sha256"])
    with contextlib.closing(sqlite3.connect(home / "records.db")) as records:
        rows = [json.loads(text) for (text,) in records.execute("select skill from skills where not removed")]
        assert records.execute("pragma integrity_check").fetchone() == ("ok",)
    assert {row["name"]: (row["version"], row["state"], row["code_sha256"]) for row in rows} == here
    assert list((root / ".staging").iterdir()) == []
    assert list((root / ".set-aside").iterdir()) == []
    texts = root / ".instructions"
    for folder in texts.glob("[a-z]*"):
        assert (folder / "SKILL.md").stat().st_size > 50_000
    listed = {name for name, (_, state, _) in here.items() if state in ("probation", "active")}
    if listed:  # without listed skills, a search returns before it brings the index up to date
        assert indexed(home) == listed
    return highest


def indexed(home: Path) -> set[str]:
    """Return the names of the documents in the index that have vectors."""
    index = StoredIndex(home / "skill_index.db", WordLlamaEmbedder())
    ids = set(index.vector_names().values())
    index.close()
    return ids


async def kills(home: Path, patch: pytest.MonkeyPatch, number: int, first: int) -> None:
    elsewhere, here = home / "recorded", home / "home"
    for folder in (elsewhere, here):
        folder.mkdir()
    SigningKey(here / "key").make(lambda _: None)
    recorded = pickle.dumps(await record(elsewhere, patch))
    trust, highest = Trust(SigningKey(here / "key")), dict[str, int]()
    with other(nursery, here, recorded) as process:
        for seed in range(first, first + number):
            chance = random.Random(seed)
            asked_for = (seed, chance.randint(0, MOST_DONE), chance.uniform(0, MOST_AFTER_S))
            ended, told = await asyncio.to_thread(process.ask, asked_for)
            assert ended == -signal.SIGKILL
            async with opened_library(here, trust=trust) as library:  # like a start of the engine
                assert (await library.folders.verify()).aside == ()
                await library.search("adds one", 3)
                assert {one.name for one in library.instructions.all()} == set(library.instructions.names())
            before, highest = highest, verified(here)
            for name, version in [*before.items(), *(each for now in told for each in now.items())]:
                assert highest[name] >= version, "what was said to be done is not there"
        process.pipe.send(None)
    assert sum(highest.values()) > number // 2  # the writers did make progress


async def test_after_a_kill_during_any_change_every_skill_is_complete_or_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kills(tmp_path, monkeypatch, SHORT, first=1)


@pytest.mark.soak
@pytest.mark.timeout(1200)
async def test_a_hundred_kills_lose_no_data_and_leave_no_partial_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await kills(tmp_path, monkeypatch, LONG, first=1000)
