"""Checks a proposal by reading it (SKILL-2). It is parsed, but never compiled or run outside a box."""

import ast
import copy
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from acquired_skills.in_box.packing import MAX_DEPTH
from acquired_skills.jobs.environment import not_allowed
from acquired_skills.model.names import name_problems
from acquired_skills.model.parsed import ParsedProposal, ParsedSource, too_deep
from acquired_skills.model.prediction import parse_predictions
from acquired_skills.model.proposal import MAX_TIMEOUT_S, Part, Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.script_block import BlockError, ScriptBlock, read_script_block
from acquired_skills.proof.command_line import command_line_advice
from acquired_skills.proof.extra_files import check_extra_files, module_names, parse_modules
from acquired_skills.proof.named_parameters import with_named_parameters, without_marker
from acquired_skills.proof.reference_checks import reference_problems
from acquired_skills.proof.snake_case import function_of, in_snake_case, snake_case
from acquired_skills.proof.tool_checks import declaration_problems
from sandbox.contract import Destination

MAX_CODE_BYTES = 64 << 10
MAX_TEST_BYTES = 64 << 10
MAX_REFERENCE_BYTES = 16 << 10  # smaller than the limit of the code, because the report contains the reference
MIN_DESCRIPTION = 12
MAX_DESCRIPTION = 1024  # the Agent Skills format's own limit
MAX_EXAMPLES = 32
MAX_EXAMPLE = 300

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def check(
    proposal: Proposal, static_names: frozenset[str], allowed: frozenset[Destination] = frozenset()
) -> ParsedProposal:
    """Parse a proposal and check everything that can be checked by reading it.

    The name is first converted to snake_case (`acquired_skills.proof.snake_case`).

    Args:
        allowed: The destinations that skills may connect to.

    Raises:
        SkillRefused: The proposal has to be changed. The exception lists every problem, in the order of the proposal's
            parts.
    """
    given = proposal
    proposal, renamed = in_snake_case(given)
    proposal, unmarked = with_named_parameters(proposal)
    problems = check_words(proposal, static_names)
    code = _parsed("code", proposal.code, MAX_CODE_BYTES, problems)
    if code is not None:
        problems += _code(proposal.name, code.tree)
    block = _block(proposal, allowed, problems)
    tests = _parsed("tests", proposal.tests, MAX_TEST_BYTES, problems)
    problems += check_extra_files(proposal)
    modules = parse_modules(proposal.files, problems)
    if code is not None and block is not None:
        nodes = chain(code.nodes, *(each.nodes for each in modules.values()))
        problems += declaration_problems(proposal.name, block.tools, nodes)
    if tests is not None:
        problems += _tests(proposal.name, tests.nodes)
        problems += _imports_of_modules(proposal, tests)
    problems += check_predictions(proposal)
    reference: ParsedSource | None = None
    if given.reference:
        text = without_marker(in_snake_case(replace(given, code=given.reference, tests=""))[0].code, proposal.name)
        proposal = replace(proposal, reference=text)
        reference = _parsed("reference", text, MAX_REFERENCE_BYTES, problems)
        if code is not None and block is not None and reference is not None:
            problems += reference_problems(proposal.name, code, reference, block, module_names(proposal.files))
    if problems or code is None or tests is None or block is None:
        raise SkillRefused(proposal.name, problems)
    notes = tuple(note for note in (renamed, unmarked) if note)
    return ParsedProposal(proposal, code, tests, block, notes, modules, reference)


def check_words(proposal: Proposal, static_names: frozenset[str]) -> list[ProposalProblem]:
    """Check the name, the description and the examples, which skills in every language have."""
    problems = [ProposalProblem("name", text) for text in name_problems(proposal.name, static_names)]
    return [*problems, *_description(proposal)]


