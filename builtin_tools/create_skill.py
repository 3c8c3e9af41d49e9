"""`create_skill`: creates a tool from code with tests, and keeps it only if the tests, run in a box, prove that it
works.
"""

import asyncio
from functools import partial
from typing import Any

from typing_extensions import TypedDict

from acquired_skills.distil.distiller import DistilledProposal, Distiller
from acquired_skills.distil.function_code import NotDistillable
from acquired_skills.lifecycle.approvals import approver
from acquired_skills.lifecycle.asking import ANSWERED_WITHIN_S, AskingLibrary
from acquired_skills.lifecycle.library import SkillLibrary
from acquired_skills.model.prediction import parse_predictions
from acquired_skills.model.proposal import DEFAULT_TIMEOUT_S, Proposal, SkillRefused
from acquired_skills.model.provenance import MOST_CHARS, of_call
from acquired_skills.model.skill import SkillError
from acquired_skills.portable.drafts import origin_of
from acquired_skills.proof.admission_report import report_notes
from acquired_skills.tools.describe import signature
from engine.contract.context import CallContext, Produced
from engine.contract.failure import ToolFailure
from engine.dispatch.inner_calls import InnerCalls
from engine.dispatch.refusals import wrong_arguments
from engine.policy.approval import EXPIRES_S, ApprovalGuard
from engine.policy.forms import PersonForms
from engine.registry.decorate import tool
from sandbox.contract import Language

LISTED_BY_QUERY = "it is listed from the next turn on when a request matches its description or names it."
LISTED_AT_ONCE = "it is on the list of tools now."  # for clients that list tools without a query, such as MCP clients


class CreateOutput(TypedDict):
    """The version of the skill that was created.

    `parameters` and `returns` are JSON Schemas. `returns` is null if the return annotation is too general.
    """

    name: str
    version: int
    state: str
    tests: int
    parameters: dict[str, Any]
    returns: dict[str, Any] | None
    dependencies: list[str]
    destinations: list[str]


