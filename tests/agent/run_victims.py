"""Processes that work on a run until they are killed at a durable write.

This process imports everything and then forks one victim for each line of its input, so that a victim starts quickly. A
line has the home, the base URL of the model, whether packs are opened, the number of the durable write at which the
victim kills itself (0: never), and whether it does so before or after the commit. The answer is a line of JSON.
"""

import asyncio
import itertools
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from engine import Engine
from engine.agent.events import CallStarted, Event, TurnStarted
from engine.app.conversation import open_conversation, runs_of
from engine.app.people import People
from engine.app.settings import Settings
from engine.stores.entry_writer import EntryWriter
from engine.stores.records import Records
from tests.agent.run_tools import Approving, Effects, source

MESSAGE = "Do all of it."


class KillAtWrite:
    """Counts the commits of every database in this process, and kills the process at one of them."""

    def __init__(self, number: int, moment: str) -> None:
        self._number = number
        self._before = moment == "before"
        self._count = itertools.count(1)
        self._armed = False

    def install(self) -> None:
        begin, armed = Records.begin, self

        @contextmanager
        def counted(records: Records) -> Iterator[Any]:
            number = next(armed._count) if armed._armed else 0
            with begin(records) as connection:
                yield connection
                if number and number == armed._number and armed._before:
                    os.kill(os.getpid(), signal.SIGKILL)
            if number and number == armed._number:
                os.kill(os.getpid(), signal.SIGKILL)

        commit = EntryWriter.commit

        def counted_commit(connection: sqlite3.Connection) -> None:
            number = next(armed._count) if armed._armed else 0
            if number and number == armed._number and armed._before:
                os.kill(os.getpid(), signal.SIGKILL)
            commit(connection)
            if number and number == armed._number:
                os.kill(os.getpid(), signal.SIGKILL)

        Records.begin = counted  # type: ignore[method-assign]
        EntryWriter.commit = staticmethod(counted_commit)  # type: ignore[method-assign]

    def arm(self) -> None:
        self._armed = True


async def work(home: Path, url: str, kill: KillAtWrite, *, packs: bool) -> dict[str, Any]:
    """Begin the run, or resume it, and return its report and how long the first action took."""
    model = {"name": "scripted", "base_url": url, "timeout_s": 3.0}
    budget = {"turns": 200, "tool_calls": 500}
    settings = Settings.model_validate({"model": model, "budget": budget, "policy": {"approval": "destructive"}})
    first: list[float] = []

    def on_event(event: Event) -> None:
        if isinstance(event, TurnStarted | CallStarted):
            first.append(time.perf_counter())

    people = People(approver=Approving())
    sources = [source(Effects(home))]
    async with Engine.open(home, settings=settings, sources=sources, packs=packs, people=people, environ={}) as engine:
        open_runs = engine.runs.interrupted()
        async with open_conversation(engine, on_event=on_event) as conversation:
            kill.arm()
            began = time.perf_counter()
            if open_runs:
                report = await conversation.resume(await runs_of(engine).open(open_runs[0]))
            elif engine.runs.recent():
                return {"finish": "ended", "answer": "", "ms": 0.0}  # killed after its last write
            else:
                report = await conversation.run(MESSAGE)
    resumed_ms = (first[0] - began) * 1000 if first and open_runs else 0.0
    return {"finish": report.finish.value, "answer": report.answer, "ms": resumed_ms}


def main() -> None:
    for line in sys.stdin:
        home, url, packs, number, moment = line.split()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            kill = KillAtWrite(int(number), moment)
            kill.install()
            report = asyncio.run(work(Path(home), url, kill, packs=packs == "packs"))
            os.write(writer, json.dumps(report).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            told = answer.read()
        os.waitpid(pid, 0)
        print(told or json.dumps({"finish": "killed"}), flush=True)


if __name__ == "__main__":
    main()
