"""Runs the tests of a skill in a box without the skill. Tables supply the skill's answers (SKILL-7).

None of the skill's code is in this box, so it cannot forge the results of the tests. The tables come in an order that
only the engine knows, and the tables of the skill, of its mutants and of stubs differ only in their answers. So the
code of the tests can only report how it reacts to the answers, which is the purpose of a test. What a run leaves behind
is removed before the next run, so that no test can compare the answers of two tables.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from acquired_skills.in_box.fake_skill import FakeSkill
from acquired_skills.in_box.function_forms import Form
from acquired_skills.in_box.runner import Runner, supervised
from acquired_skills.in_box.traces import Traces

MOST_UNKNOWN = 200
FAILED = ("failed", "timeout", "exited")


def judge(
    name: str,
    *,
    seed: int,
    tables: Sequence[Mapping[str, Any]],
    test_s: float,
    seconds: float,
    unchanged: dict[str, Any],
    form: Form = "function",
    tools: Sequence[str] = (),
) -> dict[str, Any]:
    """Run the tests once for each table.

    Args:
        seed: The seed of the random numbers that the tests draw.
        tables: Each has ``changes`` (the answers, by key, that differ from `unchanged`), ``otherwise`` (the answer to
            all other calls) and ``first`` (whether to stop at the first test that does not pass).
        test_s, seconds: The time limits of one test and of all runs together.
        form: The form in which the skill returns its results.
        tools: The names of the tools that the skill declares.

    Returns:
        The facts that `supervised` returns for any worker. They include one run for each table (its ``kind`` is the
        number of the table) and ``unknown``, the calls that had no answer in a table without ``otherwise``.
    """
    deadline = time.monotonic() + seconds
    given = JudgeInput(seed, tables, test_s, unchanged, form, tools)
    return supervised(lambda sink: Judge(name, sink, deadline, given), deadline)


@dataclass(frozen=True, slots=True)
class JudgeInput:
    """The arguments of `judge`."""

    seed: int
    tables: Sequence[Mapping[str, Any]]
    test_s: float
    unchanged: Mapping[str, Any]
    form: Form
    tools: Sequence[str] = ()


class Judge(Runner):
    """Runs the tests with a fake skill in place of the real one."""

    def __init__(self, name: str, sink: int, deadline: float, given: JudgeInput) -> None:
        super().__init__(name, sink, deadline, given.tools)
        self.seed = given.seed
        self.given = given

    def prepare(self) -> bool:
        declared = (self.here / "declared.py").read_text()
        self.fake = FakeSkill(self.name, declared, self.own, self.clock, self.given.form, self.tools)
        return True

    def runs(self, items: list[pytest.Item]) -> None:
        traces = Traces(self.here, self.own)
        for number in range(len(self.given.tables)):
            self.run(str(number), items, self.given.test_s)
            traces.remove()

    def select(self, kind: str) -> None:
        table = self.given.tables[int(kind)]
        answers = (
            {} if table.get("otherwise") and not table["changes"] else {**self.given.unchanged, **table["changes"]}
        )
        self.fake.table = {"answers": answers, "otherwise": table.get("otherwise")}

    def before_test(self, item: pytest.Item) -> None:
        item.config.option.tbstyle = "no"  # formatting tracebacks takes 20 ms per test, and there are a hundred runs
        self.fake.running, self.fake.unanswered, self.fake.reached = True, False, ""

    def annotated(self, result: dict[str, Any]) -> dict[str, Any]:
        if self.fake.reached:
            return {**result, "outcome": "reached", "text": self.fake.reached[:200]}
        return {**result, "outcome": "unanswered"} if self.fake.unanswered else result

    def final_report(self) -> dict[str, Any]:
        return {"unknown": self.fake.unknown[:MOST_UNKNOWN]} if self.fake.unknown else {}

    def is_enough(self, kind: str, results: dict[str, dict[str, Any]]) -> bool:
        return bool(self.given.tables[int(kind)].get("first")) and any(
            one["outcome"] in FAILED for one in results.values()
        )
