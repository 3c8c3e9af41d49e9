"""Checks the tools that a proposal declares: by reading its code, and by what its tests try (CODE-8).

The code is only parsed here. What the tests try is known from the calls that were replayed without them: each declared
tool must fail in one of them and give different answers in two, or else the tests say nothing about a tool's failures
and wrong answers, which an agent's calls will meet.
"""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence

from acquired_skills.in_box.recorded_tools import MODULE, NOT_DECLARED, NOT_RECORDED, identifier
from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.proof.answers import Data

# A program inside a skill would have limits of its own, and `execute_tool` calls any tool by name.
NEVER = frozenset({"execute", "execute_tool"})
_NOT_TOOLS = frozenset({"search", "describe"})
_MOST_NAMED = 5


def declaration_problems(name: str, declared: Sequence[str], nodes: Iterable[ast.AST]) -> Iterator[ProposalProblem]:
    """Yield problems with the tools that the code of the skill `name` declares and uses.

    Args:
        nodes: Every node of the code and of its extra modules.
    """
    every = list(nodes)
    imported = any(_is_client(node) for node in every)
    used = _tools_used(every)
    if imported and not declared:
        listed = ", ".join(json.dumps(each) for each in used if each not in _NOT_TOOLS) or '"file_system"'
        yield ProposalProblem(
            "tools",
            f"The code imports `{MODULE}` but declares no tools. List the tools that it calls in the PEP 723 block: "
            f"`# [tool.knackbox]`, `# tools = [{listed}]`.",
        )
    if declared and not imported:
        yield ProposalProblem(
            "tools", f"The code declares tools but calls none: write `from {MODULE} import tools`, or declare none."
        )
    if nested := [each for each in declared if each in NEVER | {name}]:
        yield ProposalProblem("tools", f"A skill cannot call `{nested[0]}`: put the code into the skill itself.")
    if searched := [each for each in used if each in _NOT_TOOLS]:
        yield ProposalProblem(
            "tools", f"A skill cannot use `tools.{searched[0]}`: it calls only the tools that it declares."
        )
    known = {*map(identifier, declared), *_NOT_TOOLS}
    missing = [each for each in used if identifier(each) not in known]
    if declared and missing:
        text = ", ".join(f"`{each}`" for each in missing[:_MOST_NAMED])
        yield ProposalProblem("tools", f"The code calls {text}, which `tools` in its PEP 723 block does not list.")


def coverage_problems(declared: Sequence[str], answers: Sequence[Data]) -> list[ProposalProblem]:
    """Return a problem for each tool that never fails, or never gives different answers, in the calls of the tests.

    Args:
        answers: The answers of the skill to the calls of its tests, without the tests.
    """
    failed: set[str] = set()
    given: dict[str, set[str]] = {}
    for answer in answers:
        for made in made_calls(answer):
            tool, reason = str(made.get("tool")), made.get("failed")
            if reason is None:
                given.setdefault(tool, set()).add(json.dumps(made.get("value"), sort_keys=True))
            elif reason not in (NOT_RECORDED, NOT_DECLARED):
                failed.add(tool)
    return [*_uncovered(declared, failed, given)]


def _uncovered(declared: Sequence[str], failed: set[str], given: Mapping[str, set[str]]) -> Iterator[ProposalProblem]:
    for tool in declared:
        if tool not in failed and tool not in given:
            yield ProposalProblem(
                "tools",
                f"No test makes the skill call `{tool}`. State what it answers: `def test_it(tools):` and "
                f'`tools.answers([{{"tool": "{tool}", "arguments": {{...}}, "value": ...}}])`, or do not declare it.',
            )
            continue
        if tool not in failed:
            yield ProposalProblem(
                "tools",
                f'In no test does `{tool}` fail. Write a test with `tools.fails("{tool}")` that states what the skill '
                f"does then, such as `with pytest.raises(ToolError):` (`from {MODULE} import ToolError`).",
            )
        if len(given.get(tool, ())) < 2:  # noqa: PLR2004 -- two different answers
            yield ProposalProblem(
                "tools",
                f"`{tool}` gives the same answer in all tests. Write a test with another answer, such as "
                f'`tools.returns("{tool}", ...)`, that states what the skill returns then.',
            )


def same_calls(made: Sequence[Mapping[str, object]], answer: Data) -> bool:
    """Return whether these calls of tools are those of an answer, in any order."""
    return sorted(map(_call_key, made)) == sorted(map(_call_key, made_calls(answer)))


def _call_key(made: Mapping[str, object]) -> str:
    return json.dumps([made.get("tool"), made.get("arguments")], sort_keys=True)


def made_calls(answer: Data) -> list[Mapping[str, object]]:
    """Return the calls of tools in an answer. The answer comes from a box, so anything else in it is left out."""
    made = answer.get("called", [])
    return [each for each in made if isinstance(each, dict)] if isinstance(made, list) else []


def _is_client(node: ast.AST) -> bool:
    match node:
        case ast.ImportFrom(module=module, level=0):
            return module == MODULE
        case ast.Import(names=names):
            return any(each.name == MODULE for each in names)
    return False


def _tools_used(nodes: Sequence[ast.AST]) -> list[str]:
    """Return the names in expressions such as `tools.weather`, `tools["weather"]` and `knackbox.tools.weather`."""
    aliases = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == MODULE
        for alias in node.names
        if alias.name == "tools"
    }
    found: dict[str, None] = {}
    for node in nodes:
        match node:
            case ast.Attribute(value=value, attr=name) if _is_tools(value, aliases):
                found[name] = None
            case ast.Subscript(value=value, slice=ast.Constant(value=str(name))) if _is_tools(value, aliases):
                found[name] = None
    return list(found)


def _is_tools(node: ast.AST, aliases: set[str]) -> bool:
    match node:
        case ast.Name(id=name):
            return name in aliases
        case ast.Attribute(value=ast.Name(id=module), attr="tools"):
            return module == MODULE
    return False
