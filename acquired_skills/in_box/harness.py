"""Imports a proposed skill, derives its schema, and rehearses its tests on stubs and on the skill. Runs in the box.

`rehearse` only gathers facts. The proposed code runs in the same process and can forge them, so they can only count
against the proposal. Evidence in its favour comes from `acquired_skills.in_box.judge`. The test module accesses the
skill through a switch. So a fork can replace the skill with a stub after pytest has collected the tests.
"""

import importlib
import random
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.in_box.runner import MAX_TEXT, Runner, send, shorten, supervised
from acquired_skills.in_box.skill_arguments import NotDescribable, describe
from acquired_skills.in_box.switch import StubSwitch

STUBS = ("raises", "none", "sentinel")
MOST_EXPLAINED = 3  # maximum number of failed tests that are checked for state shared with other tests
EXPLAIN_S = 2.0  # time limit in seconds for these checks
MOST_OUTSIDE = 3  # maximum number of paths outside the working folder that are reported
FAILED = ("failed", "timeout", "exited")


def rehearse(name: str, seed: int, effort: dict[str, Any], tools: Sequence[str] = ()) -> dict[str, Any]:
    """Rehearse the proposal and return all facts gathered about it, as JSON.

    Args:
        seed: The seed of the random orders of the tests.
        effort: The values of the fields of `Effort`.
        tools: The names of the tools that the skill declares.

    Returns:
        The facts that `supervised` returns for any worker, and the following ones, unless the rehearsal ended before
        they were known: ``import_error``, ``schema`` or ``schema_error``, ``shared_state`` (tests that depend on
        others), ``left_outside`` (files that the tests left outside their folder, if a test failed), and
        ``observations`` ({unsendable?, typed?, unrecorded, calls, replay_calls}, from the switch and its recorder).
    """
    spend = Effort(**effort)
    deadline = time.monotonic() + spend.total_s
    return supervised(lambda sink: Rehearsal(name, sink, deadline, seed, spend, tools), deadline)


