"""Collects the tests once and runs them in forks, each with a different replacement for the skill.

This module runs in the box. A worker process imports and collects the tests. Every run is a fork of that process,
because `pytest.main` takes at least 47 ms. The subclasses, in `acquired_skills.in_box.harness` and
`acquired_skills.in_box.judge`, decide what replaces the skill and what is reported.

The job's folder contains `pytest.ini` and `skill/test_<name>.py`. For a new version of a skill, it also contains
`earlier/test_<name>.py`, the tests of the previous version.
"""

import contextlib
import datetime as dt
import inspect
import json
import os
import random
import select
import signal
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.in_box.call_data import keep_only
from acquired_skills.in_box.call_files import TEMPORARY, clear_files, write_files
from acquired_skills.in_box.fake_skill import enter_folder
from acquired_skills.in_box.fixed_clock import FixedClock
from acquired_skills.in_box.function_forms import run_coroutine_test
from acquired_skills.in_box.recorded_tools import RecordedTools

MAX_TEXT = 2_000
_QUIET = ("cacheprovider", "junitxml", "pastebin", "stepwise", "doctest", "faulthandler")


def supervised(begin: Callable[[int], "Runner"], deadline: float) -> dict[str, Any]:
    """Run a worker process and return everything that it sent.

    Returns:
        ``runs``: the results of all runs ([{kind, results: {id: {outcome, text, seconds}}}]). ``phase``: the last phase
        that the worker reached. ``unknown``: calls without an answer (see `acquired_skills.in_box.judge`). ``tests``:
        the ids of the tests. The other keys are ``collection_errors``, ``done`` and, if the worker ended early,
        ``ended`` (how it ended). Subclasses of `Runner` may send more.
    """
    source, sink = os.pipe()
    worker = os.fork()
    if worker == 0:
        keep_only(sink)
        with exiting():
            begin(sink).work()
    os.close(sink)
    facts: dict[str, Any] = {"runs": [], "unknown": [], "phase": "import"}
    for message in messages(source, lambda: deadline + 1 - time.monotonic()):
        if message is None:
            break
        facts["runs"] += message.pop("run", [])
        facts["unknown"] += message.pop("unknown", [])
        facts.update(message)
    if not facts.get("done"):
        out_of_time = time.monotonic() >= deadline
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        status = os.waitpid(worker, 0)[1]
        facts["ended"] = "time" if out_of_time else exit_description(status)
    return facts


