"""Processes that work on a run until they are killed at a durable write.

This process imports everything and then forks one victim for each line of its input, so that a victim starts quickly. A
line has the home, the base URL of the model, whether packs are opened, the number of the durable write at which the
victim kills itself (0: never), and whether it does so before or after the commit. The answer is a line of JSON.

A durable write is a commit of a database, or a file that is given its name. What the first victim has imported, this
process imports before it forks the second one.
"""

import asyncio
import importlib
import itertools
import json
import os
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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
    """Counts the durable writes of this process, and kills it at one of them."""

    def __init__(self, number: int, moment: str) -> None:
        self._number = number
        self._before = moment == "before"
        self._numbers = itertools.count(1)
        self._last = 0
        self._armed = False

    def install(self) -> None:
        begin, commit = Records.begin, EntryWriter.commit

        @contextmanager
        def counted(records: Records) -> Iterator[Any]:
            number = self._next()
            with begin(records) as connection:
                yield connection
                self._at(number, before=True)
            self._at(number, before=False)

        def counted_commit(connection: sqlite3.Connection) -> None:
            number = self._next()
            self._at(number, before=True)
            commit(connection)
            self._at(number, before=False)

        Records.begin = counted  # type: ignore[method-assign]
        EntryWriter.commit = staticmethod(counted_commit)  # type: ignore[method-assign]
        os.rename, os.replace = self._counting(os.rename), self._counting(os.replace)

    def _counting(self, rename: Callable[..., None]) -> Callable[..., None]:
        def counted_rename(*args: Any, **options: Any) -> None:
            number = self._next()
            self._at(number, before=True)
            rename(*args, **options)
            self._at(number, before=False)

        return counted_rename

    @property
    def count(self) -> int:
        """How many writes there were."""
        return self._last

    def _next(self) -> int:
        if not self._armed:
            return 0
        self._last = next(self._numbers)
        return self._last

    def _at(self, number: int, *, before: bool) -> None:
        if number and number == self._number and before == self._before:
            os.kill(os.getpid(), signal.SIGKILL)

    def arm(self) -> None:
        self._armed = True


async def work(home: Path, url: str, kill: KillAtWrite, *, packs: bool) -> dict[str, Any]:
    """Begin the run, or resume it, and return its report and how long the first action took.

    The first action is the first request to the model, or the first call. `ms` is the time since the resumption, and
    `ready_ms` the time since the process began to open the home, with everything imported. `cpu_ms` is the processor time
    within the latter, which does not depend on what else the machine does.
    """
    ready, used = time.perf_counter(), time.process_time()
    model = {"name": "scripted", "base_url": url, "timeout_s": 20.0}
    budget = {"turns": 200, "tool_calls": 500}
    settings = Settings.model_validate({"model": model, "budget": budget, "policy": {"approval": "destructive"}})
    first: list[tuple[float, float]] = []

    def on_event(event: Event) -> None:
        if isinstance(event, TurnStarted | CallStarted):
            first.append((time.perf_counter(), time.process_time()))

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
                return {"finish": "ended", "answer": ""}  # killed after its last write
            else:
                report = await conversation.run(MESSAGE)
    told = {"finish": report.finish.value, "answer": report.answer, "writes": kill.count}
    if first and open_runs:
        acted, used_then = first[0]
        times = {"ms": acted - began, "ready_ms": acted - ready, "cpu_ms": used_then - used}
        told |= {name: seconds * 1000 for name, seconds in times.items()}
    return told


def main() -> None:
    warm = False
    for line in sys.stdin:
        home, url, packs, number, moment = line.split()
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            kill = KillAtWrite(int(number), moment)
            kill.install()
            report = asyncio.run(work(Path(home), url, kill, packs=packs == "packs"))
            with os.fdopen(writer, "w") as out:
                json.dump(report | {"modules": sorted(sys.modules)}, out)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as answer:
            told = answer.read()
        os.waitpid(pid, 0)
        report = json.loads(told) if told else {"finish": "killed"}
        modules = report.pop("modules", [])
        if not warm and modules:
            import_all(modules)
            warm = True
        print(json.dumps(report), flush=True)


def import_all(modules: list[str]) -> None:
    for name in modules:
        with suppress(ImportError):  # some modules are made by others, not found by their names
            importlib.import_module(name)


if __name__ == "__main__":
    main()