class Rehearsal(Runner):
    """Runs the tests and the skill in one process."""

    def __init__(  # noqa: PLR0917 -- what the box gave it
        self, name: str, sink: int, deadline: float, seed: int, effort: Effort, tools: Sequence[str] = ()
    ) -> None:
        super().__init__(name, sink, deadline, tools)
        self.seed = self.first_seed = seed
        self.effort = effort

    def prepare(self) -> bool:
        function = self._import()
        if function is not None:
            self.switch = StubSwitch(sys.modules[self.name], self.name, function, self.own, self.clock, self.tools)
        return function is not None

    def _import(self) -> Callable[..., Any] | None:
        try:
            function: Callable[..., Any] = getattr(importlib.import_module(self.name), self.name)
            if not callable(function):
                raise TypeError(f"`{self.name}` is a {type(function).__name__} after the import, not a function")  # noqa: TRY301
        except BaseException as problem:  # noqa: BLE001  (any exception of the proposal is a finding)
            frames = traceback.format_exception(problem)
            send(self.sink, import_error=shorten("".join(frames[:1] + frames[-3:])), done=True)
            return None
        send(self.sink, **_described(function, {}))
        return function

    def runs(self, items: list[pytest.Item]) -> None:
        """Run the tests on the stubs, then on the skill.

        Each stub runs only the tests that have not failed on an earlier stub. On the skill, the tests run in random
        order at least twice, and again while time permits.
        """
        left = [item for item in items if item.nodeid.startswith("skill/")]
        for stub in STUBS:
            results = self.run(stub, left, self.effort.stub_test_s)
            left = [item for item in left if results.get(item.nodeid, {}).get("outcome") not in FAILED]
            if not left:
                break
        began, around = time.monotonic(), _files_outside(self.own)
        passed: list[list[pytest.Item]] = []
        for turn in range(self.effort.green_runs):
            if turn >= 2 and time.monotonic() - began > self.effort.green_s:  # noqa: PLR2004  (twice is the rule)
                break
            order = self._shuffled(items, self.first_seed + turn)
            results = self.run("skill", order, self.effort.test_s)
            failed = [item for item in order if results.get(item.nodeid, {}).get("outcome") == "failed"]
            if failed:
                outside = sorted(_files_outside(self.own) - around)[:MOST_OUTSIDE]
                shared = list(self._shared_state(failed[:MOST_EXPLAINED], order, passed or [items]))
                send(self.sink, shared_state=shared, left_outside=outside)
            if failed or len(results) < len(items) or any(one["outcome"] != "passed" for one in results.values()):
                break
            passed.append(order)

    def _shuffled(self, items: list[pytest.Item], seed: int) -> list[pytest.Item]:
        self.seed = seed
        shuffled = list(items)
        random.Random(seed).shuffle(shuffled)  # noqa: S311  (an order, not a secret)
        return shuffled

    def _shared_state(
        self, failed: list[pytest.Item], order: list[pytest.Item], others: list[list[pytest.Item]]
    ) -> Iterator[dict[str, Any]]:
        """Yield ``test``, ``other`` and ``passes`` for each failed test whose result depends on earlier tests.

        ``passes`` says whether the test passes after the test ``other``, which is "" if it takes several tests to
        change the result. ``files`` is true if the files that the other tests leave behind make the difference.

        Args:
            order: The order of all tests in the run in which the tests of `failed` failed.
            others: Orders in which the tests passed or may pass.
        """
        until = time.monotonic() + EXPLAIN_S
        for test in failed:
            alone = self._passes([test])
            before = [one[: one.index(test)] for one in ([order] if alone else others)]
            pairs = dict.fromkeys(other for some in before for other in reversed(some))
            if found := self._other_result([*([other] for other in pairs), *before], test, alone, until):
                yield found
                continue
            self.keeps_files = True
            for one in others:
                pairs |= dict.fromkeys(other for other in one if other is not test)
            found = None if alone else self._other_result([[other] for other in pairs], test, alone, until)
            self.keeps_files = False
            if found:
                yield {**found, "files": True}

    def _other_result(
        self, before: list[list[pytest.Item]], test: pytest.Item, alone: bool, until: float
    ) -> dict[str, Any] | None:
        """Return facts about the first list in `before` whose tests change the result of `test`; None if none does."""
        for some in before:
            if time.monotonic() > until:
                return None
            if some and self._changes(some, test, alone):
                return {"test": test.nodeid, "other": some[0].nodeid if len(some) == 1 else "", "passes": not alone}
        return None

    def _changes(self, before: list[pytest.Item], test: pytest.Item, alone: bool) -> bool:
        """Return whether running these tests first changes the result of a test. Compare twice to rule out chance."""
        return all(self._passes([*before, test]) != alone and self._passes([test]) == alone for _ in range(2))

    def _passes(self, items: list[pytest.Item]) -> bool:
        """Return whether the last of these tests passes when they run in this order in a new process."""
        results: dict[str, dict[str, Any]] = {}
        self._fork("skill", items, self.effort.stub_test_s, results)
        return results.get(items[-1].nodeid, {}).get("outcome") == "passed"

    def select(self, kind: str) -> None:
        self.switch.select(kind)

    def before_test(self, item: pytest.Item) -> None:
        if self.switch.stubbed:
            item.config.option.tbstyle = "no"  # formatting the traceback takes 20 ms per test, and it is not used
        self.switch.recorder.test = item.nodeid

    def final_report(self) -> dict[str, Any]:
        if self.switch.stubbed:
            return {}
        recorder, hints = self.switch.recorder, self.switch.hints.hints()
        observations = {
            **self.switch.observations,
            "unrecorded": recorder.unrecorded,
            "calls": recorder.calls(),
            "replay_calls": recorder.replay_calls(),
            "seed": self.seed,
        }
        described = _described(self.switch.function, hints) if hints else {}
        return {"observations": observations, **described}


def _files_outside(own: Path) -> set[str]:
    """Return the paths in the home folder and the temporary folder, where code may also leave files."""
    folders = {Path.home(), Path(tempfile.gettempdir())}
    return {str(path) for folder in folders if folder.is_dir() for path in folder.iterdir() if path not in own.parents}


def _described(function: Callable[..., Any], inferred: dict[str, str]) -> dict[str, Any]:
    """Return the ``schema`` of a function, or in ``schema_error`` the reason why it has none."""
    try:
        return {"schema": describe(function, inferred)}
    except NotDescribable as problem:
        return {"schema_error": shorten(str(problem))}
    except Exception as problem:  # noqa: BLE001  (annotations are code of the proposal)
        return {"schema_error": f"{type(problem).__name__}: {problem}"[:MAX_TEXT]}
