"""Killed at any instant, a skill is wholly there or not there (SKILL-10). Real processes, really killed."""

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

from acquired_skills.ledger import Ledger
from acquired_skills.reconcile import reconcile
from acquired_skills.skill import SkillChanged, SkillError, SkillState
from acquired_skills.store import SkillStore
from tests.skills.parts import opened_records, skill
from tests.stores.processes import other

KILLS = 60
TESTS = b"tests\n"


def source(version: int) -> bytes:
    return f"# the code of version {version}\n".encode() * 50


def busy_writer(ready: int, home: Path) -> None:
    """Publish, disable, and delete without end, as a library does it."""
    with opened_records(home) as records:
        store, ledger = SkillStore(home / "skills"), Ledger(records)
        reconcile(store, ledger)
        os.write(ready, b".")
        for turn in count():
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
    """Fork a writer whenever asked, which is faster than a new process; tell its id, and how it ended."""
    while pipe.recv():
        heard, ready = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                busy_writer(ready, home)
            finally:
                os._exit(1)
        os.close(ready)
        os.read(heard, 1)
        os.close(heard)
        pipe.send(child)
        pipe.send(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


@pytest.mark.spec("SKILL-10", "STATE-1")
def test_after_kill_9_at_random_moments_every_skill_is_whole_and_the_records_agree(tmp_path: Path) -> None:
    chance = random.Random(20)
    newest = 0
    with other(nursery, tmp_path) as process:
        for _ in range(KILLS):
            child = process.ask("one more")
            time.sleep(chance.uniform(0, 0.15))  # where the kill falls is the point; nothing is waited for
            os.kill(child, signal.SIGKILL)
            assert process.hear() == -signal.SIGKILL
            newest = max(newest, check_home(tmp_path))
        process.pipe.send(None)
    assert newest > 5  # it did get through its work


def check_home(home: Path) -> int:
    """Everything is whole and agrees after a start; the highest version there is or was."""
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
    """Publish one version whenever told to, on the view of the moment before."""
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
def test_of_two_processes_that_write_one_name_exactly_one_wins(tmp_path: Path) -> None:
    store = SkillStore(tmp_path / "skills")
    with other(one_writer, tmp_path) as first, other(one_writer, tmp_path) as second:
        for current in range(20):
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
    """Read the skill over and over without any lock; tell what was ever wrong."""
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


def test_a_new_version_takes_the_place_of_the_old_in_one_step(tmp_path: Path) -> None:
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
