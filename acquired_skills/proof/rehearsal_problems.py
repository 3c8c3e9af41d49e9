"""Lists the problems found in the rehearsal of a proposal's tests (SKILL-3 to SKILL-5)."""

import re
from collections.abc import Iterator, Mapping, Sequence

from acquired_skills.model.proposal import Part, ProposalProblem
from acquired_skills.model.skill_schemas import why_unusable_input
from acquired_skills.proof.docstring_examples import EXAMPLE_PREFIX
from acquired_skills.proof.facts import BoxFacts, ResultOfTest, SharedState, facts_of
from sandbox.contract import End, Outcome

STUBS = 3  # number of kinds of stub in the harness: raises NotImplementedError, returns None, returns a bare object()
MAX_SHOWN = 5  # maximum number of problems of one kind, so that the message stays readable
MAX_TESTS = 300
_MISSING_MODULE = re.compile(r"No module named '(\w+)")


def rehearsal_problems(name: str, outcome: Outcome) -> Iterator[ProposalProblem]:
    """Yield everything in the rehearsal that counts against admission.

    Nothing in the rehearsal counts in favour of admission, because its report comes from a process that also ran the
    proposal's code. `acquired_skills.proof.judging` gathers the evidence that counts in favour.
    """
    if not outcome.ok or not isinstance(outcome.value, dict):
        yield ProposalProblem("limits", _ended_how(outcome))
        return
    try:
        facts = facts_of(outcome.value)
    except ValueError as problem:
        yield ProposalProblem(
            "limits", f"The output of the box is not a valid report ({problem}). Shorten names and texts."
        )
        return
    if "import_error" in facts:
        yield ProposalProblem(
            "code", f"Importing it fails:\n{facts['import_error']}\n{_to_import(facts['import_error'])}"
        )
        return
    if "schema_error" in facts:
        text = f"No JSON Schema can be generated from the signature: {facts['schema_error']}. Change the type hints."
        yield ProposalProblem("schema", text)
    elif facts.get("done") and "schema" not in facts:
        yield ProposalProblem("schema", "The box returned no JSON Schema. Make the signature simpler.")
    elif "schema" in facts and (unusable := why_unusable_input(facts["schema"]["parameters"])):
        text = f"The JSON Schema of the signature cannot be used: {unusable}. Make the signature simpler."
        yield ProposalProblem("schema", text)
    yield from _broken_run(facts)
    tests = facts.get("tests", [])
    if facts.get("done") and not facts.get("collection_errors"):
        if not any(test.startswith("skill/") for test in tests):
            yield ProposalProblem(
                "tests", f"pytest collects no test. Write a `def test_...():` that asserts the result of `{name}(...)`."
            )
        elif len(tests) > MAX_TESTS:
            yield ProposalProblem("tests", f"pytest collects {len(tests)} tests. Send at most {MAX_TESTS}.")
        else:
            yield from _red(name, facts)
            yield from _green(facts)


def _to_import(error: str) -> str:
    if "attempted relative import" in error:
        return "The code is not part of a package, so relative imports fail. Put what it imports into the same file."
    missing = _MISSING_MODULE.search(error)
    if missing is None:
        return "Change the code so that it can be imported."
    return (
        f"If `{missing[1]}` is part of your own code, put the needed parts into the same file. If it is a package, "
        f'declare it in a PEP 723 block at the top: `# /// script`, `# dependencies = ["{missing[1]}"]`, '
        "`# ///`. With such a block, a skill can import only the standard library and the packages that it declares."
    )


def _ended_how(outcome: Outcome) -> str:
    if outcome.end is End.ERROR or outcome.ok:
        shown = outcome.error.message[:1000] if outcome.error else outcome.stderr.decode(errors="replace")[-1000:]
        crash = f"The run of the tests crashed (exit code {outcome.exit_code}): {shown or 'no message'}."
        return f"{crash} Correct the code or the tests."
    return (
        f"The run of the tests was ended by the box's {outcome.end} limit after {outcome.usage.wall_s:.1f} s. "
        "Change the code and the tests so that they stay below the limit."
    )


