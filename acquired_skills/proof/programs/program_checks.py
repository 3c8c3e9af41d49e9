"""Checks the proposal of a Node or Bash skill by reading it (SKILL-22)."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from acquired_skills.in_box.common_js import as_es_module
from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.model.proposal import Part, Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.script_block import ScriptBlock
from acquired_skills.proof.extra_files import check_extra_files
from acquired_skills.proof.programs.node_imports import import_problems
from acquired_skills.proof.programs.program_cases import InvalidCases, ProgramCase, read_program_cases
from acquired_skills.proof.programs.program_language import PROGRAM_LANGUAGES, constants_of
from acquired_skills.proof.programs.suggested_comment import suggested_comment
from acquired_skills.proof.snake_case import snake_case
from acquired_skills.proof.static_checks import MAX_CODE_BYTES, MAX_TEST_BYTES, check_predictions, check_words
from sandbox.contract import Destination, Language

_CONVERTED = "The code is a CommonJS module. It is kept as an ES module that contains it, so it runs in strict mode."


def check_program(
    proposal: Proposal,
    static_names: frozenset[str],
    allowed: frozenset[Destination] = frozenset(),  # noqa: ARG001 -- as `static_checks.check`
) -> ParsedProposal:
    """Check everything that can be checked by reading a proposal.

    Returns:
        The parsed proposal. Its code has an empty syntax tree, and nodes only for the constants of the program.

    Raises:
        SkillRefused: The proposal has to be changed.
    """
    name = snake_case(proposal.name)
    notes = () if name == proposal.name else (f"Skill names are in snake_case, so this skill is named `{name}`.",)
    proposal = replace(proposal, name=name)
    if proposal.language is Language.NODE and (code := as_es_module(proposal.code)) != proposal.code:
        proposal, notes = replace(proposal, code=code), (*notes, _CONVERTED)
    problems = [*check_words(proposal, static_names), *check_extra_files(proposal)]
    if not (
        _sized("code", proposal.code, MAX_CODE_BYTES, problems)
        | _sized("tests", proposal.tests, MAX_TEST_BYTES, problems)
    ):
        cases: Sequence[ProgramCase] = ()
        unreadable = []
        try:
            cases = read_program_cases(proposal.tests)
        except InvalidCases as error:
            unreadable.append(ProposalProblem("cases", str(error)))
        problems += [*_code_problems(proposal, cases), *unreadable]
    problems += check_predictions(proposal)
    if proposal.reference:
        text = "Only Python skills can have a reference. Leave out `reference`, and predict results in `expected`."
        problems.append(ProposalProblem("reference", text))
    if problems:
        raise SkillRefused(name, problems)
    return parsed_program(proposal, notes)


def parsed_program(proposal: Proposal, notes: tuple[str, ...] = ()) -> ParsedProposal:
    """Return the parsed form of a proposal that has passed `check_program`."""
    nodes = tuple(ast.Constant(each) for each in constants_of(proposal.code))
    code = ParsedSource(proposal.code, ast.Module([], []), nodes, frozenset())
    tests = ParsedSource(proposal.tests, ast.Module([], []), (), frozenset())
    return ParsedProposal(proposal, code, tests, ScriptBlock(), notes)


def _sized(part: Part, text: str, most: int, problems: list[ProposalProblem]) -> bool:
    """Add a problem and return True if a part of the proposal is empty, too long or not valid UTF-8 text."""
    data = text.encode(errors="replace")
    if text.strip() and len(data) <= most and data.decode() == text and "\0" not in text:
        return False
    said = f"It has {len(data):,} bytes: keep it under {most:,}." if len(data) > most else "Send it as UTF-8 text."
    problems.append(ProposalProblem(part, said if text.strip() else "It is empty."))
    return True


def _code_problems(proposal: Proposal, cases: Sequence[ProgramCase]) -> Iterator[ProposalProblem]:
    """Yield what to change in the code, with the comment to write if it has none."""
    found = PROGRAM_LANGUAGES[proposal.language].interface(proposal.name, proposal.code)
    problems = list(found.problems)
    if found.undescribed is not None and cases:
        comment = suggested_comment(found.undescribed, [case.expected for case in cases])
        problems[-1] += (
            f" Judging by the cases, the comment could be this one; correct it where it is wrong:\n{comment}"
        )
    yield from (ProposalProblem("code", text) for text in problems)
    if proposal.language is Language.NODE:
        yield from (ProposalProblem("code", text) for text in import_problems(proposal.code, proposal.files))