def _description(proposal: Proposal) -> Iterator[ProposalProblem]:
    text = proposal.description.strip()
    if len(text) < MIN_DESCRIPTION:
        yield ProposalProblem(
            "description",
            f"The description has {len(text)} characters, which is too short for the skill to be found by searches. "
            "Say in a sentence what the skill does and when to use it.",
        )
    if len(text) > MAX_DESCRIPTION:
        yield ProposalProblem(
            "description", f"The description has {len(text)} characters: use at most {MAX_DESCRIPTION}."
        )
    if len(proposal.examples) > MAX_EXAMPLES:
        yield ProposalProblem("examples", f"There are {len(proposal.examples)} examples: keep the best {MAX_EXAMPLES}.")
    for number, example in enumerate(proposal.examples, 1):
        if not example.strip() or len(example) > MAX_EXAMPLE:
            said = f"has {len(example)} characters" if example.strip() else "is empty"
            yield ProposalProblem(
                "examples", f"Example {number} {said}: make it one request of 1 to {MAX_EXAMPLE} characters."
            )
            break
    if not 0 < proposal.timeout_s <= MAX_TIMEOUT_S:
        yield ProposalProblem(
            "limits", f"timeout_s is {proposal.timeout_s:g}: use a number of seconds above 0, up to {MAX_TIMEOUT_S:g}."
        )
    parts: list[tuple[Part, str]] = [("description", text), *(("examples", each) for each in proposal.examples)]
    for part, shown in parts:
        unprintable = [c for c in shown if not c.isprintable() and c not in "\n\t"]
        if unprintable:
            found = f"U+{ord(unprintable[0]):04X}"
            yield ProposalProblem(part, f"{shown[:60]!a} contains the unprintable character {found}: remove it.")
            break


def _parsed(part: Part, source: str, limit: int, problems: list[ProposalProblem]) -> ParsedSource | None:
    """Parse the source of one part of a proposal. If the source is invalid, add a problem and return None."""
    size = len(source.encode(errors="replace"))
    if size > limit:
        text = (
            f"The source has {size:,} bytes: keep it under {limit:,}, for instance by leaving out what is not needed."
        )
    elif not source.strip():
        text = "The source is empty: send Python code."
    else:
        try:
            parsed = ParsedSource.parse(source)
            text = too_deep(parsed.tree)
            if not text:
                return parsed
        except SyntaxError as error:
            where = f"line {error.lineno}" + (f", column {error.offset}" if error.offset else "")
            line = f": `{error.text.strip()[:120]}`" if error.text else ""
            text = f"Syntax error in {where}{line}: {error.msg}. Correct that line."
        except (ValueError, RecursionError, MemoryError) as error:
            text = f"The source cannot be parsed ({type(error).__name__}: {error}). Make it simpler."
    problems.append(ProposalProblem(part, text))
    return None


def _code(name: str, tree: ast.Module) -> Iterator[ProposalProblem]:
    relative = next((node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level), None)
    if relative is not None:
        module = relative.module or relative.names[0].name
        yield ProposalProblem(
            "code",
            f"Line {relative.lineno} has a relative import, but the code is a top-level module. Send the other modules "
            f"in `files` and write `import {module}` or `from {module} import ...`.",
        )
    functions = [node for node in tree.body if isinstance(node, _Function)]
    own = [node for node in functions if node.name in {name, function_of(name, tree)} - {""} and not _is_overload(node)]
    if not own:
        public = [f"`{node.name}`" for node in functions if not node.name.startswith("_")]
        seen = f" (found: {', '.join(public)})" if public else ""
        other = next((f", but {kind}" for kind in _others(name, tree)), "")
        text = f"There is no top-level function `{name}`{other}{seen}: define `def {name}(...)` at the top level."
        yield ProposalProblem("code", ("" if other else command_line_advice(name, tuple(ast.walk(tree)))) or text)
    if len(own) > 1:
        lines = ", ".join(str(node.lineno) for node in own)
        yield ProposalProblem("code", f"`{name}` is defined {len(own)} times, in lines {lines}: keep one definition.")
    for function in own[-1:]:
        yield from _function(function)


