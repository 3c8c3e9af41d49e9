"""Checks the proposal of a Node or Bash skill by reading it (SKILL-22)."""

import ast
import posixpath
import re
from dataclasses import replace

from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.model.proposal import Part, Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.script_block import ScriptBlock
from acquired_skills.proof.extra_files import check_extra_files
from acquired_skills.proof.programs.program_cases import InvalidCases, read_program_cases
from acquired_skills.proof.programs.program_language import PROGRAM_LANGUAGES, constants_of
from acquired_skills.proof.snake_case import snake_case
from acquired_skills.proof.static_checks import MAX_CODE_BYTES, MAX_TEST_BYTES, check_predictions, check_words
from sandbox.contract import Destination

_OWN = re.compile(r"""(?m)^\s*(?:import\b[^'";=]*|export\b[^'";=]*\bfrom\s*)['"](\.\.?/[^'"]+)['"]""")
_PACKAGE = re.compile(
    r"""^\s*(?:import\s[^'"]*|export\s[^'"]*from\s*|import\s*\(\s*)['"]([^'"./][^'"]*)['"]""", re.MULTILINE
)


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
    problems = [*check_words(proposal, static_names), *check_extra_files(proposal)]
    if not (
        _sized("code", proposal.code, MAX_CODE_BYTES, problems)
        | _sized("tests", proposal.tests, MAX_TEST_BYTES, problems)
    ):
        found = PROGRAM_LANGUAGES[proposal.language].interface(name, proposal.code)
        problems += [ProposalProblem("code", text) for text in (*found.problems, *_packages(proposal))]
        try:
            read_program_cases(proposal.tests)
        except InvalidCases as error:
            problems.append(ProposalProblem("cases", str(error)))
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


def _packages(proposal: Proposal) -> list[str]:
    """Return a problem if a Node program imports a package, or a file that is not among its extra files."""
    if proposal.language.value != "node":
        return []
    missing = sorted({each for each in _OWN.findall(proposal.code) if posixpath.normpath(each) not in proposal.files})
    if missing:
        return [f"It imports `{missing[0]}`, which is not among its files: pass it in `files`, under this path."]
    found = sorted({each for each in _PACKAGE.findall(proposal.code) if not each.startswith("node:")})
    if not found:
        return []
    text = (
        f"The code imports `{found[0]}`, but packages cannot be installed. Use built-in modules with the prefix "
        "`node:` (such as `node:fs`), or send the module in `files` and import it as `./<name>.mjs`."
    )
    return [text]
