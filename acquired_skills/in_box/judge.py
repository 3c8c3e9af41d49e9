"""In the box: run the tests of a skill without the skill, on tables of answers (SKILL-7).

None of the skill's code is here, so nothing of it can report for the tests. The tables come in an order that only the
engine knows: those of the skill itself, of its mutants and of stubs look alike but for their answers. So all that the
tests' own code can say of a run is what it makes of the answers, and that is what a test is for.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from acquired_skills.in_box.fake_skill import StandIn
from acquired_skills.in_box.runner import HERE, OWN, Runner, supervised

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
) -> dict[str, Any]:
    """One run for each table, named by its number; ``unknown``: calls that a table without ``otherwise`` lacked.

    tables: ``changes`` (answers by key, other than in `unchanged`), ``otherwise`` (for all other calls), ``first``
    (only up to the first test that does not pass). seed: of what the tests draw by chance. test_s, seconds: for one
    test, and for all of it.
    """
    deadline = time.monotonic() + seconds
    given = Given(seed, tables, test_s, unchanged)
    return supervised(lambda sink: Judge(name, sink, deadline, given), deadline)


@dataclass(frozen=True, slots=True)
class Given:
    """What `judge` is given, by the same names."""

    seed: int
    tables: Sequence[Mapping[str, Any]]
    test_s: float
    unchanged: Mapping[str, Any]


class Judge(Runner):
    """The tests, and a stand-in for the skill."""

    def __init__(self, name: str, sink: int, deadline: float, given: Given) -> None:
        super().__init__(name, sink, deadline)
        self.seed = given.seed
        self.given = given

    def prepare(self) -> bool:
        declared = (HERE / "declared.py").read_text()
        self.stand_in = StandIn(self.name, declared, OWN)
        return True

    def runs(self, items: list[pytest.Item]) -> None:
        for number in range(len(self.given.tables)):
            self.run(str(number), items, self.given.test_s)

    def turn(self, kind: str) -> None:
        table = self.given.tables[int(kind)]
        answers = (
            {} if table.get("otherwise") and not table["changes"] else {**self.given.unchanged, **table["changes"]}
        )
        self.stand_in.table = {"answers": answers, "otherwise": table.get("otherwise")}

    def before(self, item: pytest.Item) -> None:
        item.config.option.tbstyle = "no"  # the text takes 20 ms a test, and there are a hundred runs
        self.stand_in.missed, self.stand_in.reached = False, ""

    def seen(self, result: dict[str, Any]) -> dict[str, Any]:
        if self.stand_in.reached:
            return {**result, "outcome": "reached", "text": self.stand_in.reached[:200]}
        return {**result, "outcome": "missed"} if self.stand_in.missed else result

    def left(self) -> dict[str, Any]:
        return {"unknown": self.stand_in.unknown[:MOST_UNKNOWN]} if self.stand_in.unknown else {}

    def enough(self, kind: str, results: dict[str, dict[str, Any]]) -> bool:
        return bool(self.given.tables[int(kind)].get("first")) and any(
            one["outcome"] in FAILED for one in results.values()
        )
