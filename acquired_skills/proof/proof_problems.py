"""What the judged tests speak for, and what is still missing (SKILL-4 to SKILL-7): a function of what was found."""

from collections.abc import Iterator, Sequence

from acquired_skills.model.proposal import Problem
from acquired_skills.proof.facts import Result
from acquired_skills.proof.judging import KIND, STUBS, Judged
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.rehearsal_problems import MAX_SHOWN, listed, short

MAX_SURVIVORS = 8
MAX_CASES = 5  # of them with a call that shows the change
_UNREPORTED: Result = {"outcome": "unreported", "text": "", "seconds": 0.0}


def missing(name: str, found: Judged, mutants: Sequence[Mutant], threshold: float) -> Iterator[Problem]:
    """Everything that keeps the tests from being a proof. mutants: all that were made, by their number.

    threshold: the share of them that the tests must notice.
    """
    yield from found.problems
    if found.problems:
        return
    own = [test for test in found.tests if test.startswith("skill/")]
    if not own:
        yield Problem(
            "replay",
            f"No test calls `{name}` with plain values and looks at what comes back; all of them patch something or "
            f"use what only the skill's file has ({listed(list(found.reaching))}). Such tests may stay, but add some "
            "that can be judged without the code: numbers, texts, lists, files in tmp_path, and the result.",
        )
        return
    yield from _green(found)
    yield from _red(name, own, found)
    yield from _unnoticed(found, mutants, threshold)


def _green(found: Judged) -> Iterator[Problem]:
    failed = [test for test in found.tests if found.green.get(test, _UNREPORTED)["outcome"] != "passed"]
    for test in failed[:MAX_SHOWN]:
        text = found.green.get(test, _UNREPORTED)["text"]
        said = f":\n{text}\n" if text else ". "
        yield Problem(
            "replay",
            f"{short(test)} passes only in one process with the code, and not on what the code answers by itself{said}"
            "The code must not touch the tests or what runs them, nor the test more of the code than arguments, "
            "results and files in tmp_path.",
        )


def _red(name: str, own: Sequence[str], found: Judged) -> Iterator[Problem]:
    empty = [test for test in own if not found.red.get(test, frozenset()) & STUBS.keys()]
    if empty:
        yield Problem(
            "red",
            f"{listed(empty)} prove{'s' if len(empty) == 1 else ''} nothing: passed whatever `{name}` answered. Assert "
            "exact results inside the test, or remove it.",
        )
    only_kind = [test for test in own if test not in empty and KIND not in found.red.get(test, frozenset())]
    if only_kind:
        yield Problem(
            "red",
            f"{listed(only_kind)} pass{'es' if len(only_kind) == 1 else ''} with any answers of the same kind (42 "
            f"for 7, another text, an emptied list): assert what exactly `{name}` returns, or remove it.",
        )


def _unnoticed(found: Judged, mutants: Sequence[Mutant], threshold: float) -> Iterator[Problem]:
    """Too many changes of the code that no test notices (SKILL-6); those first that a reader meets first.

    Where one and the same answer satisfies every test, a change is noticed only by another answer: an exception would
    be noticed by any test, and code that raises as soon as it is changed would need none to speak of.
    """
    noticed = [number for number, seen in found.mutants.items() if seen]
    met = len(found.mutants)
    if found.constant and met:
        noticed = [number for number in noticed if number not in found.raising]
        met = len(mutants)
    if not met or len(noticed) / met >= threshold:
        return
    left = sorted((i for i, seen in found.mutants.items() if not seen), key=lambda i: (mutants[i].line, i))
    with_case = [i for i in left if i in found.cases][:MAX_CASES]
    shown = [
        f"- line {mutants[i].line}: `{mutants[i].before}` -> `{mutants[i].after}`"
        + (f": {found.cases[i]}" if i in with_case else "")
        for i in sorted(set(left[:MAX_SURVIVORS]) | set(with_case), key=left.index)[-MAX_SURVIVORS:]
    ]
    text = f"The tests notice {len(noticed)} of {met} small changes of the code, and {threshold:.0%} is asked for."
    if found.constant:
        text += (
            f" They would all pass if it always answered {found.constant}, so a change that only raises does not "
            "count: add tests with other answers."
        )
    if shown:
        more = f"\n- and {len(left) - len(shown)} more" if len(left) > len(shown) else ""
        text += " No test fails when\n" + "\n".join(shown) + f"{more}\nAssert which answer is right, edge cases first."
    yield Problem("mutants", text)
