"""What can be said of a proposal by reading it (SKILL-2). It is parsed, never compiled or run: that is the box's."""

import ast
import functools
from collections.abc import Callable, Iterator

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from acquired_skills.jobs.environment import not_allowed
from acquired_skills.model.names import name_problems
from acquired_skills.model.parsing import parse_source
from acquired_skills.model.proposal import MAX_TIMEOUT_S, Part, Problem, Proposal
from acquired_skills.model.script_block import BlockError, declared_in
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
) -> list[Problem]:
    """Every problem that reading finds, in the order of the proposal's parts. allowed: where skills may connect to."""
    problems = check_words(proposal, static_names)
    problems += _source("code", proposal.code, MAX_CODE_BYTES, lambda tree: _code(proposal.name, tree))
    problems += _block(proposal, allowed)
    problems += _source("tests", proposal.tests, MAX_TEST_BYTES, lambda tree: _tests(proposal.name, tree))
    return problems


def check_words(proposal: Proposal, static_names: frozenset[str]) -> list[Problem]:
    """The same of its name, description and examples alone, whatever its program is."""
    problems = [Problem("name", text) for text in name_problems(proposal.name, static_names)]
    return [*problems, *_description(proposal)]


@functools.lru_cache(maxsize=16)  # asked for each box of an admission
def imported_modules(source: str) -> frozenset[str]:
    """Top-level modules that a source imports anywhere. Raises SyntaxError."""
    found: set[str] = set()
    for node in ast.walk(parse_source(source)):
        if isinstance(node, ast.Import):
            found.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return frozenset(found)


def _description(proposal: Proposal) -> Iterator[Problem]:
    text = proposal.description.strip()
    if len(text) < MIN_DESCRIPTION:
        yield Problem("description", "It is too short to be found by: say in a sentence what the skill does and when.")
    if len(text) > MAX_DESCRIPTION:
        yield Problem("description", f"It has {len(text)} characters: keep it to {MAX_DESCRIPTION}.")
    if len(proposal.examples) > MAX_EXAMPLES:
        yield Problem("examples", f"There are {len(proposal.examples)}: keep the best {MAX_EXAMPLES}.")
    if any(not example.strip() or len(example) > MAX_EXAMPLE for example in proposal.examples):
        yield Problem("examples", f"Each example is one request of 1 to {MAX_EXAMPLE} characters.")
    if not 0 < proposal.timeout_s <= MAX_TIMEOUT_S:
        yield Problem("limits", f"timeout_s is {proposal.timeout_s:g}: give seconds above 0, up to {MAX_TIMEOUT_S:g}.")
    unprintable = [t for t in (text, *proposal.examples) if any(not c.isprintable() and c not in "\n\t" for c in t)]
    if unprintable:
        yield Problem("description", "Remove control characters from the description and the examples.")


def _source(part: Part, source: str, limit: int, inspect: Callable[[ast.Module], Iterator[Problem]]) -> list[Problem]:
    size = len(source.encode(errors="replace"))
    if size > limit:
        return [Problem(part, f"It has {size:,} bytes: keep it under {limit:,}.")]
    if not source.strip():
        return [Problem(part, "It is empty: give the Python source.")]
    try:
        return list(inspect(parse_source(source)))
    except SyntaxError as error:
        where = f"line {error.lineno}" + (f", column {error.offset}" if error.offset else "")
        line = f": `{error.text.strip()[:120]}`" if error.text else ""
        return [Problem(part, f"Syntax error in {where}{line}: {error.msg}. Correct that line.")]
    except (ValueError, RecursionError, MemoryError) as error:
        return [Problem(part, f"It cannot be parsed ({type(error).__name__}: {error}): make it simpler.")]


def _code(name: str, tree: ast.Module) -> Iterator[Problem]:
    functions = [node for node in tree.body if isinstance(node, _Function)]
    public = [node.name for node in functions if not node.name.startswith("_")]
    others = [f"`{other}`" for other in public if other != name]
    own = [node for node in functions if node.name == name]
    if not own:
        seen = f" (found: {', '.join(others)})" if others else ""
        yield Problem("code", f"There is no top-level function `{name}`{seen}: define `def {name}(...)`.")
    if own and others:
        yield Problem(
            "code",
            f"One public function is allowed, `{name}`: give {', '.join(others)} a leading underscore, or make "
            "a skill of its own.",
        )
    if len(own) > 1:
        yield Problem("code", f"`{name}` is defined {len(own)} times: keep one.")
    for function in own[-1:]:
        yield from _function(function)


def _block(proposal: Proposal, allowed: frozenset[Destination]) -> Iterator[Problem]:
    try:
        declared = declared_in(proposal.code)
    except BlockError as error:
        yield Problem("code", str(error))
        return
    own = [each for each in declared.dependencies if canonicalize_name(Requirement(each).name) == _package(proposal)]
    if own:
        yield Problem(
            "name", f"`{proposal.name}` is one of its own dependencies, which it would hide: choose another name."
        )
    refused = not_allowed(declared.destinations, allowed)
    if refused:
        yield Problem("destinations", refused)


def _package(proposal: Proposal) -> str:
    return str(canonicalize_name(proposal.name))


def _function(function: _Function) -> Iterator[Problem]:
    name, arguments = function.name, function.args
    if isinstance(function, ast.AsyncFunctionDef):
        yield Problem("code", f"`{name}` is async: make it a plain `def`; the engine runs it in a box of its own.")
    if not (ast.get_docstring(function) or "").strip():
        yield Problem("code", f"`{name}` has no docstring: say what it does and describe each parameter under `Args:`.")
    if arguments.posonlyargs:
        yield Problem("code", f"`{name}` has positional-only parameters: remove the `/`, arguments come by name.")
    for star, extra in (("*", arguments.vararg), ("**", arguments.kwarg)):
        if extra is not None:
            yield Problem("code", f"`{star}{extra.arg}` cannot be described to a caller: name each parameter.")
    bare = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if a.annotation is None]
    if bare:
        which = ", ".join(f"`{arg}`" for arg in bare)
        yield Problem("code", f"Parameters without a type hint: {which}. Add one to each, such as `{bare[0]}: str`.")


def _tests(name: str, tree: ast.Module) -> Iterator[Problem]:
    if not any(_imports(node, name) for node in ast.walk(tree)):
        yield Problem("tests", f"They never import the skill: start with `from {name} import {name}`.")
    if not any(isinstance(node, _Function) and node.name.startswith("test") for node in ast.walk(tree)):
        yield Problem("tests", f"There is no test: write `def test_...():` that assert what `{name}` returns.")


def _imports(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == name and not node.level
    return isinstance(node, ast.Import) and any(alias.name == name for alias in node.names)
