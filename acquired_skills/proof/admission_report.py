"""Builds and formats the report of an admission, which is stored with the skill and bounded in size."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from acquired_skills.in_box.inferred_hints import ANY
from acquired_skills.model.prediction import Prediction
from acquired_skills.model.script_block import ScriptBlock
from acquired_skills.proof.facts import BoxFacts
from acquired_skills.proof.judging import JudgedTests
from acquired_skills.proof.mutation.mutants import Mutant
from acquired_skills.proof.questions import Evidence
from acquired_skills.proof.rehearsal_problems import short_name
from acquired_skills.proof.unexecuted_lines import named_lines

MAX_TESTS = 50
MAX_NAME = 120  # maximum number of characters of a test's name
MAX_SURVIVORS = 10
MAX_EXPECTED = 8_000  # maximum number of characters of all predictions as JSON


def build_report(
    facts: BoxFacts,
    found: JudgedTests,
    evidence: Evidence,
    mutants: Sequence[Mutant],
    *,
    seed: int,
    compared: int,
    seconds: Mapping[str, float],
    earlier: bool,
    notes: Sequence[str] = (),
    reference: str = "",
) -> dict[str, Any]:
    """Return the report of an admission.

    Args:
        compared: With how many similar skills the proposal was compared.
        seconds: The wall time of each stage, in seconds.
        earlier: Whether the tests of the previous version were run, too.
        notes: Sentences for the author about what could be improved.
        reference: The source of the reference; "" if there is none.
    """
    survived = sorted(
        (mutants[i] for i, killed in evidence.mutants.items() if not killed), key=attrgetter("path", "line")
    )
    optional = {
        "notes": list(notes),
        "reference": {"agreed": len(evidence.reference.agreed), "source": reference} if reference else {},
    }
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
            "met": len(evidence.mutants),
            "equivalent": len(evidence.survivors.equivalent),
            "tolerated": len(evidence.survivors.tolerated),
            "never_executed": len(evidence.survivors.never_executed),
            "killed": sum(evidence.mutants.values()),
            "untried": len(found.untried),
            "survived": [
                {"line": each.line, "before": each.before, "after": each.after}
                | ({"file": each.path} if each.path else {})
                for each in survived[:MAX_SURVIVORS]
            ],
        },
        "predictions": 0 if evidence.compared is None else len(evidence.compared.agreed),
        "expected": _expected(evidence),
        "open_questions": 0 if evidence.enough else max(1, len(evidence.questions)),
        "compared": compared,
    } | {name: part for name, part in optional.items() if part}


def hint_notes(inferred: Mapping[str, str]) -> Iterator[str]:
    """Yield notes about parameters without a type hint.

    Args:
        inferred: The type hint that was inferred for each of these parameters.
    """
    if some := [f"`{name}: {hint}`" for name, hint in inferred.items() if hint != ANY]:
        yield (
            f"These parameters have no type hint in the code, so their types were inferred from the calls of the "
            f"tests: {', '.join(some)}. Add type hints if they may take other values."
        )
    if rest := [f"`{name}`" for name, hint in inferred.items() if hint == ANY]:
        has, its = ("has", "its schema accepts") if len(rest) == 1 else ("have", "their schemas accept")
        yield f"{', '.join(rest)} {has} no type hint, so {its} any value. Add type hints to have arguments checked."


def destination_notes(declared: ScriptBlock) -> Iterator[str]:
    """Yield a note about a skill that connects to a server."""
    if declared.destinations:
        yield (
            "The skill connects to a server, so admission made no changed versions of it and no calls besides those of "
            "its tests. It is not known how much they prove. Move what needs no connection into a skill of its own."
        )


def evidence_notes(evidence: Evidence) -> Iterator[str]:
    """Yield notes about the limits of the evidence."""
    if evidence.unknown:
        yield (
            "Time ran out before most mutants were tried, so it is not known how much the tests prove, and the skill "
            "stays on probation. Make the calls faster, for example with smaller inputs."
        )
    if evidence.refused:
        yield (
            f"The code raised an exception in all {evidence.refused} calls that admission tried besides those in the "
            "tests, so it may work only for the arguments in the tests. If it should accept others, correct it."
        )
    if evidence.untested:
        named = ", ".join(f"`{each}`" for each in evidence.untested)
        yield (
            f"No test passes {named}, and nobody stated a result of a call that does, so nothing shows what happens "
            "then. Add a test for each, or remove it."
        )
    never = [each for each in evidence.survivors.unexecuted if not each.by_any]
    if never:
        yield (
            f"Neither a test nor another call that admission tried executes {named_lines(never)}, so this code is not "
            "proved. Add a test that executes it, or remove it."
        )


def report_notes(kept: Mapping[str, Any]) -> list[str]:
    """Return the notes of a stored report."""
    return [note for note in _list(kept, "notes") if isinstance(note, str)]


def _expected(evidence: Evidence) -> list[dict[str, Any]]:
    """Return the predictions that agreed with the code, up to the size limit."""
    found = [{"arguments": dict(each.arguments), **each.checks} for each in evidence.agreed]
    while len(json.dumps(found)) > MAX_EXPECTED:
        found.pop()
    return found


def agreed_predictions(kept: Mapping[str, Any]) -> tuple[Prediction, ...]:
    """Return the author's predictions that agreed with the code, from a stored report."""
    found = []
    for each in _list(kept, "expected"):
        with contextlib.suppress(ValueError):
            found.append(Prediction.parse(each))
    return tuple(found)


