"""The gate: what the box found out about a proposal, and the verdict on it (SKILL-1, SKILL-3 to SKILL-5).

The box gathers facts (`acquired_skills.in_box.harness`); the verdict is a function of them, made out here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from acquired_skills.admission.doubles import Neighbour, compare
from acquired_skills.admission.facts import Facts, Result, facts_of
from acquired_skills.admission.script_block import Declared, declared_in
from acquired_skills.admission.static_checks import imported_modules
from acquired_skills.arguments import why_unusable
from acquired_skills.in_box.effort import Effort
from acquired_skills.in_box.files import HARNESS, PYDANTIC, PYTEST, box_files
from acquired_skills.needs import HARNESS_PACKAGES, environment_of, told
from acquired_skills.preload import preload_for
from acquired_skills.proposal import Part, Problem, Proposal, SkillRefused
from sandbox.contract import Call, End, Job, Limits, Outcome, Sandbox, UnresolvedRequirements

STUBS = 3  # kinds of stub in the harness: raises NotImplementedError, returns None, returns a bare object()
MAX_SHOWN = 5  # of the same kind of problem, so that the answer stays readable
MAX_TESTS = 300
MAX_SURVIVORS = 10
MAX_NAME = 200  # characters of a test's name in the report


@dataclass(frozen=True, slots=True)
class Admission:
    """What a proposal proved.

    parameters: JSON Schema of the arguments. plain: arguments and value are JSON as they are; otherwise they are
    converted in the box. tests: how many. seconds: wall time in the box. declared: in the code's own block.
    environment: the requirements of the environment it was proved in; empty without dependencies.
    """

    parameters: Mapping[str, Any]
    plain: bool
    tests: int
    seconds: float
    declared: Declared = field(default_factory=Declared)
    environment: tuple[str, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict)


async def admit(
    proposal: Proposal,
    sandbox: Sandbox,
    *,
    seed: int,
    earlier_tests: str | None = None,
    neighbours: Sequence[Neighbour] = (),
    effort: Effort | None = None,
) -> Admission:
    """Run the gate in a fresh box, after the static checks, with the packages and the way out that the code declares.

    Raises SkillRefused with everything to change, SandboxError when no box can run.
    seed: decides the two random orders of the tests. earlier_tests: those of the version this one replaces.
    neighbours: skills that it may double, the nearest first.
    """
    effort = effort or Effort()
    declared = declared_in(proposal.code)
    if declared.destinations:  # a changed program would send what nobody wrote to a real server, a hundred times
        effort = replace(effort, threshold=0.0)
    job = _job(proposal, declared, seed=seed, earlier_tests=earlier_tests, effort=effort)
    try:
        outcome = await sandbox.run(job)
    except UnresolvedRequirements as error:
        added = f"(For the proof {' and '.join(HARNESS_PACKAGES)} are added, as installed here.)"
        text = f"{error} {added} Change `dependencies` in the PEP 723 block."
        raise SkillRefused(proposal.name, [Problem("dependencies", text)]) from error
    problems = list(verdict(proposal.name, outcome, effort.threshold))
    refused = told(outcome.connections)
    if problems and refused:
        problems.append(Problem("destinations", f"{refused} List what it needs in `destinations`."))
    if problems:
        raise SkillRefused(proposal.name, problems)
    facts = facts_of(outcome.value)  # the verdict has held it against what it must be
    returned = facts.get("returned", {})
    calls, missed = returned.get("calls", []), returned.get("missed", 0)
    compared = await compare(calls, missed, neighbours, sandbox, effort.doubles_s)
    if compared.double:
        raise SkillRefused(proposal.name, [compared.problem()])
    return Admission(
        parameters=facts["schema"]["parameters"],
        plain=facts["schema"]["plain"] and not returned.get("typed"),
        tests=len(facts["tests"]),
        seconds=outcome.usage.wall_s,
        declared=declared,
        environment=job.requirements,
        report=_report(facts, seed, compared.asked),
    )


def _job(
    proposal: Proposal,
    declared: Declared,
    *,
    seed: int,
    earlier_tests: str | None,
    effort: Effort,
) -> Job:
    files = {
        **box_files(HARNESS),
        "pytest.ini": b"[pytest]\n",
        f"skill/{proposal.name}.py": proposal.code.encode(),
        f"skill/test_{proposal.name}.py": proposal.tests.encode(),
    }
    if earlier_tests is not None:
        files[f"earlier/test_{proposal.name}.py"] = earlier_tests.encode()
    arguments = {"name": proposal.name, "seed": seed, "effort": asdict(effort)}
    limits = Limits(wall_s=effort.total_s + 5, cpu_s=effort.total_s + 5, memory_bytes=1 << 30)
    environment = environment_of(declared.dependencies)
    return Job(
        call=Call(path=HARNESS, function="admit", arguments=arguments),
        files=files,
        preload=preload_for(imported_modules(proposal.code), environment, (*PYDANTIC, *PYTEST)),
        limits=limits,
        egress=declared.destinations,
        requirements=environment,
    )


def verdict(name: str, outcome: Outcome, threshold: float = 0.0) -> Iterator[Problem]:
    """Everything that speaks against admission; nothing when it is deserved.

    threshold: the share of mutants that the tests must notice.
    """
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
            yield from _unnoticed(facts, threshold)


def _unnoticed(facts: Facts, threshold: float) -> Iterator[Problem]:
    """Too many changes of the code that no test notices (SKILL-6); those first that a reader meets first."""
    found = facts.get("mutation")
    if found is None:
        return
    survived = sorted(found["survived"], key=lambda each: each["line"])
    met = found["killed"] + len(survived)
    if not met or found["killed"] / met >= threshold:
        return
    shown = [f"- line {each['line']}: `{each['before']}` -> `{each['after']}`" for each in survived[:MAX_SURVIVORS]]
    more = f"\n- and {len(survived) - len(shown)} more" if len(survived) > len(shown) else ""
    yield Problem(
        "mutants",
        f"The tests notice {found['killed']} of {met} small changes of the code, and {threshold:.0%} is asked for. No "
        f"test fails when\n" + "\n".join(shown) + f"{more}\nAssert what tells these apart, edge cases first.",
    )


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
            f"{_listed(empty)} prove{'s' if len(empty) == 1 else ''} nothing: passed just as well when `{name}` only "
            f"raised NotImplementedError, returned None, or returned a bare object(). Assert exact results of "
            f"`{name}(...)` inside the test, or remove it.",
        )
    if unjudged and facts.get("done"):
        yield Problem("limits", f"{_listed(unjudged)}: no time was left to try it on stubs. Make the tests faster.")


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
                    yield _not_green(test, one, turn)
                break
    if bad > MAX_SHOWN:
        yield Problem("green", f"{bad - MAX_SHOWN} more tests do not pass.")
    if not bad and len(runs) < 2:  # noqa: PLR2004  (twice is the rule)
        yield Problem("limits", "No time was left for the second run of the tests. Make the tests faster.")
    unsendable = facts.get("returned", {}).get("unsendable")
    if unsendable:
        yield Problem("green", f"It returns a {unsendable}, which JSON cannot hold: return dict, list, str or numbers.")


def _not_green(test: str, one: Result, turn: int) -> Problem:
    shown = _short(test)
    if test.startswith("earlier/"):
        shown += " (a test of the version before; `breaking=true` if the change of behaviour is meant)"
    again = "" if turn == 1 else " the second time, in another order: it depends on chance, time or another test"
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


def _report(facts: Facts, seed: int, compared: int) -> dict[str, Any]:
    """What is kept with the skill: how each stub and each run went, in counts."""
    return {
        "seed": seed,
        "tests": [_short(test)[:MAX_NAME] for test in facts["tests"]],
        "runs": [
            {"kind": run["kind"], "failed": sum(one["outcome"] in _FAILED for one in run["results"].values())}
            for run in facts["runs"]
        ],
        "compared": compared,
        "mutants": facts.get("mutation", {}),
    }


_FAILED = ("failed", "timeout", "exited")
_UNREPORTED: Result = {"outcome": "unreported", "text": "", "seconds": 0.0}


def _short(test: str) -> str:
    return test.partition("::")[2] or test


def _listed(tests: list[str]) -> str:
    shown = ", ".join(_short(test) for test in tests[:MAX_SHOWN])
    return shown + (f" and {len(tests) - MAX_SHOWN} more" if len(tests) > MAX_SHOWN else "")