class Runner(ABC):
    """Runs the collected tests in forks of this process.

    Attributes:
        here: The job's folder.
        own: The working directory, separate so that the tests do not find Knackbox's files by accident.
        seed: The seed of the random numbers that the tests draw. A test draws the same numbers in every run.
        keeps_files: Whether the files that one test leaves behind are kept for the next test.
        clock: The clock that skill and tests read. Tests fix its time with the fixture `clock`.
        tools: The tools that the skill declares, if any. Tests state their answers with the fixture `tools`.
    """

    def __init__(self, name: str, sink: int, deadline: float, declared: Sequence[str] = ()) -> None:
        self.here = Path.cwd()
        self.own = self.here / "own"
        self.name = name
        self.sink = sink
        self.deadline = deadline
        self.seed = 0
        self.keeps_files = False
        self.clock = FixedClock()
        self.tools = RecordedTools(declared) if declared else None
        self.reports: list[pytest.TestReport] = []
        self.errors: list[str] = []

    @abstractmethod
    def prepare(self) -> bool:
        """Install the replacement for the skill. Return False if the tests must not run."""

    @abstractmethod
    def runs(self, items: list[pytest.Item]) -> None:
        """Run the tests as often as this kind of runner needs, each time with `run`."""

    @abstractmethod
    def select(self, kind: str) -> None:
        """Select the replacement for the skill in this run. This is called in the fork."""

    def before_test(self, item: pytest.Item) -> None:  # noqa: B027 -- optional
        """Prepare for the next test. This is called in the fork, before each test."""

    def annotated(self, result: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a test, possibly with further facts about the test. This is called in the fork."""
        return result

    def final_report(self) -> dict[str, Any]:
        """Return what the fork reports when it ends. This is called in the fork."""
        return {}

    def work(self) -> None:
        sys.dont_write_bytecode = True
        sys.path[:] = [str(self.here / "skill"), *(p for p in sys.path if p not in (str(self.here), ""))]
        enter_folder(self.own)
        folders = [folder for folder in ("skill", "earlier") if (self.here / folder).is_dir()]
        files = [path for folder in folders if (path := self.here / folder / f"test_{self.name}.py").is_file()]
        if any(b"clock" in path.read_bytes() for path in files):
            self.clock.install()  # before any code imports functions of `time`
        if self.tools is not None:
            self.tools.install()
        if not self.prepare():
            return
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  (pytest's own report; lives as long as the process)
        options = ["-q", "--tb=short", "--noconftest", "--import-mode=importlib", "--capture=sys"]
        # The base is the same path in every box.
        options += [f"--rootdir={self.here}", f"--basetemp={self.own / TEMPORARY}"]
        blocked = [part for plugin in _QUIET for part in ("-p", f"no:{plugin}")]
        send(self.sink, phase="collection")
        self.collected = False
        code = pytest.main(["-c", str(self.here / "pytest.ini"), *options, *blocked, *map(str, files)], plugins=[self])
        if not self.collected and not self.errors:
            self.errors.append(f"pytest stopped with {code!r} before it ran a test")
        send(self.sink, collection_errors=self.errors, done=True)

    @pytest.fixture(name="clock")
    def _clock_of_test(self) -> Iterator[Callable[[str | dt.date], None]]:
        """Provide the function that fixes the time for the rest of the test, as in `clock("2026-03-01T09:30")`."""
        yield self.clock.fix
        self.clock.release()

    @pytest.fixture(name="tools")
    def _tools_of_test(self) -> Iterator[RecordedTools]:
        """Provide the object that states what tools answer, as in `tools.answers(RECORDED)`."""
        if self.tools is None:
            raise RuntimeError(
                "The fixture `tools` is for skills that call tools: declare them in the PEP 723 block of the code, "
                'with `# [tool.knackbox]` and `# tools = ["file_system"]`.'
            )
        yield self.tools
        self.tools.release()

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(shorten(report.longreprtext))
        elif report.skipped:
            self.errors.append(f"{report.nodeid or 'the test module'} skips itself while it is collected")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.collected = True
        send(self.sink, tests=[item.nodeid for item in session.items], phase="tests")
        if not self.errors and any(item.nodeid.startswith("skill/") for item in session.items):
            self.runs(session.items)
        return True

    def run(self, kind: str, items: list[pytest.Item], seconds: float) -> dict[str, dict[str, Any]]:
        """Run the tests in a fork. When a test hangs or ends its process, run the remaining tests in another fork."""
        results: dict[str, dict[str, Any]] = {}
        left = items
        while left and time.monotonic() < self.deadline:
            progressed = len(results)
            self._fork(kind, left, seconds, results)
            left = [item for item in left if item.nodeid not in results]
            if len(results) == progressed or self.is_enough(kind, results):
                break
        send(self.sink, run=[{"kind": kind, "results": results}])
        return results

    def is_enough(self, kind: str, results: dict[str, dict[str, Any]]) -> bool:  # noqa: ARG002 -- for subclasses
        """Return whether the results so far are enough, so that the remaining tests can be skipped."""
        return False

    def _fork(self, kind: str, items: list[pytest.Item], seconds: float, results: dict[str, dict[str, Any]]) -> None:
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(source)
            os.close(self.sink)
            with exiting():
                write_files(self.own, {})  # a failed run leaves its temporary folders behind
                enter_folder(self.own)
                self.select(kind)
                self._run_here(kind, items, sink)
        os.close(sink)
        began, current = time.monotonic(), None

        def left() -> float:
            return min(began + seconds, self.deadline) - time.monotonic()

        for message in messages(source, left):
            if message is None:
                if current is not None:
                    results[current] = {"outcome": "timeout", "text": "", "seconds": time.monotonic() - began}
                break
            if "start" in message:
                began, current = time.monotonic(), message["start"]
            elif "id" in message:
                results[message["id"]], current = message["result"], None
            else:
                send(self.sink, **message)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if current is not None and current not in results:
            results[current] = {
                "outcome": "exited",
                "text": exit_description(status),
                "seconds": time.monotonic() - began,
            }

    def _run_here(self, kind: str, items: list[pytest.Item], sink: int) -> None:
        results: dict[str, dict[str, Any]] = {}
        for item, following in zip(items, [*items[1:], None], strict=True):
            send(sink, start=item.nodeid)
            self.reports.clear()
            random.seed(f"{self.seed} {item.nodeid}")
            if not self.keeps_files:
                clear_files(self.own)
            self.before_test(item)
            began = time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            result = self.annotated({**_outcome(self.reports), "seconds": time.monotonic() - began})
            send(sink, id=item.nodeid, result=result)
            results[item.nodeid] = result
            if self.is_enough(kind, results):
                break
        final = self.final_report()
        if final:
            send(sink, **final)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        names = inspect.signature(pyfuncitem.obj).parameters
        given = {name: pyfuncitem.funcargs[name] for name in names if name in pyfuncitem.funcargs}
        return run_coroutine_test(pyfuncitem.obj, given) or None

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)


def _outcome(reports: list[pytest.TestReport]) -> dict[str, str]:
    """Combine the reports of a test's set-up, call and tear-down. The test passed only if all three passed."""
    for report in reports:
        if report.failed:
            return {"outcome": "failed", "text": shorten(report.longreprtext)}
    for report in reports:
        if hasattr(report, "wasxfail"):
            return {"outcome": "xfail", "text": ""}
        if report.skipped:
            return {"outcome": "skipped", "text": ""}
    phases = [report.when for report in reports if not hasattr(report, "context")]  # which reports of sub-tests have
    return {"outcome": "passed" if phases == ["setup", "call", "teardown"] else "unreported", "text": ""}


@contextlib.contextmanager
def exiting() -> Iterator[None]:
    """Ensure that a forked process never returns into its parent's code."""
    status = 1
    try:
        yield
        status = 0
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else 1
    except BaseException:  # noqa: BLE001  (reported on stderr; the parent sees the missing reports)
        traceback.print_exc()
    finally:
        os._exit(status & 0xFF)


def send(sink: int, **message: Any) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(sink, data) :]


def messages(source: int, seconds_left: Callable[[], float]) -> Iterator[dict[str, Any] | None]:
    """Yield messages until the other side closes the pipe. If time runs out first, yield None last."""
    pending = b""
    try:
        while True:
            if not select.select([source], [], [], max(0.0, seconds_left()))[0]:
                yield None
                return
            data = os.read(source, 1 << 16)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                yield json.loads(line)
    finally:
        os.close(source)


def exit_description(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"


def shorten(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[: MAX_TEXT // 3]}\n…\n{text[-2 * MAX_TEXT // 3 :]}"
