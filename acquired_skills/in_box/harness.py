"""In the box: import a proposed skill, derive its schema, and run its tests against stubs and against itself.

`admit` only gathers facts; the verdict is made outside, in `acquired_skills.admission.gate`. The tests are collected
once, by a worker process; every run is a fork of it, because `pytest.main` in each would cost 47 ms and more. The test
module sees the skill through a switch, so a fork can put a stub in its place after collection.

In the job's folder lie this package, `pytest.ini`, `skill/<name>.py`, `skill/test_<name>.py`, and for a new version
`earlier/test_<name>.py`, the tests of the version before.
"""

import contextlib
import importlib
import json
import os
import random
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.in_box.mutation import Mutation
from acquired_skills.in_box.skill_arguments import NotDescribable, describe
from acquired_skills.in_box.switch import Switch

HERE = Path(__file__).resolve().parents[2]  # the job's folder
STUBS = ("raises", "none", "sentinel")
FAILED = ("failed", "timeout", "exited")
MAX_TEXT = 2_000
_QUIET = ("cacheprovider", "junitxml", "pastebin", "stepwise", "doctest", "faulthandler", "debugging")


def admit(name: str, seed: int, effort: dict[str, Any]) -> dict[str, Any]:
    """Everything found out about the proposal, as JSON.

    seed: of the random test order, and of the choice of mutants. effort: the fields of `Effort`.
    Keys, where it came so far: ``import_error``, ``schema`` or ``schema_error``, ``collection_errors``, ``tests``
    (ids), ``runs`` ([{kind, results: {id: {outcome, text, seconds}}}]), ``returned`` ({unsendable?, typed?, missed,
    calls}, as the switch and its recorder give them), ``mutation`` (as `Mutation.meet` gives it), ``done``; and when
    the worker ended by itself, ``ended`` (how) and ``phase`` (in what).
    """
    spend = Effort(**effort)
    deadline = time.monotonic() + spend.total_s
    source, sink = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(source)
        with _leaving():
            _Worker(name, sink, deadline, seed, spend).work()
    os.close(sink)
    facts: dict[str, Any] = {"runs": [], "phase": "import"}
    for message in _messages(source, lambda: deadline + 1 - time.monotonic()):
        if message is None:
            break
        facts["runs"] += message.pop("run", [])
        facts.update(message)
    if not facts.get("done"):
        out_of_time = time.monotonic() >= deadline
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
        status = os.waitpid(worker, 0)[1]
        facts["ended"] = "time" if out_of_time else _how(status)
    return facts


