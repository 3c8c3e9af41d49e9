"""Checks a proposal by reading it (SKILL-2). It is parsed, but never compiled or run outside a box."""

import ast
from collections.abc import Iterator, Sequence

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from acquired_skills.jobs.environment import not_allowed
from acquired_skills.model.names import name_problems
from acquired_skills.model.parsed import ParsedProposal, ParsedSource
from acquired_skills.model.proposal import MAX_TIMEOUT_S, Part, Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.script_block import BlockError, ScriptBlock, read_script_block
from sandbox.contract import Destination

MAX_CODE_BYTES = 64 << 10
MAX_TEST_BYTES = 64 << 10
MIN_DESCRIPTION = 12
MAX_DESCRIPTION = 1024  # the Agent Skills format's own limit
MAX_EXAMPLES = 32
MAX_EXAMPLE = 300

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def check(
    proposal: Proposal, static_names: frozenset[str], allowed: frozenset[Destination] = frozenset()
) -> ParsedProposal:
    """Parse a proposal and check everything that can be checked by reading it.

    Args:
        allowed: where skills may connect to.

    Raises:
        SkillRefused: with every problem, in the order of the proposal's parts.
    """
    problems = check_words(proposal, static_names)
    code = _parsed("code", proposal.code, MAX_CODE_BYTES, problems)
    if code is not None:
        problems += _code(proposal.name, code.tree)
    block = _block(proposal, allowed, problems)
    tests = _parsed("tests", proposal.tests, MAX_TEST_BYTES, problems)
    if tests is not None:
        problems += _tests(proposal.name, tests.nodes)
    if problems or code is None or tests is None or block is None:
        raise SkillRefused(proposal.name, problems)
    return ParsedProposal(proposal, code, tests, block)


def check_words(proposal: Proposal, static_names: frozenset[str]) -> list[ProposalProblem]:
    """Check the name, description and examples, whatever the program is."""
    problems = [ProposalProblem("name", text) for text in name_problems(proposal.name, static_names)]
    return [*problems, *_description(proposal)]


def _description(proposal: Proposal) -> Iterator[ProposalProblem]:
    text = proposal.description.strip()
    if len(text) < MIN_DESCRIPTION:
        yield ProposalProblem(
            "description",
            "It is too short to be found by retrieval: say in a sentence what the skill does and when to use it.",
        )
    if len(text) > MAX_DESCRIPTION:
        yield ProposalProblem("description", f"It has {len(text)} characters: keep it to {MAX_DESCRIPTION}.")
    if len(proposal.examples) > MAX_EXAMPLES:
        yield ProposalProblem("examples", f"There are {len(proposal.examples)}: keep the best {MAX_EXAMPLES}.")
    if any(not example.strip() or len(example) > MAX_EXAMPLE for example in proposal.examples):
        yield ProposalProblem("examples", f"Each example is one request of 1 to {MAX_EXAMPLE} characters.")
    if not 0 < proposal.timeout_s <= MAX_TIMEOUT_S:
        yield ProposalProblem(
            "limits", f"timeout_s is {proposal.timeout_s:g}: give seconds above 0, up to {MAX_TIMEOUT_S:g}."
        )
    unprintable = [t for t in (text, *proposal.examples) if any(not c.isprintable() and c not in "\n\t" for c in t)]
    if unprintable:
        yield ProposalProblem("description", "Remove control characters from the description and the examples.")


def _parsed(part: Part, source: str, limit: int, problems: list[ProposalProblem]) -> ParsedSource | None:
    """Parse a source; on a fault add a problem and return None."""
    size = len(source.encode(errors="replace"))
    if size > limit:
        text = f"It has {size:,} bytes: keep it under {limit:,}."
    elif not source.strip():
        text = "It is empty: give the Python source."
    else:
        try:
            return ParsedSource.parse(source)
        except SyntaxError as error:
            where = f"line {error.lineno}" + (f", column {error.offset}" if error.offset else "")
            line = f": `{error.text.strip()[:120]}`" if error.text else ""
            text = f"Syntax error in {where}{line}: {error.msg}. Correct that line."
        except (ValueError, RecursionError, MemoryError) as error:
            text = f"It cannot be parsed ({type(error).__name__}: {error}): make it simpler."
    problems.append(ProposalProblem(part, text))
    return None


def _code(name: str, tree: ast.Module) -> Iterator[ProposalProblem]:
    functions = [node for node in tree.body if isinstance(node, _Function)]
    public = [node.name for node in functions if not node.name.startswith("_")]
    others = [f"`{other}`" for other in public if other != name]
    own = [node for node in functions if node.name == name]
    if not own:
        seen = f" (found: {', '.join(others)})" if others else ""
        yield ProposalProblem("code", f"There is no top-level function `{name}`{seen}: define `def {name}(...)`.")
    if own and others:
        yield ProposalProblem(
            "code",
            f"One public function is allowed, `{name}`: give {', '.join(others)} a leading underscore, or make "
            "a skill of its own.",
        )
    if len(own) > 1:
        yield ProposalProblem("code", f"`{name}` is defined {len(own)} times: keep one.")
    for function in own[-1:]:
        yield from _function(function)


def _block(proposal: Proposal, allowed: frozenset[Destination], problems: list[ProposalProblem]) -> ScriptBlock | None:
    """Read the script block of the code, and add its problems; None for an invalid block."""
    try:
        block = read_script_block(proposal.code)
    except BlockError as error:
        problems.append(ProposalProblem("code", str(error)))
        return None
    package = canonicalize_name(proposal.name)
    if any(canonicalize_name(Requirement(each).name) == package for each in block.dependencies):
        text = f"`{proposal.name}` is one of its own dependencies, and the skill would hide it: choose another name."
        problems.append(ProposalProblem("name", text))
    refused = not_allowed(block.destinations, allowed)
    if refused:
        problems.append(ProposalProblem("destinations", refused))
    return block


def _function(function: _Function) -> Iterator[ProposalProblem]:
    name, arguments = function.name, function.args
    if isinstance(function, ast.AsyncFunctionDef):
        yield ProposalProblem(
            "code", f"`{name}` is async: make it a plain `def`; the engine runs it in a box of its own."
        )
    if not (ast.get_docstring(function) or "").strip():
        yield ProposalProblem(
            "code", f"`{name}` has no docstring: say what it does and describe each parameter under `Args:`."
        )
    if arguments.posonlyargs:
        yield ProposalProblem(
            "code", f"`{name}` has positional-only parameters: remove the `/`, arguments come by name."
        )
    for star, extra in (("*", arguments.vararg), ("**", arguments.kwarg)):
        if extra is not None:
            yield ProposalProblem("code", f"`{star}{extra.arg}` cannot be described to a caller: name each parameter.")
    bare = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if a.annotation is None]
    if bare:
        which = ", ".join(f"`{arg}`" for arg in bare)
        yield ProposalProblem(
            "code", f"Parameters without a type hint: {which}. Add one to each, such as `{bare[0]}: str`."
        )


def _tests(name: str, nodes: Sequence[ast.AST]) -> Iterator[ProposalProblem]:
    if not any(_imports(node, name) for node in nodes):
        yield ProposalProblem("tests", f"They never import the skill: start with `from {name} import {name}`.")
    if not any(isinstance(node, _Function) and node.name.startswith("test") for node in nodes):
        yield ProposalProblem("tests", f"There is no test: write `def test_...():` that asserts what `{name}` returns.")


def _imports(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == name and not node.level
    return isinstance(node, ast.Import) and any(alias.name == name for alias in node.names)
