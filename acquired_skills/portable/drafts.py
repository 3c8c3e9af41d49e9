"""`SkillDraft`: a function of a script that may become a skill, with calls whose results its author predicts.

A draft is JSON. ``skills prove --json`` prints it, an author adds a result to each call, and ``--from`` proposes it.
"""

import ast
import builtins
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from acquired_skills.model.parsed import parse_source
from acquired_skills.model.prediction import RAISES, RESULT, Prediction, parse_predictions
from acquired_skills.model.proposal import Proposal, ProposalProblem, SkillRefused
from acquired_skills.model.provenance import MOST_CHARS
from acquired_skills.portable.proposed_calls import proposed_calls
from acquired_skills.portable.script_functions import ScriptFunction
from acquired_skills.portable.typed_literals import imports_of, literal_of, parts_of
from acquired_skills.proof.admitted_skill import sha256
from acquired_skills.store.archive import Files

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_TEXTS = ("instructions", "file", "name", "description", "code")
_TEST = "test_call_"


@dataclass(frozen=True, slots=True)
class SkillDraft:
    """A draft of a skill.

    Attributes:
        instructions: The name of the instructions that contain the script.
        file: The path of the script in the instructions.
        name: The name of the function.
        code: The function with everything that it needs from its script.
        calls: The calls. Each has the arguments by name, and the checks that the author has added.
    """

    instructions: str
    file: str
    name: str
    description: str
    code: str
    calls: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, instructions: str, function: ScriptFunction) -> "SkillDraft":
        """Make the draft of a function, with proposed calls."""
        calls = tuple({"arguments": each} for each in proposed_calls(function.node))
        return cls(instructions, function.file, function.name, function.about, function.code, calls)

    @classmethod
    def parse(cls, found: Any) -> "SkillDraft":
        """Parse a draft.

        Raises:
            ValueError: The object is not a valid draft. The message says what to change.
        """
        if not isinstance(found, Mapping) or not all(isinstance(found.get(name), str) for name in _TEXTS):
            raise ValueError(f"A draft must be an object with the strings {', '.join(_TEXTS)}, and with `calls`.")
        calls = found.get("calls")
        if not isinstance(calls, list):
            raise ValueError("`calls` must be a list of calls.")  # noqa: TRY004 -- one type for any fault
        filled = [each for each in calls if not isinstance(each, Mapping) or set(each) != {"arguments"}]
        parse_predictions(filled)
        texts = {name: found[name] for name in _TEXTS}
        return cls(calls=tuple(filled), **texts)

    def value(self) -> dict[str, Any]:
        """Return the draft as JSON."""
        texts = {name: getattr(self, name) for name in _TEXTS}
        return {**texts, "calls": [dict(each) for each in self.calls]}

    def answered(self, answers: Mapping[int, Mapping[str, Any]]) -> "SkillDraft":
        """Return the draft with answers to its calls. Calls without an answer are left out.

        Args:
            answers: The checks in each answer, by the index of the call in `calls`.
        """
        return replace(self, calls=tuple({**self.calls[n], **checks} for n, checks in sorted(answers.items())))

    def proposal(self, provenance: Mapping[str, str]) -> Proposal:
        """Return the draft as a proposal. Exact results become tests, and other checks become predictions.

        Raises:
            ValueError: No call has an exact result or an exception, or the code is not valid Python.
        """
        exact, others = self._predictions()
        if not exact:
            raise ValueError("No call has `result` or `raises`. Add one of them to at least one call, to get a test.")
        tests = _tests(self.name, exact, _definition(self.code, self.name))
        return Proposal(
            self.name, self.description, self.code, tests, provenance=dict(provenance), expected=tuple(others)
        )

    def without_results(self, refused: SkillRefused) -> SkillRefused:
        """Return the refusal with the results of the code removed from its problems.

        Otherwise the author could copy these results into the predictions. Instead, the text about a failed test asks
        whether the code or the prediction is right.
        """
        exact, _ = self._predictions()
        problems = [self._without_result(each, exact) for each in refused.problems]
        return SkillRefused(refused.name, problems, refused.questions, refused.disputed)

    def _without_result(self, problem: ProposalProblem, exact: Sequence[Prediction]) -> ProposalProblem:
        number = problem.text.partition(" fails")[0].removeprefix(_TEST)
        if problem.part != "green" or not number.isdecimal() or int(number) > len(exact):
            return problem
        found = exact[int(number) - 1]
        call = f"{self.name}({', '.join(f'{name}={value!r}' for name, value in found.arguments.items())})"
        checks = " ".join(f"{check} {operand!r}" for check, operand in found.checks.items())
        return ProposalProblem(
            "expected",
            f"You expect {checks} from `{call}`; the code gives another result. Which of the two is right? Correct the "
            "code or the prediction.",
        )

    def _predictions(self) -> tuple[list[Prediction], list[Prediction]]:
        """Return the predictions that can become tests, and the others.

        Raises:
            ValueError: A prediction is invalid.
        """
        exact: list[Prediction] = []
        others: list[Prediction] = []
        for each in parse_predictions(self.calls):
            if not all(name.isidentifier() for name in each.arguments):
                raise ValueError(f"The keys of `arguments` must be names of parameters of {self.name}.")
            raises = each.checks.get(RAISES, "")
            can_test = RESULT in each.checks or isinstance(getattr(builtins, raises, None), type)
            (exact if can_test else others).append(each)
        return exact, others


