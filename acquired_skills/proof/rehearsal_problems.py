"""What speaks against a proposal in the rehearsal of its tests (SKILL-3 to SKILL-5): a function of what was found."""

from collections.abc import Iterator, Mapping, Sequence

from acquired_skills.model.input_schema import why_unusable
from acquired_skills.model.proposal import Part, Problem
from acquired_skills.proof.facts import Facts, Result, facts_of
from sandbox.contract import End, Outcome

STUBS = 3  # kinds of stub in the harness: raises NotImplementedError, returns None, returns a bare object()
MAX_SHOWN = 5  # of the same kind of problem, so that the answer stays readable
MAX_TESTS = 300


def verdict(name: str, outcome: Outcome) -> Iterator[Problem]:
    """Everything in the rehearsal that speaks against admission. Nothing of it speaks for admission, since the code of
    the proposal shared a process with what reported it: that is `acquired_skills.proof.judging`'s."""
    if not outcome.ok or not isinstance(outcome.value, dict):
        yield Problem("limits", _ended_how(outcome))
        return
    try:
        facts = facts_of(outcome.value)
    except ValueError as problem:
        yield Problem("limits", f"What came out of the box is no report of ours ({problem}): shorten names and texts.")
        return
    if "import_error" in facts:
        yield Problem("code", f"Importing it fails:\n{facts['import_error']}\n{_to_import(facts['import_error'])}")
        return
    if "schema_error" in facts:
        yield Problem("schema", f"No JSON Schema can be made: {facts['schema_error']}.")
    elif facts.get("done") and "schema" not in facts:
        yield Problem("schema", "No JSON Schema came out of the box: make the signature simpler.")
    elif "schema" in facts and (unusable := why_unusable(facts["schema"]["parameters"])):
        yield Problem("schema", f"Its JSON Schema cannot be used: {unusable}. Make the signature simpler.")
    yield from _broken_run(facts)
    tests = facts.get("tests", [])
    if facts.get("done") and not facts.get("collection_errors"):
        if not any(test.startswith("skill/") for test in tests):
            yield Problem("tests", f"pytest collects no test: write `def test_...():` that assert on `{name}(...)`.")
        elif len(tests) > MAX_TESTS:
            yield Problem("tests", f"pytest collects {len(tests)} tests: keep it to {MAX_TESTS}.")
        else:
            yield from _red(name, facts)
            yield from _green(facts)


def _to_import(error: str) -> str:
    if "ModuleNotFoundError" not in error:
        return "Make the file import cleanly."
    return (
        "Declare the package in a PEP 723 block at the top: `# /// script`, `# dependencies = ['...']`, `# ///`; with "
        "one, a skill sees nothing but Python and what it declares."
    )


def _ended_how(outcome: Outcome) -> str:
    if outcome.end is End.ERROR or outcome.ok:
        shown = outcome.error.message[:1000] if outcome.error else outcome.stderr.decode(errors="replace")[-1000:]
        return f"The run of the tests ended before a verdict (exit code {outcome.exit_code}): {shown or 'no message'}."
    return (
        f"The run of the tests was ended by the box's {outcome.end} limit after {outcome.usage.wall_s:.1f} s: "
        "make the code and the tests need less."
    )


def _broken_run(facts: Facts) -> Iterator[Problem]:
    for error in facts.get("collection_errors", [])[:MAX_SHOWN]:
        yield Problem("tests", f"pytest cannot collect the tests:\n{error}\nCorrect the test module.")
    if facts.get("done"):
        return
    phases: dict[str, tuple[Part, str]] = {
        "import": ("code", "while the code was imported"),
        "collection": ("tests", "while pytest collected the tests"),
        "tests": ("limits", "while the tests ran"),
    }
    (part, doing), ended = phases[facts["phase"]], facts.get("ended")
    if ended == "time":
        text = f"The time was up {doing}: make it faster, with smaller inputs and no waiting."
    else:
        text = f"The process {ended} {doing}, so there is no report: remove the `exit`, `os._exit` or signal."
    yield Problem(part, text)