def _broken_run(facts: BoxFacts) -> Iterator[ProposalProblem]:
    for error in facts.get("collection_errors", [])[:MAX_SHOWN]:
        yield ProposalProblem("tests", f"pytest cannot collect the tests:\n{error}\nCorrect the test module.")
    if facts.get("done"):
        return
    phases: dict[str, tuple[Part, str]] = {
        "import": ("code", "while the code was imported"),
        "collection": ("tests", "while pytest collected the tests"),
        "tests": ("limits", "while the tests ran"),
    }
    (part, doing), ended = phases[facts["phase"]], facts.get("ended")
    if ended == "time":
        text = f"The time limit was reached {doing}. Make this faster, with smaller inputs and without waiting."
    else:
        text = f"The process {ended} {doing}, so there is no report. Remove the exit or signal from the code."
    yield ProposalProblem(part, text)


def _red(name: str, facts: BoxFacts) -> Iterator[ProposalProblem]:
    """Yield a problem if there are tests that prove nothing, because they pass on every stub (SKILL-4)."""
    runs = {run["kind"]: run["results"] for run in facts["runs"] if run["kind"] != "skill"}
    own = [test for test in facts["tests"] if test.startswith("skill/")]
    failed = {test for results in runs.values() for test, one in results.items() if one["outcome"] in _FAILED}
    judged = [test for test in own if all(test in results for results in runs.values())]
    empty = [test for test in own if test not in failed and test in judged and len(runs) == STUBS]
    unjudged = [test for test in own if test not in failed and test not in empty]
    if empty:
        yield ProposalProblem(
            "red",
            f"{list_tests(empty)} prove{'s' if len(empty) == 1 else ''} nothing: there is no failure even if `{name}` "
            f"only raises NotImplementedError, returns None, or returns a bare object(). Assert exact results of "
            f"`{name}(...)` inside the test, or remove the test.",
        )
    if unjudged and facts.get("done"):
        yield ProposalProblem(
            "limits", f"{list_tests(unjudged)}: no time was left to run them on stubs. Make the tests faster."
        )


def _green(facts: BoxFacts) -> Iterator[ProposalProblem]:
    """Yield a problem for each test that does not pass in every run (SKILL-5)."""
    runs = [run["results"] for run in facts["runs"] if run["kind"] == "skill"]
    if not runs:
        yield ProposalProblem("limits", "No time was left to run the tests on the skill. Make the tests faster.")
        return
    bad = 0
    shared = {each["test"]: each for each in facts.get("shared_state", [])}
    for test in facts["tests"]:
        for turn, results in enumerate(runs, 1):
            one = results.get(test, _UNREPORTED)
            if one["outcome"] != "passed":
                bad += 1
                if bad <= MAX_SHOWN and test in shared and one["outcome"] == "failed":
                    yield _shares_state(shared[test], one)
                elif bad <= MAX_SHOWN:
                    yield _not_green(test, one, "" if turn == 1 else _flaky(test, turn, runs))
                break
    if bad > MAX_SHOWN:
        yield ProposalProblem("green", f"{bad - MAX_SHOWN} more tests do not pass.")
    if not bad and len(runs) < 2:  # noqa: PLR2004  (twice is the rule)
        yield ProposalProblem("limits", "No time was left for the second run of the tests. Make the tests faster.")
    yield from _left_outside(facts.get("left_outside", []))
    unsendable = facts.get("observations", {}).get("unsendable")
    if unsendable:
        yield ProposalProblem(
            "green",
            f"The function returns {unsendable}, which a tool cannot return as JSON. Convert it to a dict, a list, a "
            "string or a number, or return a data class.",
        )