def _others(name: str, tree: ast.Module) -> Iterator[str]:
    """Yield descriptions of classes, variables and nested functions that have this name."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=found) if name in (found, snake_case(found)) and not found.startswith("_"):
                named = "of that name" if found == name else f"`{found}`"
                yield f"a class {named} (a tool must be a function, which may use the class)"
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                yield f"{'a lambda' if isinstance(value, ast.Lambda) else 'a variable'} of that name"
    for inner in ast.walk(tree):
        if isinstance(inner, _Function) and inner.name == name:
            yield f"a nested function of that name in line {inner.lineno}"


def _is_overload(function: _Function) -> bool:
    """Return whether a definition only declares a signature for type checkers (`typing.overload`)."""
    names = [getattr(each, "id", getattr(each, "attr", "")) for each in function.decorator_list]
    return "overload" in names


def check_predictions(proposal: Proposal) -> Iterator[ProposalProblem]:
    """Yield problems with the predictions."""
    sent = (*proposal.expected, *proposal.claimed)
    try:
        parse_predictions({**each.checks, "arguments": each.arguments} for each in sent)
    except ValueError as error:
        yield ProposalProblem("expected", str(error))
        return
    except RecursionError:
        pass
    else:
        if not any(_too_deep([each.arguments, each.checks]) for each in sent):
            return
    yield ProposalProblem("expected", "A prediction is nested too deeply. Use simpler arguments.")


def _too_deep(value: object) -> bool:
    level = [value]
    for _ in range(MAX_DEPTH):
        held = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [inner for each in held for inner in each]
    return bool(level)


def _block(proposal: Proposal, allowed: frozenset[Destination], problems: list[ProposalProblem]) -> ScriptBlock | None:
    """Read the script block of the code, and add any problems. Return None if the block is invalid."""
    try:
        block = read_script_block(proposal.code)
    except BlockError as error:
        problems.append(ProposalProblem("code", str(error)))
        return None
    package = canonicalize_name(proposal.name)
    if any(canonicalize_name(Requirement(each).name) == package for each in block.dependencies):
        text = f"`{proposal.name}` is also the name of a dependency, which the skill would hide: choose another name."
        problems.append(ProposalProblem("name", text))
    refused = not_allowed(block.destinations, allowed)
    if refused:
        problems.append(ProposalProblem("destinations", refused))
    return block


def _function(function: _Function) -> Iterator[ProposalProblem]:
    name, arguments = function.name, function.args
    if not (ast.get_docstring(function) or "").strip():
        yield ProposalProblem(
            "code", f"`{name}` has no docstring: say what it does and describe each parameter under `Args:`."
        )
    if arguments.vararg is not None or arguments.kwarg is not None:
        stars = [f"`{star}{each.arg}`" for star, each in (("*", arguments.vararg), ("**", arguments.kwarg)) if each]
        yield ProposalProblem(
            "code",
            f"{' and '.join(stars)} of `{name}` cannot be passed, because a tool's arguments have names. Write "
            f"`def {name}({_named(arguments)})`, and let the tests call it that way. You can keep the present "
            f"function under another name, such as `_{name}`, and call it from the new one.",
        )


def _named(arguments: ast.arguments) -> str:
    """Return the parameters as source, with a list instead of `*args` and a dict instead of `**kwargs`."""
    args, defaults = [*arguments.posonlyargs, *arguments.args], list(arguments.defaults)
    some = copy.deepcopy(args)
    if arguments.vararg is not None:
        some.append(ast.arg(arguments.vararg.arg, _container("list", arguments.vararg.annotation)))
        defaults += [ast.Tuple([])] if defaults else []
    extra, more = list(arguments.kwonlyargs), list(arguments.kw_defaults)
    if arguments.kwarg is not None:
        extra.append(ast.arg(arguments.kwarg.arg, _container("dict", arguments.kwarg.annotation)))
        more.append(None)
    return ast.unparse(ast.arguments([], some, None, extra, more, None, defaults))


def _container(kind: str, hint: ast.expr | None) -> ast.expr:
    """Return the type hint of a list or dict whose values have this type hint."""
    if hint is None:
        return ast.Name(kind)
    return ast.Subscript(ast.Name(kind), hint if kind == "list" else ast.Tuple([ast.Name("str"), hint]))


def _tests(name: str, nodes: Sequence[ast.AST]) -> Iterator[ProposalProblem]:
    if not any(_imports(node, name) for node in nodes):
        yield ProposalProblem("tests", f"The tests never import the skill: start with `from {name} import {name}`.")
    if not any(isinstance(node, _Function) and node.name.startswith("test") for node in nodes):
        yield ProposalProblem("tests", f"There is no test: write `def test_...():` that asserts what `{name}` returns.")


def _imports_of_modules(proposal: Proposal, tests: ParsedSource) -> Iterator[ProposalProblem]:
    found = sorted(module_names(proposal.files) & tests.imports)
    if found:
        yield ProposalProblem(
            "tests",
            f"The tests import `{found[0]}`, which is an extra file of the skill. Tests can use only the skill itself, "
            f"as agents do. In the tests, import only from `{proposal.name}`.",
        )


def _imports(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == name and not node.level
    return isinstance(node, ast.Import) and any(alias.name == name for alias in node.names)
