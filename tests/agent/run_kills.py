"""Kills a run at each of its durable writes, one at a time, resumes it, and compares it with an uninterrupted run."""

import asyncio
import itertools
import json
import re
import shutil
import sqlite3
import statistics
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from engine.agent.prompt.instructions import RESUMED
from tests.agent.long_script import effects_of
from tests.agent.run_script import Call, Script, progress_of, rounds_of, task_of
from tests.agent.run_tools import Effects
from tests.agent.run_victims import MESSAGE
from tests.agent.scripted_model import Scripted, ScriptedModel, serving

REPOSITORY = Path(__file__).parents[2]
ANSWER_S = 240.0
_IDS = re.compile(r"\b[0-9a-f]{8,}\b")
_REPEATED = "These tasks have been delegated before. To do them again, use another key.\n"


@dataclass
class Kills:
    """What many kills of a run have shown.

    Attributes:
        writes: The durable writes of the uninterrupted run.
        count: How often a run was killed.
        doubts: After how many kills the outcome of a call was unknown.
        ms: For each run that was resumed, the time from the resumption to the first action.
        ready_ms: The same from the moment at which its process, with everything imported, began to open the home.
        cpu_ms: The processor time within the latter.
    """

    writes: int = 0
    count: int = 0
    doubts: int = 0
    ms: list[float] = field(default_factory=list)
    ready_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)

    def describe(self) -> str:
        return (
            f"{self.writes} writes, {self.count} kills, {self.doubts} with an unknown outcome; first action "
            f"{_percentiles(self.ms)} after the resumption, {_percentiles(self.ready_ms)} after the process was ready, "
            f"of which it used the processor for {_percentiles(self.cpu_ms)}"
        )


class Victims:
    """Forks victims that work on the run of a home."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def work(
        self, home: Path, model_url: str, number: int = 0, moment: str = "after", *, packs: bool = False
    ) -> dict[str, Any]:
        """Let a victim work until it is killed before or after a write; 0: to the end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = f"{home} {model_url} {'packs' if packs else 'none'} {number} {moment}\n"
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


async def kill_everywhere(
    tmp_path: Path,
    rounds: Sequence[Sequence[Call]],
    *,
    packs: bool = False,
    every: int = 1,
    first: int = 1,
    workers: int = 1,
    scripted: Callable[[Path], Scripted] | None = None,
    check: Callable[[Path, ScriptedModel], None] = lambda home, model: None,
) -> Kills:
    """Kill a run before and after each durable write (or every n-th one), resume it, and check the result.

    Args:
        tmp_path: A folder for the homes.
        rounds: The calls that the model makes.
        packs: Whether packs are opened.
        every: Kill only at every n-th write.
        first: The first write at which it is killed.
        workers: How many runs are worked on at the same time.
        scripted: Returns the model of a home; None for one that only makes the calls.
        check: A further check of each run that has ended.
    """
    scripted = scripted or (lambda home: Script(rounds))
    kills = Kills()
    numbers = itertools.count(first, every)
    enough = asyncio.Event()

    async def one(each: Victims, number: int, moment: str) -> None:
        home = tmp_path / f"{moment}-{number}"
        async with serving(scripted(home)) as model:
            killed = await each.work(home, model.base_url, number, moment, packs=packs)
            if killed["finish"] != "killed":  # the run has fewer writes
                enough.set()
                return
            report = await each.work(home, model.base_url, packs=packs)
        where = f"killed {moment} write {number}"
        assert report["finish"] in ("answer", "ended"), (where, report)
        assert sorted(Effects(home).all()) == effects_of(rounds), where
        check(home, model)
        kills.doubts += compare(last_request(model), expected, where)
        assert_one_result_per_call(home / "runs.db", where)
        kills.count += 1
        if "ms" in report:
            kills.ms.append(report["ms"])
            kills.ready_ms.append(report["ready_ms"])
            kills.cpu_ms.append(report["cpu_ms"])
        shutil.rmtree(home)

    async def work(each: Victims) -> None:
        while not enough.is_set():
            number = next(numbers)
            for moment in ("before", "after"):
                await one(each, number, moment)

    async def begin() -> None:
        async with victims() as each:
            await each.work(tmp_path / f"warm-{id(each)}", whole.base_url, packs=packs)
            await work(each)

    async with serving(scripted(tmp_path / "whole")) as whole, victims() as each:
        report = await each.work(tmp_path / "whole", whole.base_url, packs=packs)
        assert (report["finish"], report["answer"]) == ("answer", "All done.")
        kills.writes = report["writes"]
        expected = last_request(whole)
        check(tmp_path / "whole", whole)
        async with asyncio.TaskGroup() as group:
            group.create_task(work(each))
            for _ in range(workers - 1):
                group.create_task(begin())
    return kills