def kept_reference(kept: Mapping[str, Any]) -> str:
    """Return the source of the reference in a stored report; "" if there is none."""
    source = _dict(kept, "reference").get("source")
    return source if isinstance(source, str) else ""


def report_lines(kept: Mapping[str, Any]) -> Iterator[str]:
    """Format a stored report, one fact per line. The report is read from a file, so malformed entries are omitted."""
    tests, red, seconds = _list(kept, "tests"), _dict(kept, "red"), _dict(kept, "seconds")
    if seconds:
        yield "took " + ", ".join(f"{stage} {took:.2f} s" for stage, took in seconds.items() if _number(took))
    if tests:
        earlier = kept.get("earlier_tests")
        yield f"tests: {len(tests)}" + (f", {earlier} of them from the previous version" if earlier else "")
    for test, kinds in red.items():
        yield f"  {test} fails on {', '.join(map(str, kinds)) if isinstance(kinds, list) else kinds}"
    if _list(kept, "not_replayed"):
        impure = ", ".join(map(str, _list(kept, "not_replayed")))
        yield f"  not judged, because they patch the skill or use its internals: {impure}"
    for name, text in (
        ("green_runs", "runs in random orders in which all tests passed: {}"),
        ("replayed", "calls replayed without the tests: {}"),
        ("predictions", "predictions of its author that agree with the code: {}"),
        ("compared", "similar skills compared, none of them a duplicate: {}"),
    ):
        if _number(kept.get(name)):
            yield text.format(kept[name])
    if open_questions(kept):
        yield f"unanswered questions, so the skill stays on probation: {open_questions(kept)}"
    yield from _of_mutants(_dict(kept, "mutants"))
    yield from report_notes(kept)
    if reference := kept_reference(kept):
        agreed = _dict(kept, "reference").get("agreed")
        yield f"results in which its reference agrees with the code: {agreed}. The reference:"
        yield from (f"  {line}" for line in reference.splitlines())


def _of_mutants(mutants: Mapping[str, Any]) -> Iterator[str]:
    if _number(mutants.get("killed")):
        yield f"mutants killed: {mutants['killed']} of {mutants.get('met', mutants.get('made'))}"
    if _number(untried := mutants.get("untried")) and untried:
        yield f"mutants not tried, because time ran out: {untried}"
    for each in _list(mutants, "survived"):
        if isinstance(each, dict):
            where = f"line {each.get('line')}" + (f" of {each['file']}" if "file" in each else "")
            yield f"  not {where}: {each.get('before')} -> {each.get('after')}"


def report_summary(kept: Mapping[str, Any]) -> str:
    """Format a stored report in one line for a model; "" when it is empty."""
    mutants = _dict(kept, "mutants")
    parts = [f"{len(_list(kept, 'tests'))} tests"] if _list(kept, "tests") else []
    if _number(mutants.get("killed")) and mutants.get("met"):
        parts.append(f"{mutants['killed']} of {mutants['met']} mutants killed")
    if _number(kept.get("replayed")):
        parts.append(f"{kept['replayed']} calls replayed")
    if kept_reference(kept):
        parts.append(f"{_dict(kept, 'reference').get('agreed')} results of a reference agree with the code")
    if open_questions(kept):
        parts.append(f"{open_questions(kept)} unanswered questions, so it stays on probation")
    return ", ".join(parts)


def open_questions(kept: Mapping[str, Any]) -> int:
    """Return the number of unanswered questions in a stored report."""
    found = kept.get("open_questions")
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def _list(kept: Mapping[str, Any], name: str) -> list[Any]:
    found = kept.get(name)
    return found if isinstance(found, list) else []


def _dict(kept: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = kept.get(name)
    return found if isinstance(found, dict) else {}


def _number(value: Any) -> bool:
    return isinstance(value, int | float)
