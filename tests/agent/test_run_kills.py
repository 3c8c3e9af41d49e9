"""A run whose process is killed at any durable write continues: one result per call, and no effect twice or lost."""

import asyncio
import itertools
import json
import shutil
import statistics
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.agent.run_script import DOUBT, Call, Script, long, rounds_of, short
from tests.agent.run_tools import Effects
from tests.agent.scripted_model import Scripted, ScriptedModel, serving

REPOSITORY = Path(__file__).parents[2]
ANSWER_S = 120.0


class Victims:
    """Forks victims that work on the run of a home."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def work(
        self, home: Path, model: ScriptedModel, number: int = 0, moment: str = "after", *, packs: bool = False
    ) -> dict[str, Any]:
        """Let a victim work until it is killed before or after a write; 0: to the end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = f"{home} {model.base_url} {'packs' if packs else 'none'} {number} {moment}\n"
        self._process.stdin.write(line.encode())
        async with asyncio.timeout(ANSWER_S):
            answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return answer


@asynccontextmanager
async def victims() -> AsyncIterator[Victims]:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "tests.agent.run_victims"]
    process = await asyncio.create_subprocess_exec(*command, cwd=REPOSITORY, stdin=pipe, stdout=pipe)
    try:
        yield Victims(process)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        async with asyncio.timeout(ANSWER_S):
            await process.wait()


def transcript(model: ScriptedModel) -> list[tuple[list[Call], list[str]]]:
    """Return the rounds of the conversation, as the last request contained them."""
    return rounds_of(model.requests[-1]["messages"])


def effects_of(rounds: Sequence[Sequence[Call]]) -> list[str]:
    changing = ("pay", "send", "drop")
    return sorted(f"{name} {given['n']}" for made in rounds for name, given in made if name in changing)


def without_doubt(found: Sequence[tuple[list[Call], list[str]]]) -> bool:
    return not any(each in said for _, results in found for said in results for each in DOUBT)


async def kill_everywhere(
    tmp_path: Path,
    rounds: Sequence[Sequence[Call]],
    *,
    packs: bool = False,
    every: int = 1,
    scripted: Callable[[Path], Scripted] | None = None,
    check: Callable[[Path, ScriptedModel], None] = lambda home, model: None,
) -> list[float]:
    """Kill a run before and after each durable write (or every n-th one), resume it, and check the result.

    Args:
        tmp_path: A folder for the homes.
        rounds: The calls that the model makes.
        packs: Whether packs are opened.
        every: Kill only at every n-th write.
        scripted: Returns the model of a home; None for one that only makes the calls.
        check: A further check of each run that has ended.

    Returns:
        For each kill, the milliseconds from the resumption to the first action.
    """
    times: list[float] = []
    scripted = scripted or (lambda home: Script(rounds))
    async with victims() as each:
        async with serving(scripted(tmp_path / "whole")) as model:
            report = await each.work(tmp_path / "whole", model, packs=packs)
            assert (report["finish"], report["answer"]) == ("answer", "All done.")
            expected = transcript(model)
            check(tmp_path / "whole", model)
        for number in itertools.count(1, every):
            for moment in ("before", "after"):
                home = tmp_path / f"{moment}-{number}"
                async with serving(scripted(home)) as model:
                    killed = await each.work(home, model, number, moment, packs=packs)
                    if killed["finish"] != "killed":  # the run has fewer writes
                        return times
                    report = await each.work(home, model, packs=packs)
                    found = transcript(model)
                where = f"killed {moment} write {number}"
                assert report["finish"] in ("answer", "ended"), where
                assert sorted(Effects(home).all()) == effects_of(rounds), where
                assert found == expected or not without_doubt(found), where
                check(home, model)
                times.append(report["ms"])
                shutil.rmtree(home)
    return times


@pytest.mark.slow
@pytest.mark.spec("LOOP-3", "LOOP-5")
@pytest.mark.timeout(1800)
async def test_a_run_killed_before_or_after_any_durable_write_continues(tmp_path: Path) -> None:
    times = await kill_everywhere(tmp_path, short())
    assert len(times) > 20


@pytest.mark.soak
@pytest.mark.spec("LOOP-3", "LOOP-5")
@pytest.mark.timeout(7200)
async def test_a_long_run_with_a_kernel_killed_at_every_durable_write_continues(tmp_path: Path) -> None:
    times = await kill_everywhere(tmp_path, long(), packs=True)
    assert len(times) > 200
    print(
        f"{len(times)} kills; resumed within {statistics.median(times):.0f} ms at the median, {max(times):.0f} at most"
    )
