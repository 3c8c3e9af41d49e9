"""A run whose process is killed at any durable write continues: one result per call, and no effect twice or lost."""

import os
from pathlib import Path

import pytest

from tests.agent.long_script import CALLS, ROUNDS, LongScript, long
from tests.agent.run_kills import Kills, kill_everywhere
from tests.agent.run_script import short


@pytest.mark.slow
@pytest.mark.spec("LOOP-3", "LOOP-5")
@pytest.mark.timeout(1800)
async def test_a_run_killed_before_or_after_any_durable_write_continues(tmp_path: Path) -> None:
    kills = await kill_everywhere(tmp_path, short(), every=2)
    assert kills.count > 15
    assert kills.doubts


@pytest.mark.slow
@pytest.mark.spec("LOOP-3", "LOOP-5", "SWARM-2")
@pytest.mark.timeout(1800)
async def test_a_long_run_killed_at_a_few_durable_writes_continues(tmp_path: Path) -> None:
    kills = await kill_long_runs(tmp_path, every=140, first=35)
    assert kills.count >= 4


@pytest.mark.soak
@pytest.mark.spec("LOOP-3", "LOOP-5", "SWARM-2")
@pytest.mark.timeout(14_400)
async def test_a_long_run_killed_at_every_durable_write_continues(tmp_path: Path) -> None:
    every = int(os.environ.get("SOAK_EVERY", "1"))
    kills = await kill_long_runs(tmp_path, every=every, workers=2)
    assert kills.count >= 2 * (kills.writes // every) - 2 * 20  # the number of writes differs a little from run to run
    print(kills.describe())


async def kill_long_runs(tmp_path: Path, *, every: int, first: int = 1, workers: int = 1) -> Kills:
    rounds = long()
    assert (len(rounds), sum(map(len, rounds))) == (ROUNDS, CALLS)
    return await kill_everywhere(
        tmp_path, rounds, packs=True, every=every, first=first, workers=workers, scripted=lambda home: LongScript()
    )
