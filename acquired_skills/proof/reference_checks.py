"""Checks the source of a reference without running it (GATE-5)."""

import ast
from collections.abc import Collection, Iterator

from acquired_skills.model.parsed import ParsedSource
from acquired_skills.model.proposal import ProposalProblem
from acquired_skills.model.script_block import ScriptBlock
from acquired_skills.proof.copied_source import is_copy
from acquired_skills.proof.snake_case import function_of

_RUNS_TEXT = frozenset(("__import__", "compile", "eval", "exec", "execfile", "run_path", "run_module"))
_HIDES_CODE = frozenset(("builtins", "code", "codeop", "ctypes", "dill", "importlib", "marshal", "pickle", "runpy"))
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def reference_problems(
    name: str,
    code: ParsedSource,
    reference: ParsedSource,
    block: ScriptBlock,
    modules: Collection[str] = (),
) -> Iterator[ProposalProblem]:
    """Yield the problems with a reference.

    Args:
        block: The script block of the code.
        modules: The names of the modules among the skill's extra files.
    """
    if block.tools or block.destinations:
        what = "calls tools" if block.tools else "connects to destinations"
        text = f"A skill that {what} cannot have a reference. Leave the reference out."
        yield ProposalProblem("reference", text)
        return
    if shared := sorted(reference.imports & {*modules, name}):
        text = (
            f"The reference imports `{shared[0]}` from the skill, so it may have the same faults as the code. Write "
            "the reference without modules of the skill."
        )
        yield ProposalProblem("reference", text)
        return
    if hidden := _hidden(reference):
        text = (
            f"The reference uses `{hidden}`, so its source does not show everything that it runs. Write the "
            "implementation directly."
        )
        yield ProposalProblem("reference", text)
        return
    own, other = _function(name, code.tree), _function(name, reference.tree)
    if other is None:
        text = f"The reference has no top-level function `{name}`. Define it with the parameters of the skill."
        yield ProposalProblem("reference", text)
        return
    if own is not None and _parameters(own) != _parameters(other):
        yield ProposalProblem(
            "reference",
            f"The reference takes ({', '.join(_parameters(other))}), but the skill takes "
            f"({', '.join(_parameters(own))}). Give the reference the same parameters in the same order.",
        )
        return
    try:
        copied = is_copy(reference, code)
    except RecursionError:
        text = "The reference is nested too deeply to be compared with the code. Make it simpler."
        yield ProposalProblem("reference", text)
        return
    if copied:
        yield ProposalProblem(
            "reference",
            "The reference is nearly the same program as the code, so it has the same faults and its agreement proves "
            "nothing. Write it from the description with another algorithm, such as a slow but obvious one, or leave "
            "it out.",
        )


def _hidden(reference: ParsedSource) -> str:
    """Return a name with which a reference can run code that its source does not show, such as `exec`; "" for none."""
    for node in reference.nodes:
        match node:
            case ast.Name(id=name) if name in _RUNS_TEXT or name == "__builtins__":
                return name
            case ast.Attribute(value=ast.Name(id="builtins"), attr=name) if name in _RUNS_TEXT:
                return name
    return next(iter(sorted(reference.imports & _HIDES_CODE)), "")


def _function(name: str, tree: ast.Module) -> _Function | None:
    """Return the last top-level function that is called `name`, or that `name` is an alias of."""
    names = {name, function_of(name, tree)} - {""}
    found = [node for node in tree.body if isinstance(node, _Function) and node.name in names]
    return found[-1] if found else None


def _parameters(function: _Function) -> list[str]:
    arguments = function.args
    stars = [f"{star}{each.arg}" for star, each in (("*", arguments.vararg), ("**", arguments.kwarg)) if each]
    return [*(each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)), *stars]
