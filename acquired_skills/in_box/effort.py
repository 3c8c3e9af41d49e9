"""How much an admission may cost. Known outside of the box, which says it, and in it, where it is spent."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """Seconds of wall time: one test on a stub, one on the skill, all together.

    doubles_s: asking other skills what its tests asked it (SKILL-8), in boxes of their own.
    mutants, mutants_s: how many are made of the code, and the seconds for all of them. threshold: the share of them
    that the tests must notice (SKILL-6); with 0 none are made.
    green_runs, green_s: how often the tests are run on the skill at most, and after how many seconds no more (twice is
    the rule). answers_s: all calls of the tests, made without them (SKILL-7). judge_s: all runs of the tests without
    the skill. nearby, nearby_s: calls near those of the tests, to tell apart the changes that no test
    notices, and all the seconds for these.
    """

    stub_test_s: float = 1.0
    test_s: float = 10.0
    total_s: float = 20.0
    doubles_s: float = 5.0
    mutants: int = 100
    mutants_s: float = 5.0
    threshold: float = 0.66
    green_runs: int = 5
    green_s: float = 0.3
    answers_s: float = 20.0
    judge_s: float = 30.0
    nearby: int = 40
    nearby_s: float = 3.0