def last_request(model: ScriptedModel) -> dict[str, Any]:
    """Return the last request of the run itself, which has the whole conversation except the answer."""
    return next(body for body in reversed(model.requests) if task_of(body) == MESSAGE)


def compare(found: dict[str, Any], expected: dict[str, Any], where: str) -> bool:
    """Compare the conversation of a resumed run with that of an uninterrupted one.

    They are equal, apart from the message that the run was resumed, and from rounds that clear up what happened to a
    call. If a call is only known to have had its effect, its result is not compared.

    Returns:
        Whether there were such rounds.
    """
    assert_each_call_has_one_result(found["messages"], where)
    assert said_by_users(found) == said_by_users(expected), where
    progress, usual = (progress_of(rounds_of(body["messages"])) for body in (found, expected))
    assert not progress.remedy, where
    assert len(progress.settled) == len(usual.settled), where
    for made, wanted in zip(progress.settled, usual.settled, strict=True):
        for (call, said), (wanted_call, wanted_result) in zip(made, wanted, strict=True):
            assert _plain(call) == _plain(wanted_call), where
            assert said is None or _plain_result(said) == _plain_result(wanted_result or ""), where
    return progress.detours > 0


def said_by_users(body: dict[str, Any]) -> list[Any]:
    """Return the messages of the user in a request, without those that say that the run was interrupted."""
    said = [each["content"] for each in body["messages"] if each["role"] in ("user", "system")]
    return [each for each in said if each != RESUMED]


def assert_each_call_has_one_result(messages: Sequence[dict[str, Any]], where: str) -> None:
    """Check that each call in a conversation has one result, directly after the response that made it."""
    open_: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            assert message["tool_call_id"] in open_, where
            open_.remove(message["tool_call_id"])
            continue
        assert not open_, where
        open_ = [each["id"] for each in message.get("tool_calls") or ()]
    assert not open_, where


def assert_one_result_per_call(file: Path, where: str) -> None:
    """Check that the journal has one result for each call, and one end for each run."""
    query = "SELECT run, entry FROM run_entries ORDER BY run, seq"
    results: Counter[tuple[str, int, int]] = Counter()
    ends: Counter[str] = Counter()
    wanted: set[tuple[str, int, int]] = set()
    response = 0
    with closing(sqlite3.connect(file)) as connection:
        for run, text in connection.execute(query):
            entry = json.loads(text)
            match entry["kind"]:
                case "response":
                    response += 1
                    wanted |= {(run, response, at) for at in range(len(entry["calls"]))}
                case "result":
                    results[run, response, entry["call"]] += 1
                case "ended":
                    ends[run] += 1
        runs = [run for (run,) in connection.execute("SELECT id FROM runs")]
    assert results == Counter(dict.fromkeys(wanted, 1)), where
    assert ends == Counter(runs), where


def _plain(call: Call) -> Call:
    name, given = call
    return name, {key: value for key, value in given.items() if key != "attempt"}


def _plain_result(said: str) -> str:
    """Return a result without the ids of runs, and without the remark that a swarm was started by an earlier call."""
    return _IDS.sub("ID", said.removeprefix(_REPEATED))


def _percentiles(times: Sequence[float]) -> str:
    if len(times) < 2:
        return "-"
    p95 = statistics.quantiles(times, n=20, method="inclusive")[-1]
    return (
        f"{statistics.median(times):.0f} ms at the median, {p95:.0f} at the 95th percentile, {max(times):.0f} at most"
    )