def _left_outside(paths: Sequence[str]) -> Iterator[ProposalProblem]:
    if paths:
        yield ProposalProblem(
            "green",
            f"Files were left outside the working folder: {', '.join(paths)}. Only that folder is emptied before each "
            "test. Use relative paths, such as `state.json`. A call keeps only the files in its working folder.",
        )


def _shares_state(shared: SharedState, one: ResultOfTest) -> ProposalProblem:
    """Return the problem to report for a test whose result depends on whether other tests ran before it."""
    test, other = short_name(shared["test"]), short_name(shared["other"])
    if shared.get("files"):
        return ProposalProblem(
            "green",
            f"{test} fails alone, but passes when it finds the files that {other} leaves:\n{one['text']}\nEach test "
            f"begins in an empty folder, so {test} must itself create the files and make the earlier calls that it "
            "needs.",
        )
    after = f"when {other} runs before it" if other else "when several other tests run before it"
    if shared["passes"]:
        what = f"{test} fails alone, but passes {after}"
        do = f"let {test} set up everything that it needs"
    else:
        what = f"{test} passes alone, but fails {after}"
        do = "reset this state before each test, in a fixture with `@pytest.fixture(autouse=True)`"
    return ProposalProblem(
        "green",
        f"{what}:\n{one['text']}\nThese tests share state, such as a global variable, a cache, or a mutable default "
        f"argument. Tests run in random order, so {do}. If the code holds the state, compute the result from the "
        "arguments alone.",
    )


def _flaky(test: str, turn: int, runs: Sequence[Mapping[str, ResultOfTest]]) -> str:
    """Describe in which run a flaky test failed, and what its result may depend on."""
    which = {2: "second", 3: "third"}.get(turn, f"{turn}th")
    order = list(runs[turn - 1])
    earlier = order[: order.index(test)] if test in order else []
    before = [set(list(run)[: list(run).index(test)]) for run in runs[: turn - 1] if test in run]
    fresh = [other for other in earlier if all(other not in seen for seen in before)]
    guess = f"perhaps on {list_tests(fresh)}, which ran before it for the first time" if fresh else "on chance or time"
    return f" the {which} time, in another order: it depends on chance, time or another test ({guess})"


def _not_green(test: str, one: ResultOfTest, again: str) -> ProposalProblem:
    shown = short_name(test)
    if test.startswith("earlier/"):
        shown += " (a test of the earlier version; send `breaking=true` if the behaviour should change)"
    match one["outcome"]:
        case "failed":
            return ProposalProblem("green", f"{shown} fails{again}:\n{one['text']}\n{_correct(shown)}")
        case "timeout":
            return ProposalProblem(
                "green", f"{shown} takes too long{again}. Use smaller inputs, or correct an endless loop."
            )
        case "skipped":
            return ProposalProblem(
                "green", f"{shown} is skipped{again}. Remove its `skip` mark or `pytest.skip` call, or remove the test."
            )
        case "xfail":
            return ProposalProblem(
                "green", f"{shown} is expected to fail (xfail){again}. Assert what the code does, or remove the test."
            )
        case "exited":
            return ProposalProblem(
                "green", f"{shown} ends its process ({one['text']}){again}. Return or raise an exception instead."
            )
        case _:
            return ProposalProblem("green", f"{shown} gave no report{again}. Let every test run to its end.")


def _correct(test: str) -> str:
    if test.startswith(EXAMPLE_PREFIX):
        return "Correct the code, or this example in its docstring."
    return "Correct the code or the test."


_FAILED = ("failed", "timeout", "exited")
_UNREPORTED: ResultOfTest = {"outcome": "unreported", "text": "", "seconds": 0.0}


def short_name(test: str) -> str:
    return test.partition("::")[2] or test


def list_tests(tests: list[str]) -> str:
    shown = ", ".join(short_name(test) for test in tests[:MAX_SHOWN])
    return shown + (f" and {len(tests) - MAX_SHOWN} more" if len(tests) > MAX_SHOWN else "")
