"""Lists what the judged tests of a proposal fail to prove (SKILL-4 to SKILL-7)."""

from collections.abc import Iterator, Sequence

from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.proof.answer_tables import STUBS, WRONG
from acquired_skills.proof.docstring_examples import EXAMPLE_PREFIX
from acquired_skills.proof.facts import ResultOfTest
from acquired_skills.proof.judging import JudgedTests
from acquired_skills.proof.rehearsal_problems import MAX_SHOWN, list_tests, short_name

_LOOSE = 1 / 3  # largest share of exchanges that the tests may overlook; tests of exact results stay below it
_UNREPORTED: ResultOfTest = {"outcome": "unreported", "text": "", "seconds": 0.0}


def proof_problems(name: str, found: JudgedTests) -> Iterator[ProposalProblem]:
    """Yield problems with the proof, except surviving mutants (see `acquired_skills.proof.evidence_problems`)."""
    yield from found.problems
    if found.problems:
        return
    own = [test for test in found.tests if test.startswith("skill/")]
    if not own:
        yield ProposalProblem(
            "replay",
            f"No test calls `{name}` with plain values and checks the result. {_uncounted(found)} Such tests may stay, "
            "but add tests that can be judged without the code: tests that use only numbers, strings, lists, files in "
            "tmp_path, and results.",
        )
        return
    yield from _green(found)
    yield from _red(name, own, found)
    if found.reversible:
        text = f"All tests would pass if every text that `{name}` returns were reversed: assert the exact texts."
        yield ProposalProblem("red", text)
    if len(found.exchangeable) > _LOOSE * found.exchanges:
        one, other = found.exchangeable[0]
        yield ProposalProblem(
            "red",
            f"All tests would pass if {one} and {other} exchanged their results, so the tests check the results only "
            "together, not one by one: assert the exact result of each call.",
        )


def uncounted_tests(found: JudgedTests) -> Iterator[ProposalProblem]:
    """Yield a problem if some tests do not count as proof. This is harmless if the other tests prove enough."""
    if _written_uncounted(found):
        yield ProposalProblem(
            "replay",
            f"{_uncounted(found)} If they check plain arguments and results too, move these checks into other tests.",
        )


def _written_uncounted(found: JudgedTests) -> list[str]:
    """Return the tests that do not count, except the examples of the docstring."""
    own = [test for test in found.impure if test.startswith("skill/")]
    return [test for test in own if not short_name(test).startswith(EXAMPLE_PREFIX)]


def _uncounted(found: JudgedTests) -> str:
    """Return a sentence about which tests do not count as proof, and why."""
    tests = _written_uncounted(found)
    reasons = {test: found.green.get(test, _UNREPORTED) for test in tests}
    used = dict.fromkeys(one["text"] for one in reasons.values() if one["outcome"] == "reached" and one["text"])
    does = "does not count, because it uses" if len(tests) == 1 else "do not count, because they use"
    why = ", ".join(list(used)[:MAX_SHOWN]) or "patched or captured objects"
    return f"{list_tests(tests)} {does} {why}, which a skill cannot receive or return as data."


def _green(found: JudgedTests) -> Iterator[ProposalProblem]:
    failed = [test for test in found.tests if found.green.get(test, _UNREPORTED)["outcome"] != "passed"]
    for test in failed[:MAX_SHOWN]:
        text = found.green.get(test, _UNREPORTED)["text"]
        said = f":\n{text}\n" if text else ". "
        yield ProposalProblem(
            "replay",
            f"{short_name(test)} passes only in the same process as the code, not with its recorded results{said}"
            "Make the test use only arguments, results and files in tmp_path, and remove code that changes the tests "
            "or pytest.",
        )


def _red(name: str, own: Sequence[str], found: JudgedTests) -> Iterator[ProposalProblem]:
    empty = [test for test in own if not found.red.get(test, frozenset()) & STUBS.keys()]
    if empty:
        yield ProposalProblem(
            "red",
            f"{list_tests(empty)} prove{'s' if len(empty) == 1 else ''} nothing: any result of `{name}` passes. "
            "Assert exact results inside the test, or remove the test.",
        )
    only_kind = [test for test in own if test not in empty and WRONG not in found.red.get(test, frozenset())]
    if only_kind:
        yield ProposalProblem(
            "red",
            f"{list_tests(only_kind)} pass{'es' if len(only_kind) == 1 else ''} with any results of the same type (42 "
            f"instead of 7, another string, another exception): assert the exact result of `{name}` or the class of "
            "its exception, or remove the test.",
        )
