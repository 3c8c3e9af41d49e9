"""`kill -9` of the engine at random moments of a call and of `create_skill` leaves no processes and no partial skills."""

import contextlib
import os
import random
import select
import subprocess
import sys
from pathlib import Path

import pytest

from engine import Engine
from tests.eventually import eventually_sync
from tests.skills.parts import ENVIRON_WITHOUT_MUTANTS

ROOT = Path(__file__).parents[2]
SPAN_S = 2.5  # the longest time from ready to the kill, in which about three skills are learned
SHORT, LONG = 4, 100


def processes_with(mark: str) -> list[str]:
    """Return the command lines of running processes that have the mark as an argument."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if mark in words:
                    found.append(f"{folder.name}: {' '.join(words)[:200]}")
    return found


def children_of(parent: int) -> list[int]:
    text = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(pid) for pid in text.split()]


def kill_one(home: Path, mark: str, seed: int) -> None:
    """Start a victim, kill it at a random moment, and check that none of its processes is left."""
    moment = random.Random(seed)
    command = [sys.executable, "-m", "tests.crash.victim", str(home), mark, str(seed)]
    environ = {**os.environ, **ENVIRON_WITHOUT_MUTANTS}
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as victim:
        assert victim.stdout is not None
        if moment.random() < 0.8:
            assert victim.stdout.readline() == b"ready\n"
        select.select([], [], [], moment.uniform(0, SPAN_S))
        helpers = children_of(victim.pid)
        victim.kill()
        victim.communicate()
    eventually_sync(lambda: not processes_with(mark) and not any(os.path.exists(f"/proc/{pid}/exe") for pid in helpers))


async def store_is_whole(home: Path) -> None:
    """Check that the store opens, and that every skill in it was admitted and runs."""
    async with Engine.open(home=home) as engine:
        listed = await engine.call("manage_skills", {"action": "list"})
        assert listed.success, listed.error
        specs = [spec for spec in await engine.get_active_tool_definitions() if spec.origin.value == "acquired"]
        for spec in specs:
            result = await engine.call(spec.name, {"number": 1})
            assert result.success, result.error
            assert spec.description == f"Adds {result.output - 1}."


def residue(home: Path) -> list[str]:
    return [str(path) for path in (home / "acquired_skills" / ".staging").glob("*")]


def mounts(home: Path) -> list[str]:
    """Return the mounts of this machine that a box could have left. Others may change meanwhile."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return [line for line in lines if str(home) in line or line.split()[4] in ("/box", "/work", "/tmp", "/env/0")]


async def left_by_kills(home: Path, count: int, first_seed: int) -> list[str]:
    """Kill engines one after another, use the store after each, and return the files and mounts that they left."""
    before = mounts(home)
    left = []
    for seed in range(first_seed, first_seed + count):
        kill_one(home, f"{os.getpid()}.{seed}", seed)
        await store_is_whole(home)
        left += residue(home)
    return left + [line for line in mounts(home) if line not in before]


@pytest.mark.spec("BOX-4", "SKILL-10")
@pytest.mark.timeout(300)
async def test_an_engine_killed_at_a_random_moment_leaves_nothing_and_no_partial_skill(tmp_path: Path) -> None:
    assert await left_by_kills(tmp_path, SHORT, first_seed=1) == []


@pytest.mark.soak
@pytest.mark.spec("BOX-4", "SKILL-10")
async def test_a_hundred_kills_leave_nothing_and_no_partial_skill(tmp_path: Path) -> None:
    assert await left_by_kills(tmp_path, LONG, first_seed=1000) == []