def origin_of(instructions: str, files: Files, file: str, name: str, code: str) -> str:
    """Return the origin of a draft's code: instructions, script, hash, and whether the code was changed.

    Raises:
        ValueError: The instructions have no such script, or no such function in it.
    """
    try:
        text = files[file].decode()
        original = _definition(text, name)
    except (KeyError, UnicodeDecodeError, ValueError):
        raise ValueError(
            f"The instructions {instructions} have no function `{name}` in {file[:200]!r}. Correct `file` or `name`."
        ) from None
    same = ast.dump(original) == ast.dump(_definition(code, name))
    return f"{instructions}/{file}, sha256 {sha256(text)}{'' if same else ', changed'}"[:MOST_CHARS]


def _definition(code: str, name: str) -> _Function:
    """Return the definition of a function in a source.

    Raises:
        ValueError: There is no such function, or the source is not valid Python.
    """
    try:
        tree = parse_source(code)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise ValueError(f"The code is not valid Python: {error}.") from None
    found = [node for node in tree.body if isinstance(node, _Function) and node.name == name]
    if not found:
        raise ValueError(f"The code has no function `{name}`.")
    return found[-1]


def _tests(name: str, exact: Sequence[Prediction], node: _Function) -> str:
    hints = {each.arg: each.annotation for each in (*node.args.args, *node.args.kwonlyargs)}
    raising = any(RAISES in each.checks for each in exact)
    approximate = any(isinstance(each.checks.get(RESULT), float) for each in exact)
    imports = imports_of([*hints.values(), node.returns])
    lines = [*imports, "", *(["import pytest", ""] if raising or approximate else []), f"from {name} import {name}"]
    begin = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    wait = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    for number, each in enumerate(exact, 1):
        arguments = ", ".join(f"{key}={literal_of(value, hints.get(key))}" for key, value in each.arguments.items())
        call = f"{wait}{name}({arguments})"
        lines += ["", "", f"{begin} {_TEST}{number}():"]
        if RAISES in each.checks:
            lines += [f"    with pytest.raises({each.checks[RAISES]}):", f"        {call}"]
        else:
            lines.append(f"    {_check(call, each.checks[RESULT], node.returns)}")
    return "\n".join(lines).strip() + "\n"


def _check(call: str, result: Any, annotation: ast.expr | None) -> str:
    if result is None or isinstance(result, bool):
        return f"assert {call} is {result}"
    if isinstance(result, float) and parts_of(annotation)[0] in ("", "float"):
        return f"assert {call} == pytest.approx({result!r})"
    return f"assert {call} == {literal_of(result, annotation)}"
