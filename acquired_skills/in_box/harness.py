"""In the box: imports a proposed skill, derives its schema, and rehearses its tests on stubs and on the skill.

`rehearse` only gathers facts. The code that they are about shares its process and can forge them, so they can only
count against a proposal. What counts for it comes from `acquired_skills.in_box.judge`. The test module sees the skill
through a switch, so that a fork can replace it by a stub after collection.
"""

import importlib
import random
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from acquired_skills.in_box.effort import Effort
from acquired_skills.in_box.runner import MAX_TEXT, OWN, Runner, send, shorten, supervised
from acquired_skills.in_box.skill_arguments import NotDescribable, describe
from acquired_skills.in_box.switch import StubSwitch

STUBS = ("raises", "none", "sentinel")
FAILED = ("failed", "timeout", "exited")


def rehearse(name: str, seed: int, effort: dict[str, Any]) -> dict[str, Any]:
    """Return everything found out about the proposal, as JSON.

    Keys besides those of every worker, as far as it got: ``import_error``, ``schema`` or ``schema_error``, and
    ``returned`` ({unsendable?, typed?, missed, calls, asked}, from the switch and its recorder).

    Args:
        seed: of the random orders of the tests.
        effort: the fields of `Effort`.
    """
    spend = Effort(**effort)
    deadline = time.monotonic() + spend.total_s
    return supervised(lambda sink: Rehearsal(name, sink, deadline, seed, spend), deadline)


class Rehearsal(Runner):
    """Runs the tests and the skill in one process."""

    def __init__(self, name: str, sink: int, deadline: float, seed: int, effort: Effort) -> None:
        super().__init__(name, sink, deadline)
        self.seed = self.first_seed = seed
        self.effort = effort

    def prepare(self) -> bool:
        function = self._import()
        if function is not None:
            self.switch = StubSwitch(sys.modules[self.name], self.name, function, OWN)
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
        try:
            send(self.sink, schema=describe(function))
        except NotDescribable as problem:
            send(self.sink, schema_error=shorten(str(problem)))
        except Exception as problem:  # noqa: BLE001  (annotations are code of the proposal)
            send(self.sink, schema_error=f"{type(problem).__name__}: {problem}"[:MAX_TEXT])
        return function

    def runs(self, items: list[pytest.Item]) -> None:
        """Run the tests on the stubs, then on the skill.

        Each stub only gets the tests that no stub has failed yet. On the skill the tests run shuffled, twice, and again
        while that is cheap.
        """
        left = [item for item in items if item.nodeid.startswith("skill/")]
        for stub in STUBS:
            results = self.run(stub, left, self.effort.stub_test_s)
            left = [item for item in left if results.get(item.nodeid, {}).get("outcome") not in FAILED]
            if not left:
                break
        began = time.monotonic()
        for turn in range(self.effort.green_runs):
            if turn >= 2 and time.monotonic() - began > self.effort.green_s:  # noqa: PLR2004  (twice is the rule)
                break
            if not self._green(items, self.first_seed + turn):
                break

    def _green(self, items: list[pytest.Item], seed: int) -> bool:
        """Return whether all tests passed."""
        self.seed = seed
        shuffled = list(items)
        random.Random(seed).shuffle(shuffled)  # noqa: S311  (an order, not a secret)
        results = self.run("skill", shuffled, self.effort.test_s)
        return len(results) == len(items) and all(one["outcome"] == "passed" for one in results.values())

    def select(self, kind: str) -> None:
        self.switch.select(kind)

    def before_test(self, item: pytest.Item) -> None:
        if self.switch.stubbed:
            item.config.option.tbstyle = "no"  # the text is not used, and takes 20 ms per test
        self.switch.recorder.test = item.nodeid

    def final_report(self) -> dict[str, Any]:
        if self.switch.stubbed:
            return {}
        calls = self.switch.recorder
        report = {**self.switch.returned, "missed": calls.missed, "calls": calls.calls(), "asked": calls.asked()}
        return {"returned": {**report, "seed": self.seed}}
