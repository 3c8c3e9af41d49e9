"""After a `kill -9` at any moment, a skill is complete or absent (SKILL-10). The processes are real."""

import asyncio
import os
import random
import signal
import time
from contextlib import suppress
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.jobs.box_files import PYDANTIC, PYTEST
from acquired_skills.model.skill import SkillChanged, SkillError, SkillState
from acquired_skills.store.ledger import Ledger
from acquired_skills.store.reconcile import reconcile
from acquired_skills.store.skill_store import SkillStore
from sandbox.namespace.backend import NamespaceSandbox
from tests.skills.parts import opened_library, opened_records, proposal, skill
from tests.stores.processes import other

PRELOAD = (*PYDANTIC, *PYTEST)
KILLS = 30
TESTS = b"tests\n"


def source(version: int) -> bytes:
    return f"# the code of version {version}\n".encode() * 50


def busy_writer(done: int, home: Path) -> None:
    """Publish, disable and delete a skill in a loop, as a library does. Send a byte to `done` before each round."""
    with opened_records(home) as records:
        store, ledger = SkillStore(home / "skills"), Ledger(records)
        reconcile(store, ledger)
        for turn in count():
            os.write(done, b".")
            with store.lock():
                name = "add_one" if turn % 2 else "add_two"
                version = store.next_version(name)
                current = store.read(name).version if name in store.names() else 0
                store.publish(skill(name, version, source(version), TESTS), source(version), TESTS, replaces=current)
                changed = store.read(name)
                if turn % 3 == 1:
                    changed = store.set_state(name, SkillState.DISABLED)
                ledger.put({name: (changed, store.stamp(name))})
            if turn % 5 == 4:
                with store.lock():
                    store.delete(name)
                    ledger.put({}, [name])


def nursery(pipe: "Connection[Any, Any]", home: Path) -> None:
    """Fork a writer for each request, and send its process id after the requested number of rounds, then its exit code.

    A fork is faster than a new process.
    """
    while (rounds := pipe.recv()) is not None:
        heard, done = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                busy_writer(done, home)
            finally:
                os._exit(1)
        os.close(done)
        for _ in range(rounds):
            os.read(heard, 1)
        pipe.send(child)
        pipe.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        os.close(heard)


@pytest.mark.spec("SKILL-10", "STATE-1")
def test_after_kill_9_at_random_moments_every_skill_is_complete_and_the_records_agree(tmp_path: Path) -> None:
    chance = random.Random(20)
    newest = 0
    with other(nursery, tmp_path) as process:
        for _ in range(KILLS):
            child = process.ask(chance.randint(1, 4))
            time.sleep(chance.uniform(0, 0.06))  # chooses the moment of the kill; the test does not wait for anything
            os.kill(child, signal.SIGKILL)
            assert process.hear() == -signal.SIGKILL
            newest = max(newest, check_home(tmp_path))
        process.pipe.send(None)
    assert newest > 5  # the writer did make progress


def check_home(home: Path) -> int:
    """Check after a start that everything is complete and consistent. Return the highest version that ever existed."""
    with opened_records(home) as records:
        store, ledger = SkillStore(home / "skills"), Ledger(records)
        report = reconcile(store, ledger)
        assert report.aside == ()
        assert report.foreign == ()
        assert list(store.staging.iterdir()) == []
        rows = {row.name: row.skill for row in ledger.rows() if row.skill is not None}
        assert sorted(rows) == store.names()
        for name in store.names():
            versions = store.history(name)
            assert rows[name] == versions[-1]
            numbers = [one.version for one in versions]
            assert numbers == list(range(numbers[0], numbers[-1] + 1))
            assert all(store.code(one) == source(one.version) for one in versions)
        deleted = [int(path.name.rsplit("-", 1)[1]) for path in store.deleted.iterdir()]
        return max([0, *(one.version for one in rows.values()), *deleted])


def one_writer(pipe: "Connection[Any, Any]", home: Path) -> None:
    """Publish one version for each message, based on the version that was current just before."""
    store = SkillStore(home / "skills")
    while True:
        current = pipe.recv()
        if current is None:
            return
        version = current + 1
        code = f"# {id(pipe)} {version}\n".encode()
        try:
            with store.lock():
                store.publish(skill("add_one", version, code, TESTS), code, TESTS, replaces=current)
            pipe.send(code)
        except SkillChanged:
            pipe.send(None)


@pytest.mark.spec("STATE-1")
def test_if_two_processes_write_the_same_skill_exactly_one_succeeds(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills")
    with other(one_writer, tmp_path) as first, other(one_writer, tmp_path) as second:
        for current in range(10):
            first.pipe.send(current)
            second.pipe.send(current)
            answers = [answer for answer in (first.hear(), second.hear()) if answer is not None]
            assert len(answers) == 1
            now = store.read("add_one")
            assert (now.version, store.code(now)) == (current + 1, answers[0])
        for process in (first, second):
            process.pipe.send(None)
            assert process.end() == 0


def reader(pipe: "Connection[Any, Any]", home: Path) -> None:
    """Read the skill repeatedly without a lock, and report what was wrong."""
    store = SkillStore(home / "skills")
    pipe.send("ready")
    wrong: list[str] = []
    reads = 0
    while not pipe.poll():
        try:
            store.read("add_one")
            reads += 1
        except SkillError as error:
            wrong.append(str(error))
    with suppress(EOFError):
        pipe.recv()
    pipe.send((reads, wrong))


def test_a_new_version_replaces_the_old_one_atomically(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills")
    store.publish(skill("add_one", 1, source(1), TESTS), source(1), TESTS, replaces=0)
    with other(reader, tmp_path) as process:
        assert process.hear() == "ready"
        for version in range(2, 12):
            with store.lock():
                code = source(1)
                store.publish(skill("add_one", version, code, TESTS), code, TESTS, replaces=version - 1)
        reads, wrong = process.ask("stop")
    assert reads > 0
    missing = [line for line in wrong if "There is no skill" in line]
    assert missing == []


def creator(pipe: "Connection[Any, Any]", home: Path) -> None:
    """Create one skill after another, with real admission in a real box."""

    async def work() -> None:
        async with NamespaceSandbox() as box, opened_library(home, box) as library:
            await box.warm_up(PRELOAD)
            pipe.send("ready")
            for turn in count():
                name = f"adder_{turn}_{os.getpid()}"
                await library.create(proposal(name))
                pipe.send(name)

    asyncio.run(work())


@pytest.mark.spec("SKILL-10", "SKILL-1")
def test_a_kill_during_create_skill_leaves_reported_skills_and_no_incomplete_ones(tmp_path: Path) -> None:
    chance = random.Random(4)
    said: set[str] = set()
    for rounds in (0, 1, 2, 0):
        with other(creator, tmp_path) as process:
            assert process.hear() == "ready"
            said.update(process.hear() for _ in range(rounds))
            time.sleep(chance.uniform(0, 0.5))  # during the next creation
            process.kill()
            with suppress(EOFError):
                while process.pipe.poll():  # messages that it sent before it was killed
                    said.add(process.pipe.recv())
        with opened_records(tmp_path) as records:
            store = SkillStore(tmp_path / "acquired_skills")
            report = reconcile(store, Ledger(records))
            assert report.aside == ()
            assert said <= set(store.names())
            assert all(store.read(name).version == 1 for name in store.names())
            assert list(store.staging.iterdir()) == []
    assert len(said) >= 3