class _Worker:
    """The process that has the skill imported and its tests collected."""

    def __init__(self, name: str, sink: int, deadline: float, seed: int, effort: Effort) -> None:
        self.name = name
        self.sink = sink
        self.deadline = deadline
        self.seed = seed
        self.effort = effort
        self.reports: list[pytest.TestReport] = []

    def work(self) -> None:
        function = self._import()
        if function is None:
            return
        self.switch = Switch(sys.modules[self.name], self.name, function)
        self.errors: list[str] = []
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  (pytest's own report; lives as long as the process)
        options = ["-q", "--tb=short", "--noconftest", "--import-mode=importlib", "--capture=sys", f"--rootdir={HERE}"]
        blocked = [part for plugin in _QUIET for part in ("-p", f"no:{plugin}")]
        folders = [folder for folder in ("skill", "earlier") if (HERE / folder).is_dir()]
        files = [str(HERE / folder / f"test_{self.name}.py") for folder in folders]
        _send(self.sink, phase="collection")
        self.collected = False
        code = pytest.main(["-c", str(HERE / "pytest.ini"), *options, *blocked, *files], plugins=[self])
        if not self.collected and not self.errors:
            self.errors.append(f"pytest stopped with {code!r} before it ran a test")
        _send(self.sink, collection_errors=self.errors, done=True)

    def _import(self) -> Callable[..., Any] | None:
        sys.dont_write_bytecode = True
        sys.path[:] = [str(HERE / "skill"), *(p for p in sys.path if p not in (str(HERE), ""))]
        own = HERE / "own"  # an empty folder to be in, so that no file of ours is found by accident
        own.mkdir(exist_ok=True)
        os.chdir(own)
        try:
            function: Callable[..., Any] = getattr(importlib.import_module(self.name), self.name)
            if not callable(function):
                raise TypeError(f"`{self.name}` is a {type(function).__name__} after the import, not a function")  # noqa: TRY301
        except BaseException as problem:  # noqa: BLE001  (whatever the proposal raised is the finding)
            frames = traceback.format_exception(problem)
            _send(self.sink, import_error=_shorten("".join(frames[:1] + frames[-3:])), done=True)
            return None
        try:
            _send(self.sink, schema=describe(function))
        except NotDescribable as problem:
            _send(self.sink, schema_error=_shorten(str(problem)))
        except Exception as problem:  # noqa: BLE001  (annotations are code of the proposal and may do anything)
            _send(self.sink, schema_error=f"{type(problem).__name__}: {problem}"[:MAX_TEXT])
        return function

    @pytest.hookimpl
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.errors.append(_shorten(report.longreprtext))
        elif report.skipped:
            self.errors.append(f"{report.nodeid or 'the test module'} skips itself while it is collected")

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.collected = True
        _send(self.sink, tests=[item.nodeid for item in session.items], phase="tests")
        own = [item for item in session.items if item.nodeid.startswith("skill/")]
        if not self.errors and own:
            self._red(own)
            took = self._green(session.items, self.seed) and self._green(session.items, self.seed + 1)
            if took:
                self._mutate(sorted(session.items, key=lambda item: took[item.nodeid]), sum(took.values()))
        return True

    def _red(self, items: list[pytest.Item]) -> None:
        """Each stub in turn, only for the tests that no stub has failed yet."""
        left = items
        for stub in STUBS:
            results = self._run(stub, left, self.effort.stub_test_s)
            left = [item for item in left if results.get(item.nodeid, {}).get("outcome") not in FAILED]
            if not left:
                return

    def _mutate(self, quickest: list[pytest.Item], usual_s: float) -> None:
        """Mutants of the skill in its place."""
        effort = self.effort
        if effort.threshold:
            mutation = Mutation(HERE / "skill" / f"{self.name}.py", self.switch, most=effort.mutants, seed=self.seed)
            left = self.deadline - time.monotonic()
            _send(self.sink, mutation=mutation.meet(quickest, usual_s, min(effort.mutants_s, left)))

    def _green(self, items: list[pytest.Item], seed: int) -> dict[str, float]:
        """What each took, seconds; nothing when not all of them passed."""
        shuffled = list(items)
        random.Random(seed).shuffle(shuffled)  # noqa: S311  (an order, not a secret)
        results = self._run("skill", shuffled, self.effort.test_s)
        passed = len(results) == len(items) and all(one["outcome"] == "passed" for one in results.values())
        return {test: one["seconds"] for test, one in results.items()} if passed else {}

    def _run(self, kind: str, items: list[pytest.Item], seconds: float) -> dict[str, dict[str, Any]]:
        """Run the items in forks: one, and another for the rest whenever a test hangs or ends its process."""
        results: dict[str, dict[str, Any]] = {}
        left = items
        while left and time.monotonic() < self.deadline:
            progressed = len(results)
            self._fork(kind, left, seconds, results)
            left = [item for item in left if item.nodeid not in results]
            if len(results) == progressed:
                break
        _send(self.sink, run=[{"kind": kind, "results": results}])
        return results

    def _fork(self, kind: str, items: list[pytest.Item], seconds: float, results: dict[str, dict[str, Any]]) -> None:
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(source)
            os.close(self.sink)
            with _leaving():
                self.switch.turn(kind)
                self._run_here(items, sink)
        os.close(sink)
        began, current = time.monotonic(), None

        def left() -> float:
            return min(began + seconds, self.deadline) - time.monotonic()

        for message in _messages(source, left):
            if message is None:
                if current is not None:
                    results[current] = {"outcome": "timeout", "text": "", "seconds": time.monotonic() - began}
                break
            if "start" in message:
                began, current = time.monotonic(), message["start"]
            elif "returned" in message:
                _send(self.sink, **message)
            else:
                results[message["id"]], current = message["result"], None
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        if current is not None and current not in results:
            results[current] = {"outcome": "exited", "text": _how(status), "seconds": time.monotonic() - began}

    def _run_here(self, items: list[pytest.Item], sink: int) -> None:
        if self.switch.stubbed:
            items[0].config.option.tbstyle = "no"  # nobody reads why a stub fails, and the text takes 20 ms a test
        for item, following in zip(items, [*items[1:], None], strict=True):
            _send(sink, start=item.nodeid)
            self.reports.clear()
            began = time.monotonic()
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            result = {**_outcome(self.reports), "seconds": time.monotonic() - began}
            _send(sink, id=item.nodeid, result=result)
        if not self.switch.stubbed:
            calls = self.switch.recorder
            _send(sink, returned={**self.switch.returned, "missed": calls.missed, "calls": calls.calls()})

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.reports.append(report)


def _outcome(reports: list[pytest.TestReport]) -> dict[str, str]:
    """One outcome of the reports of set-up, call and tear-down: passed only if there are three that passed."""
    for report in reports:
        if report.failed:
            return {"outcome": "failed", "text": _shorten(report.longreprtext)}
    for report in reports:
        if hasattr(report, "wasxfail"):
            return {"outcome": "xfail", "text": ""}
        if report.skipped:
            return {"outcome": "skipped", "text": ""}
    phases = [report.when for report in reports]
    return {"outcome": "passed" if phases == ["setup", "call", "teardown"] else "unreported", "text": ""}


@contextlib.contextmanager
def _leaving() -> Iterator[None]:
    """A forked process never returns into the code of the one it was forked from."""
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


def _send(sink: int, **message: Any) -> None:
    data = memoryview(json.dumps(message).encode() + b"\n")
    while data:
        data = data[os.write(sink, data) :]


def _messages(source: int, seconds_left: Callable[[], float]) -> Iterator[dict[str, Any] | None]:
    """Messages until the other side is gone; None, once and last, when the time is up first."""
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


def _how(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"


def _shorten(text: str) -> str:
    if len(text) <= MAX_TEXT:
        return text
    return f"{text[: MAX_TEXT // 3]}\n…\n{text[-2 * MAX_TEXT // 3 :]}"
