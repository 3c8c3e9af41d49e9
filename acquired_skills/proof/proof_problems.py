"""Lists what is missing from the proof of a proposal, from its judged tests (SKILL-4 to SKILL-7)."""

from collections.abc import Iterator, Sequence

from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.proof.facts import ResultOfTest
from acquired_skills.proof.judging import STUBS, WRONG, JudgedTests
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.rehearsal_problems import MAX_SHOWN, list_tests, short_name

MAX_SURVIVORS = 8
MAX_CASES = 5  # of them, with a call that shows the change
_UNREPORTED: ResultOfTest = {"outcome": "unreported", "text": "", "seconds": 0.0}


def proof_problems(
    name: str, found: JudgedTests, mutants: Sequence[Mutant], threshold: float
) -> Iterator[ProposalProblem]:
    """Yield everything that is missing. mutants: all that were made, by number. threshold: the share to be killed."""
    yield from found.problems
    if found.problems:
        return
    own = [test for test in found.tests if test.startswith("skill/")]
    if not own:
        yield ProposalProblem(
            "replay",
            f"No test calls `{name}` with plain values and checks the result; all of them patch something or "
            f"use what only the skill's file has ({list_tests(list(found.impure))}). Such tests may stay, but add some "
            "that can be judged without the code: with numbers, strings, lists, files in tmp_path, and the result.",
        )
        return
    yield from _green(found)
    yield from _red(name, own, found)
    yield from _unnoticed(found, mutants, threshold)


def _green(found: JudgedTests) -> Iterator[ProposalProblem]:
    failed = [test for test in found.tests if found.green.get(test, _UNREPORTED)["outcome"] != "passed"]
    for test in failed[:MAX_SHOWN]:
        text = found.green.get(test, _UNREPORTED)["text"]
        said = f":\n{text}\n" if text else ". "
        yield ProposalProblem(
            "replay",
            f"{short_name(test)} passes only in one process with the code, not on the code's answers alone{said}"
            "The code must not touch the tests or what runs them, and the test must only use arguments, "
            "results and files in tmp_path.",
        )


def _red(name: str, own: Sequence[str], found: JudgedTests) -> Iterator[ProposalProblem]:
    empty = [test for test in own if not found.red.get(test, frozenset()) & STUBS.keys()]
    if empty:
        yield ProposalProblem(
            "red",
            f"{list_tests(empty)} prove{'s' if len(empty) == 1 else ''} nothing: passed whatever `{name}` gave. Assert "
            "exact results inside the test, or remove it.",
        )
    only_kind = [test for test in own if test not in empty and WRONG not in found.red.get(test, frozenset())]
    if only_kind:
        yield ProposalProblem(
            "red",
            f"{list_tests(only_kind)} pass{'es' if len(only_kind) == 1 else ''} with any answers of the same kind (42 "
            f"instead of 7, another string, an emptied list): assert the exact result of `{name}`, or remove it.",
        )


def _unnoticed(found: JudgedTests, mutants: Sequence[Mutant], threshold: float) -> Iterator[ProposalProblem]:
    """Report that too few mutants are killed (SKILL-6), with the survivors in the order of the code.

    Where one constant answer satisfies every test, only mutants with another answer count as killed. Any test notices
    an exception, so code that raises as soon as it is changed would need no real tests.
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
    text = f"The tests notice {len(noticed)} of {met} small changes of the code, and {threshold:.0%} is required."
    if found.constant:
        text += (
            f" They would all pass if it always answered {found.constant}, so a change that only raises does not "
            "count: add tests with other answers."
        )
    if shown:
        more = f"\n- and {len(left) - len(shown)} more" if len(left) > len(shown) else ""
        text += " No test fails when\n" + "\n".join(shown) + f"{more}\nAssert which answer is right, edge cases first."
    yield ProposalProblem("mutants", text)
