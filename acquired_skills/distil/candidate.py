"""`Candidate`: a stored program that may become a skill, with its syntax tree and its recording."""

import ast
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acquired_skills.distil.function_code import NotDistillable
from acquired_skills.distil.literals import literals_of
from acquired_skills.model.parsed import parse_source, too_deep
from acquired_skills.proof.static_checks import MAX_TEST_BYTES
from acquired_skills.proof.tool_checks import NEVER
from engine.stores.program_store import LOST, FinishedProgram


@dataclass(frozen=True, slots=True)
class Candidate:
    """A stored program.

    Attributes:
        rules: Its calls with their answers, as rules of a recording (`acquired_skills.in_box.recorded_tools`).
    """

    stored: FinishedProgram
    tree: ast.Module
    rules: Sequence[Mapping[str, Any]]


def candidate_of(stored: FinishedProgram) -> Candidate:
    """Parse a stored program.

    Raises:
        NotDistillable: It cannot become a skill.
    """
    try:
        tree = parse_source(stored.source)
    except (SyntaxError, ValueError, RecursionError) as problem:
        raise NotDistillable(f"The program cannot be parsed: {problem}.") from problem
    if deep := too_deep(tree):
        raise NotDistillable(deep)
    rules: list[Mapping[str, Any]] = []
    for call in stored.calls:
        answer = call.answer
        if answer is None or answer == LOST:
            raise NotDistillable(f"The answer of call {call.position} ({call.name}) was not kept.")
        if call.name in NEVER:
            raise NotDistillable(f"The program calls {call.name}, which a skill cannot do.")
        fields = {part: answer[part] for part in ("value", "failed") if part in answer}
        rules.append({"tool": call.name, "arguments": dict(call.arguments), **fields})
    if len(json.dumps(rules)) > MAX_TEST_BYTES:
        raise NotDistillable(
            f"The recorded answers have more than the {MAX_TEST_BYTES >> 10} KiB that tests may have. Run the program "
            "on less data first."
        )
    if not rules:
        raise NotDistillable("The program calls no tools.")
    return Candidate(stored, tree, rules)


def has_other_literals(other: Candidate, known: Sequence[Candidate]) -> bool:
    """Return whether a program has other literals than each of these programs."""
    values = [each.value for each in literals_of(other.tree)]
    return all([each.value for each in literals_of(one.tree)] != values for one in known)