@tool(
    required_permission="user",
    category="skills",
    requires=("sandbox",),
    side_effects=("skill_write",),
    timeout_s=120 + EXPIRES_S + ANSWERED_WITHIN_S,  # includes the waits for a person's approval and answers
    short_description="Create a new tool from code with tests, kept only if the tests prove that it works.",
)
async def create_skill(
    ctx: CallContext,
    *,
    name: str = "",
    description: str = "",
    code: str = "",
    tests: str = "",
    examples: list[str] | None = None,
    breaking: bool = False,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    expected: list[dict[str, Any]] | None = None,
    files: dict[str, str] | None = None,
    language: Language = Language.PYTHON,
    reference: str = "",
    drafted_from: str | None = None,
    from_run: str = "",
) -> Produced[CreateOutput]:
    """Create a new reusable tool (a skill) from Python code and pytest tests that prove that it works.

    Use it for a computation or conversion that will be needed again. To run code once, use `execute`; to combine calls
    of existing tools, use `compose_skill`.

    The skill is admitted only if, in a sandbox, every test fails on a stub of the code, all tests pass twice on the
    code, and the tests detect nearly all small changes to it. It is then kept permanently as a tool that searches find
    by its description. A refusal lists everything to change: change it and call again. If the tests prove too little,
    the refusal asks what a few calls should return: send all answers so far in `expected`. The name of an existing
    skill creates a new version of it.

    `name`, `description`, `code` and `tests` are needed, except that with `from_run` what is missing is proposed from a
    program that you ran with `execute` and that called tools.

    Args:
        name: Name of the skill and of its function, in snake_case, such as roman_numeral. A name such as romanNumeral
            becomes roman_numeral.
        description: What the skill does and when to use it, in one to three sentences. Searches find it by this text.
        code: One Python file with a function named like the skill, whose docstring has an `Args:` section. Type hints
            make its schema exact; missing ones are inferred from the calls of the tests. The return annotation is
            checked at every call. The function takes and returns JSON values, or tuples, sets, dates, decimals,
            collections, numpy arrays, pandas tables and instances of its own classes, which are converted from and to
            JSON. It may be async, or yield its result. It opens workspace files by relative path. Other functions and
            classes may have any name. Packages and network destinations are declared in a PEP 723 block at the top:
            `# /// script`, `# dependencies = ["requests>=2"]`, `# [tool.knackbox]`,
            `# destinations = ["api.example.com:443"]`, `# ///`. The code can connect only to
            declared destinations that the operator allows. To call other tools, declare them with
            `# tools = ["file_system"]` in the same table, and write `from knackbox import tools`.
        tests: A pytest module that starts with `from <name> import <name>` and asserts exact results, including edge
            cases and errors. A test that also passes on a function that returns None is refused. If the code reads the
            clock, a test fixes it: `def test_it(clock):` and `clock("2026-03-01T09:30")`. If it calls tools, tests
            state what these answer, and no tool is called: `def test_it(tools):` and `tools.answers([{"tool":
            "weather", "arguments": {"place": "Oslo"}, "value": "cold"}])`; also try `tools.returns("weather", "other")`
            and `tools.fails("weather")` (the code gets a `ToolError`). `tools.calls` lists the calls made.
        examples: Requests, in a user's words, that this skill should answer. Three to ten make it much easier to find.
        breaking: True if a new version is meant to behave differently and need not pass the tests of the previous
            version.
        timeout_s: Seconds that one call of the skill may take.
        expected: What calls should return, worked out from the description, not by running the code:
            `[{"arguments": {"number": 4}, "result": "IV"}, {"arguments": {"number": 0}, "raises": "ValueError"}]`.
            In place of `result`: `raises`, `one_of` (list), `close_to` (number), `between` ([least, most]), `length`,
            `contains`, `sorted` (true), `permutation_of` (list), or `unspecified` (true) for arguments that the skill
            is not meant for.
        files: Further files of the skill by path, such as `{"rates.json": "...", "parsing.py": "..."}`: modules that
            `code` imports (`import parsing`), and data that it reads from `Path(__file__).parent`. Tests import from
            the skill only.
        language: "python", "node" or "bash". For Node, `code` is a module that exports a function of the skill's name
            or by default, with a JSDoc comment (`@param {string} text - …` for each parameter, `@returns {string}`). It
            may import Node's own modules, and `files`, also below `node_modules/`. For Bash, it is a script that begins
            with such a comment; its arguments are `$1`, `$2`, …, and an argument named `stdin` becomes its standard
            input. Its output is the result: text, or JSON if `@returns` names another type. A status other than 0
            raises `ExitStatus1` and so on. `tests` is then a JSON list of cases: `[{"arguments": {"text": "a b"},
            "result": "a-b"}, {"arguments": {"text": ""}, "raises": "RangeError"}]`, as in `expected`. If the skill uses
            files, a case also has `files` (text by path, before the call) and `after` (the same, after the call).
        reference: A second implementation, as one Python file with the same function, written from the description in
            another way, such as slow and obvious. It answers the questions in place of `expected` where it agrees with
            the code; where they differ, you are asked which is right. A copy of the code proves nothing.
        drafted_from: The script from which manage_skills drafted the code, such as `instructions/scripts/file.py`.
        from_run: The id of a run, or of the call of `execute` in it, whose program is to become a skill. Literals of
            the program become parameters, and its recorded calls become tests. If the proposal is refused, the refusal
            contains it: correct it, and send it again with `from_run`.
    """
    library = AskingLibrary(ctx.need(SkillLibrary), ctx.services.get(PersonForms), ctx.clock)
    provenance = of_call(ctx, "create_skill")
    proposed: DistilledProposal | None = None
    if from_run:
        if not (name and description and code and tests):
            proposed = await _distilled(ctx, from_run, name, description)
            made = proposed.proposal
            name, description, code, tests = (
                name or made.name,
                description or made.description,
                code or made.code,
                tests or made.tests,
            )
            examples = examples or list(made.examples)
        provenance["distilled_from"] = from_run[:MOST_CHARS]
    elif missing := [
        part
        for part, text in {"name": name, "description": description, "code": code, "tests": tests}.items()
        if not text
    ]:
        raise wrong_arguments(f"`{missing[0]}` is missing. Set it, or set `from_run` to the id of a run.")
    if drafted_from is not None:
        provenance["drafted_from"] = await _origin(library.library, drafted_from, name, code)
    try:
        predictions = parse_predictions(expected or ())
    except ValueError as error:
        raise ToolFailure(f"expected: {error}", reason="proposal_refused", may_have_started=False) from error
    proposal = Proposal(
        name,
        description,
        code,
        tests,
        tuple(examples or ()),
        breaking,
        timeout_s,
        provenance,
        predictions,
        files or {},
        language,
        reference,
    )
    approval: ApprovalGuard | None = ctx.services.get(ApprovalGuard)
    ctx.progress("checking the proposal", 0.0)
    try:
        ask = approver(approval, ctx.call_id, ctx.turn.user)
        skill = await library.create(proposal, ctx.progress, ask, agent=ctx.turn.agent_key)
    except SkillRefused as refused:
        questions = [{"arguments": dict(each.arguments), "disputed": each.disputed} for each in refused.questions]
        output: dict[str, Any] = {"questions": questions} if questions else {}
        text = str(refused)
        if proposed is not None:
            output["proposal"] = proposed.value()
            text += f"\nThe proposed code:\n{code}\nThe proposed tests:\n{tests}"
        raise ToolFailure(text, reason="proposal_refused", may_have_started=False, output=output or None) from refused
    except SkillError as error:
        raise ToolFailure(str(error), reason="skill_not_changed", may_have_started=False) from error
    notes = "".join(f"\n{note}" for note in report_notes(skill.admission))
    tests_passed = f"{skill.tests} test{'s' if skill.tests != 1 else ''} passed"
    return Produced(
        value={
            "name": skill.name,
            "version": skill.version,
            "state": skill.state.value,
            "tests": skill.tests,
            "parameters": dict(skill.parameters),
            "returns": None if skill.returns is None else dict(skill.returns),
            "dependencies": list(skill.dependencies),
            "destinations": list(skill.destinations),
        },
        message=(
            f"`{skill.name}` version {skill.version} is admitted ({tests_passed}). Call it as {signature(skill)}; "
            f"{LISTED_BY_QUERY if ctx.turn.query is not None else LISTED_AT_ONCE}{notes}"
        ),
        side_effects=(f"created:skill:{skill.name}:{skill.version}",),
    )


async def _distilled(ctx: CallContext, run: str, name: str, description: str) -> DistilledProposal:
    """Return the proposal made from a run of this user.

    Raises:
        ToolFailure: There is no such program, or it cannot become a skill.
    """
    try:
        distiller, inner = ctx.need(Distiller), ctx.need(InnerCalls)
        find = partial(inner.find, turn=ctx.turn)
        return await distiller.distil(run, find, user=ctx.turn.user, name=name, description=description)
    except NotDistillable as error:
        raise ToolFailure(f"from_run: {error}", reason="not_distillable", may_have_started=False) from error


async def _origin(library: SkillLibrary, drafted_from: str, name: str, code: str) -> str:
    """Return the provenance of code that was drafted from a script of instructions.

    Raises:
        ToolFailure: The script has no such function.
    """
    instructions, _, file = drafted_from.partition("/")
    try:
        files = await asyncio.to_thread(library.instructions.files, instructions)
        return origin_of(instructions, files, file, name, code)
    except (SkillError, ValueError) as error:
        raise ToolFailure(f"drafted_from: {error}", reason="proposal_refused", may_have_started=False) from error