def _red(name: str, facts: Facts) -> Iterator[Problem]:
    """Tests that no stub fails prove nothing (SKILL-4)."""
    runs = {run["kind"]: run["results"] for run in facts["runs"] if run["kind"] != "skill"}
    own = [test for test in facts["tests"] if test.startswith("skill/")]
    failed = {test for results in runs.values() for test, one in results.items() if one["outcome"] in _FAILED}
    judged = [test for test in own if all(test in results for results in runs.values())]
    empty = [test for test in own if test not in failed and test in judged and len(runs) == STUBS]
    unjudged = [test for test in own if test not in failed and test not in empty]
    if empty:
        yield Problem(
            "red",
            f"{listed(empty)} prove{'s' if len(empty) == 1 else ''} nothing: passed just as well when `{name}` only "
            f"raised NotImplementedError, returned None, or returned a bare object(). Assert exact results of "
            f"`{name}(...)` inside the test, or remove it.",
        )
    if unjudged and facts.get("done"):
        yield Problem("limits", f"{listed(unjudged)}: no time was left to try it on stubs. Make the tests faster.")


def _green(facts: Facts) -> Iterator[Problem]:
    """All tests pass, twice (SKILL-5), each with a report of its own."""
    runs = [run["results"] for run in facts["runs"] if run["kind"] == "skill"]
    if not runs:
        yield Problem("limits", "No time was left to run the tests on the skill. Make the tests faster.")
        return
    bad = 0
    for test in facts["tests"]:
        for turn, results in enumerate(runs, 1):
            one = results.get(test, _UNREPORTED)
            if one["outcome"] != "passed":
                bad += 1
                if bad <= MAX_SHOWN:
                    yield _not_green(test, one, "" if turn == 1 else _flaky(test, turn, runs))
                break
    if bad > MAX_SHOWN:
        yield Problem("green", f"{bad - MAX_SHOWN} more tests do not pass.")
    if not bad and len(runs) < 2:  # noqa: PLR2004  (twice is the rule)
        yield Problem("limits", "No time was left for the second run of the tests. Make the tests faster.")
    unsendable = facts.get("returned", {}).get("unsendable")
    if unsendable:
        yield Problem("green", f"It returns a {unsendable}, which JSON cannot hold: return dict, list, str or numbers.")


def _flaky(test: str, turn: int, runs: Sequence[Mapping[str, Result]]) -> str:
    """In which run it failed that had passed before, and on what it seems to depend."""
    which = {2: "second", 3: "third"}.get(turn, f"{turn}th")
    order = list(runs[turn - 1])
    earlier = order[: order.index(test)] if test in order else []
    before = [set(list(run)[: list(run).index(test)]) for run in runs[: turn - 1] if test in run]
    fresh = [other for other in earlier if all(other not in seen for seen in before)]
    guess = f"perhaps on {listed(fresh)}, which ran before it for the first time" if fresh else "on chance or time"
    return f" the {which} time, in another order: it depends on chance, time or another test ({guess})"


def _not_green(test: str, one: Result, again: str) -> Problem:
    shown = short(test)
    if test.startswith("earlier/"):
        shown += " (a test of the version before; `breaking=true` if the change of behaviour is meant)"
    match one["outcome"]:
        case "failed":
            return Problem("green", f"{shown} fails{again}:\n{one['text']}\nCorrect the code or the test.")
        case "timeout":
            return Problem("green", f"{shown} takes too long{again}: use smaller inputs or end the endless loop.")
        case "skipped" | "xfail":
            return Problem("green", f"{shown} is marked {one['outcome']}: remove the mark, or the test.")
        case "exited":
            return Problem("green", f"{shown} ends its process ({one['text']}){again}: return or raise instead.")
        case _:
            return Problem("green", f"{shown} gave no report{again}: every test must run to its end.")


_FAILED = ("failed", "timeout", "exited")
_UNREPORTED: Result = {"outcome": "unreported", "text": "", "seconds": 0.0}


def short(test: str) -> str:
    return test.partition("::")[2] or test


def listed(tests: list[str]) -> str:
    shown = ", ".join(short(test) for test in tests[:MAX_SHOWN])
    return shown + (f" and {len(tests) - MAX_SHOWN} more" if len(tests) > MAX_SHOWN else "")
