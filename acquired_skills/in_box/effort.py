"""`Effort`: the limits of an admission. The engine sets them, and the code in the box applies them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of one admission. Times are wall time in seconds.

    An agreed prediction is a result that the author predicted and the code returned.

    Attributes:
        stub_test_s, test_s, total_s: The limits of one test on a stub, one test on the skill, and the whole rehearsal.
        duplicates_s: The limit for making the tests' calls to similar skills, each of them in its own box (SKILL-8).
        mutants, mutants_s: The number of mutants, and the time limit for all of them.
        threshold: The share of mutants that tests and agreed predictions must kill if no questions can be asked
            (SKILL-6). If it is 0, no mutants are made.
        enough: The share of mutants that must be killed so that no questions are asked (GATE-1).
        calls: The number of different calls that tests must make so that no questions are asked. If they make fewer,
            questions are asked until tests and agreed predictions state the results of `calls` + 1 different calls.
        every_gap: Whether to ask about every surviving mutant that some call distinguishes from the skill, even if
            enough mutants are killed.
        green_runs, green_s: The maximum number of runs of the tests on the skill, and the time after which no further
            run is started. There are always at least two runs.
        answers_s: The limit for making every call of the tests again without the tests (SKILL-7).
        judge_s: The limit for all runs of the tests without the skill.
        similar_calls, boundary_calls, clock_calls: The maximum numbers of calls that examine the surviving mutants:
            calls similar to those of the tests, calls with boundary values, and calls at other times.
        similar_calls_s: The time limit for all these calls.
        random_calls, unusual_calls: The number of random calls that are made only to the skill, and the maximum number
            of these that are then also made to the surviving mutants. Those are chosen for their different results.
        reference_call_s, reference_s: The limits of one call of the reference, and of all its calls.
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
    random_calls: int = 400
    unusual_calls: int = 40
    reference_call_s: float = 0.5
    reference_s: float = 10.0
