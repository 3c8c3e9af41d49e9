"""In the box: import a proposed skill, derive its schema, and rehearse its tests on stubs and on itself.

`admit` only gathers facts, and the code that they are about may forge them, since it shares a process with what reports
them. So they speak against a proposal, never for it: what speaks for it is found by `acquired_skills.in_box.judge`.
The test module sees the skill through a switch, so a fork can put a stub in its place after collection.
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
from acquired_skills.in_box.switch import Switch

STUBS = ("raises", "none", "sentinel")
FAILED = ("failed", "timeout", "exited")


def admit(name: str, seed: int, effort: dict[str, Any]) -> dict[str, Any]:
    """Everything found out about the proposal, as JSON.

    seed: of the random test orders. effort: the fields of `Effort`. Keys beside those of every worker, where it came
    so far: ``import_error``, ``schema`` or ``schema_error``, and ``returned`` ({unsendable?, typed?, missed, calls,
    asked}, as the switch and its recorder give them).
    """
    spend = Effort(**effort)
    deadline = time.monotonic() + spend.total_s
    return supervised(lambda sink: Rehearsal(name, sink, deadline, seed, spend), deadline)


class Rehearsal(Runner):
    """Skill and tests in one process."""

    def __init__(self, name: str, sink: int, deadline: float, seed: int, effort: Effort) -> None:
        super().__init__(name, sink, deadline)
        self.seed = self.first_seed = seed
        self.effort = effort

    def prepare(self) -> bool:
        function = self._import()
        if function is not None:
            self.switch = Switch(sys.modules[self.name], self.name, function, OWN)
        return function is not None

    def _import(self) -> Callable[..., Any] | None:
        try:
            function: Callable[..., Any] = getattr(importlib.import_module(self.name), self.name)
            if not callable(function):
                raise TypeError(f"`{self.name}` is a {type(function).__name__} after the import, not a function")  # noqa: TRY301
        except BaseException as problem:  # noqa: BLE001  (whatever the proposal raised is the finding)
            frames = traceback.format_exception(problem)
            send(self.sink, import_error=shorten("".join(frames[:1] + frames[-3:])), done=True)
            return None
        try:
            send(self.sink, schema=describe(function))
        except NotDescribable as problem:
            send(self.sink, schema_error=shorten(str(problem)))
        except Exception as problem:  # noqa: BLE001  (annotations are code of the proposal and may do anything)
            send(self.sink, schema_error=f"{type(problem).__name__}: {problem}"[:MAX_TEXT])
        return function

    def runs(self, items: list[pytest.Item]) -> None:
        """Each stub in turn, only for the tests that no stub has failed yet; then the skill itself, shuffled: twice,
        and again while that is cheap."""
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
        """Whether all of them passed."""
        self.seed = seed
        shuffled = list(items)
        random.Random(seed).shuffle(shuffled)  # noqa: S311  (an order, not a secret)
        results = self.run("skill", shuffled, self.effort.test_s)
        return len(results) == len(items) and all(one["outcome"] == "passed" for one in results.values())

    def turn(self, kind: str) -> None:
        self.switch.turn(kind)

    def before(self, item: pytest.Item) -> None:
        if self.switch.stubbed:
            item.config.option.tbstyle = "no"  # nobody reads why a stub fails, and the text takes 20 ms a test
        self.switch.recorder.test = item.nodeid

    def left(self) -> dict[str, Any]:
        if self.switch.stubbed:
            return {}
        calls = self.switch.recorder
        told = {**self.switch.returned, "missed": calls.missed, "calls": calls.calls(), "asked": calls.asked()}
        return {"returned": {**told, "seed": self.seed}}
