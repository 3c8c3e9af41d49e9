"""`Effort`: the limits of an admission. The engine sets them, and the code in the box observes them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """Limits of one admission; times are wall time in seconds.

    An agreed prediction is a result that the author predicted and the code returned.

    Attributes:
        stub_test_s, test_s, total_s: The limits of one test on a stub, one test on the skill, and the whole rehearsal.
        duplicates_s: The limit for making the tests' calls with other skills, each in its own box (SKILL-8).
        mutants, mutants_s: How many mutants are made, and the time for all of them.
        threshold: The share of mutants that tests and agreed predictions must kill where no questions can be asked
            (SKILL-6); if it is 0, no mutants are made.
        enough: The share of killed mutants from which on no questions are asked (GATE-1).
        calls: The number of different calls from which on no questions are asked. If the tests make fewer, they and
            agreed predictions must state the results of one more.
        every_gap: Whether a mutant that survives is asked about if a call shows it, however many others are killed.
        green_runs, green_s: The maximum number of runs of the tests on the skill, and the time after which no further
            run is started. There are always two runs.
        answers_s: The limit for repeating, outside the tests, every call that they make (SKILL-7).
        judge_s: The limit for all runs of the tests without the skill.
        similar_calls, boundary_calls, clock_calls, similar_calls_s: How many calls similar to those of the tests, how
            many with boundary values, and how many at other times, are made to examine the mutants that no test kills,
            and the time for all of them.
        random_calls, unusual_calls: How many random calls the skill alone answers, and how many of them, with results
            that differ, are made to these mutants too.
        reference_call_s, reference_s: The limit of one call of the reference, and that of all its calls.
    """

    stub_test_s: float = 1.0
    test_s: float = 10.0
    total_s: float = 20.0
    duplicates_s: float = 5.0
    mutants: int = 100
    mutants_s: float = 5.0
    threshold: float = 0.66
    enough: float = 0.9
    calls: int = 3
    every_gap: bool = True
    green_runs: int = 5
    green_s: float = 0.3
    answers_s: float = 20.0
    judge_s: float = 30.0
    similar_calls: int = 40
    boundary_calls: int = 40
    clock_calls: int = 20
    similar_calls_s: float = 3.0
    random_calls: int = 200
    unusual_calls: int = 40
    reference_call_s: float = 0.5
    reference_s: float = 10.0
