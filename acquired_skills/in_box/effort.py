"""`Effort`: the limits of an admission. The engine sets them, and the code in the box observes them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of one admission; times are wall time in seconds.

    Attributes:
        stub_test_s, test_s, total_s: one test on a stub, one test on the skill, the whole rehearsal.
        duplicates_s: asking other skills the calls of the tests (SKILL-8), in their own boxes.
        mutants, mutants_s: how many mutants are made, and the time for all of them.
        threshold: the share of mutants that the tests must kill (SKILL-6); with 0, none are made.
        green_runs, green_s: the most runs of the tests on the skill, and the time after which no run is started. Two
            runs are always made.
        answers_s: all calls of the tests, made without the tests (SKILL-7).
        judge_s: all runs of the tests without the skill.
        similar_calls, similar_calls_s: calls similar to those of the tests, which tell apart mutants that no test
            kills, and the time for all of them.
    """

    stub_test_s: float = 1.0
    test_s: float = 10.0
    total_s: float = 20.0
    duplicates_s: float = 5.0
    mutants: int = 100
    mutants_s: float = 5.0
    threshold: float = 0.66
    green_runs: int = 5
    green_s: float = 0.3
    answers_s: float = 20.0
    judge_s: float = 30.0
    similar_calls: int = 40
    similar_calls_s: float = 3.0
