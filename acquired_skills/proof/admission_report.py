"""Builds and formats the report of an admission, which is stored with the skill and bounded in size."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acquired_skills.proof.facts import BoxFacts
from acquired_skills.proof.judging import JudgedTests
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.rehearsal_problems import short_name

MAX_TESTS = 50
MAX_NAME = 120  # characters of a test's name
MAX_SURVIVORS = 10


def build_report(
    facts: BoxFacts,
    found: JudgedTests,
    mutants: Sequence[Mutant],
    *,
    seed: int,
    compared: int,
    seconds: Mapping[str, float],
    earlier: bool,
) -> dict[str, Any]:
    """Return the report. compared: how many neighbours were asked. seconds: by stage. earlier: whether older tests ran
    too.
    """
    survived = sorted((mutants[i] for i, noticed in found.mutants.items() if not noticed), key=lambda each: each.line)
    return {
        "seed": seed,
        "seconds": {stage: round(took, 3) for stage, took in seconds.items()},
        "tests": [short_name(test)[:MAX_NAME] for test in facts["tests"][:MAX_TESTS]],
        "earlier_tests": sum(test.startswith("earlier/") for test in facts["tests"]) if earlier else 0,
        "red": {short_name(test)[:MAX_NAME]: sorted(kinds) for test, kinds in list(found.red.items())[:MAX_TESTS]},
        "green_runs": sum(run["kind"] == "skill" for run in facts["runs"]),
        "replayed": len(found.calls),
        "not_replayed": [short_name(test)[:MAX_NAME] for test in found.impure[:MAX_TESTS]],
        "mutants": {}
        if not mutants
        else {
            "made": len(mutants),
            "met": len(found.mutants),
            "equivalent": found.equivalent,
            "killed": sum(found.mutants.values()),
            "survived": [
                {"line": each.line, "before": each.before, "after": each.after} for each in survived[:MAX_SURVIVORS]
            ],
        },
        "compared": compared,
    }


def report_lines(kept: Mapping[str, Any]) -> Iterator[str]:
    """Format a stored report, one fact per line. It is read from a file, so anything malformed is left out."""
    tests, red, seconds = _list(kept, "tests"), _dict(kept, "red"), _dict(kept, "seconds")
    if seconds:
        yield "took " + ", ".join(f"{stage} {took:.2f} s" for stage, took in seconds.items() if _number(took))
    if tests:
        earlier = kept.get("earlier_tests")
        yield f"tests: {len(tests)}" + (f", {earlier} of them from the version before" if earlier else "")
    for test, kinds in red.items():
        yield f"  {test} fails on {', '.join(map(str, kinds)) if isinstance(kinds, list) else kinds}"
    if _list(kept, "not_replayed"):
        impure = ", ".join(map(str, _list(kept, "not_replayed")))
        yield f"  not judged, since they patch the skill or use its internals: {impure}"
    for name, text in (
        ("green_runs", "green {} times, in random orders"),
        ("replayed", "calls replayed without the tests: {}"),
        ("compared", "similar skills compared, no duplicate: {}"),
    ):
        if _number(kept.get(name)):
            yield text.format(kept[name])
    yield from _of_mutants(_dict(kept, "mutants"))


def _of_mutants(mutants: Mapping[str, Any]) -> Iterator[str]:
    if _number(mutants.get("killed")):
        yield f"mutants noticed: {mutants['killed']} of {mutants.get('met', mutants.get('made'))}"
    for each in _list(mutants, "survived"):
        if isinstance(each, dict):
            yield f"  not line {each.get('line')}: {each.get('before')} -> {each.get('after')}"


def report_summary(kept: Mapping[str, Any]) -> str:
    """Format a stored report in one line for a model; "" when it is empty."""
    mutants = _dict(kept, "mutants")
    parts = [f"{len(_list(kept, 'tests'))} tests"] if _list(kept, "tests") else []
    if _number(mutants.get("killed")) and mutants.get("met"):
        parts.append(f"{mutants['killed']} of {mutants['met']} mutants noticed")
    if _number(kept.get("replayed")):
        parts.append(f"{kept['replayed']} calls replayed")
    return ", ".join(parts)


def _list(kept: Mapping[str, Any], name: str) -> list[Any]:
    found = kept.get(name)
    return found if isinstance(found, list) else []


def _dict(kept: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = kept.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> bool:
    return isinstance(value, int | float)
