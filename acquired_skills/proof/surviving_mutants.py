"""Finds calls that distinguish surviving mutants, which no test kills, from the skill (SKILL-6, GATE-1).

The skill and these mutants answer the calls that the author predicted, calls similar to those of the tests, calls with
boundary values, and random calls with unusual results. If a mutant answers a call differently, the tests have a gap,
and the author is asked about the call. If it gives the same answers as the skill, it is considered equivalent: no test
could kill it, so it does not count against the tests. Neither do mutants in lines that no call executes
(`acquired_skills.proof.unexecuted_lines`) and mutants within the tolerance of the tests
(`acquired_skills.proof.tolerated_mutants`).

Often only tests call methods such as `__eq__` of the skill's classes, and the tests are judged without these methods.
So any number of mutants in these methods may be equivalent. Of the other mutants, only a limited share may be.
"""

import ast
import asyncio
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from acquired_skills.in_box.call_data import call_key
from acquired_skills.proof.answers import Data, close_answer, identical_answer
from acquired_skills.proof.boundary_calls import boundary_calls
from acquired_skills.proof.clock_calls import clock_calls
from acquired_skills.proof.judging import JudgedTests
from acquired_skills.proof.mutation.probes import Probe, make_probes
from acquired_skills.proof.random_calls import random_calls, with_different_answers
from acquired_skills.proof.similar_calls import similar_calls
from acquired_skills.proof.tolerated_mutants import tolerated_mutants
from acquired_skills.proof.unexecuted_lines import UnexecutedLine, mutants_never_executed, unexecuted_lines
from acquired_skills.proof.variants import EACH_S, VariantAnswers, Variants

_CALLED_BY_TESTS = frozenset(
    ("__eq__", "__format__", "__hash__", "__init__", "__ne__", "__post_init__", "__repr__", "__str__")
)
LEAST_ANSWERED = 10  # smallest number of answered calls after which a mutant can be considered equivalent
MOST_EQUIVALENT = 0.25  # largest share of equivalent mutants; a larger share means that the calls miss the changed code
_SEED = 1  # seed for choosing calls; it is constant, so that the same proposal gets the same questions


@dataclass(frozen=True, slots=True)
class Survivors:
    """The answers to calls, by the skill and by the mutants that no test kills.

    Attributes:
        calls: First the predicted calls, then the new calls, then the calls of the tests.
        predicted: The number of predicted calls.
        new: The number of new calls.
        truth: The skill's answers, by the index of the call. Answers that vary or take too long are missing.
        differing: For each surviving mutant, its answers that differ from the skill's, by the index of the call.
        equivalent: The numbers of the mutants that are equivalent to the skill.
        never_executed: The numbers of further mutants that do not count, because no call executes their lines.
        tolerated: The numbers of further mutants that do not count, because they are within the tolerance of the tests.
        unexecuted: The lines that no test executes.
        unused: All random calls. Which of them become new calls depends on the results of the code. So the author may
            have been asked about others of them before the code was corrected.
    """

    calls: Sequence[Data] = ()
    predicted: int = 0
    new: int = 0
    truth: Mapping[int, Data] = field(default_factory=dict)
    differing: Mapping[int, Mapping[int, Data]] = field(default_factory=dict)
    equivalent: frozenset[int] = frozenset()
    never_executed: frozenset[int] = frozenset()
    tolerated: frozenset[int] = frozenset()
    unexecuted: Sequence[UnexecutedLine] = ()
    unused: Sequence[Data] = ()

    @property
    def uncounted(self) -> frozenset[int]:
        """The numbers of all mutants that do not count against the tests."""
        return self.equivalent | self.never_executed | self.tolerated


async def examine_survivors(
    variants: Variants,
    found: JudgedTests,
    predicted: Sequence[Data],
    left: Sequence[int],
    options: Sequence[dict[str, Any]] = (),
) -> Survivors:
    """Make calls to the skill and to the surviving mutants.

    Args:
        predicted: The calls that the author predicted.
        left: The numbers of the surviving mutants.
        options: Extra calls that pass untested options. Calls similar to them are made, too.

    Raises:
        SandboxError: No box can run.
    """
    runner, effort = variants.runner, variants.runner.effort
    tested = sorted(found.calls, key=call_key)  # the tests run in a random order
    similar = await asyncio.to_thread(similar_calls, tested, runner.parsed, effort.similar_calls, _SEED)
    unusual = (*boundary_calls(tested, effort.boundary_calls), *clock_calls(tested, effort.clock_calls))
    at_random = random_calls(tested, effort.random_calls, _SEED)
    varied = await _with_unusual_answers(variants, at_random)
    around = similar_calls(options, runner.parsed, len(options), _SEED)
    new = list({call_key(each): each for each in (*similar, *unusual, *varied, *options, *around)}.values())
    whole = len(tested) <= effort.similar_calls
    tested = tested[: effort.similar_calls]
    calls = [*predicted, *new, *tested]
    if not calls:
        return Survivors()
    trees = {"": runner.parsed.code.tree, **{path: each.tree for path, each in runner.parsed.modules.items()}}
    alike = {number: variants.mutants[number] for number in left if number in found.alike} if whole else {}
    probes = await asyncio.to_thread(make_probes, alike, trees)
    try:
        changes = [*(variants.mutants[number] for number in left), *(probe.change for probe in probes)]
        # The calls of the tests come first, because a probe ends at the first call that reaches its line.
        answered = await variants.similar_answers([*tested, *predicted, *new], changes)
    except (ValueError, RecursionError):
        return Survivors(calls, len(predicted), len(new))
    answered = answered.rotated(len(tested))
    survivors = Survivors(calls, len(predicted), len(new), unused=at_random)
    return await asyncio.to_thread(_compared, variants, found, survivors, answered, left, probes=probes, whole=whole)


async def _with_unusual_answers(variants: Variants, calls: Sequence[dict[str, Any]]) -> Sequence[dict[str, Any]]:
    """Choose calls for which the skill returns different values.

    Raises:
        SandboxError: No box can run.
    """
    runner, effort = variants.runner, variants.runner.effort
    if not calls or not effort.unusual_calls:
        return []
    try:
        found = await runner.run_program(runner.parsed.code.text, calls, effort.similar_calls_s / 4, EACH_S)
    except (ValueError, RecursionError):
        return []
    return with_different_answers(calls, found["answers"] or [], effort.unusual_calls)


def _compared(
    variants: Variants,
    found: JudgedTests,
    survivors: Survivors,
    answered: VariantAnswers,
    left: Sequence[int],
    *,
    probes: Sequence[Probe],
    whole: bool,
) -> Survivors:
    """Compare the answers of the mutants and the probes with those of the skill.

    Args:
        answered: The answers of the skill, the mutants and the probes. A mutant is numbered by its position in `left`,
            and the probes follow.
        whole: Whether `answered` includes all calls of the tests.
    """
    truth = {number: answer for number, answer in enumerate(answered.truth) if "value" in answer or "raised" in answer}
    changes = {place: answered.changes(place) for place in sorted(answered.others)}
    changed = {left[place]: each for place, each in changes.items() if place < len(left) and each is not None}
    differing = {
        number: {
            at: each
            for at, each in others.items()
            if at in truth and not identical_answer(truth[at], each) and not close_answer(truth[at], each)
        }
        for number, others in changed.items()
    }
    tested = range(survivors.predicted + survivors.new, len(survivors.calls))
    probed = {place - len(left): each for place, each in changes.items() if place >= len(left)}
    unexecuted = unexecuted_lines(probes, probed, tested, truth)
    never_executed = mutants_never_executed(unexecuted, len(found.mutants))
    same = {
        number
        for number, others in changed.items()
        if whole and all(_same_but_for_dict_order(truth[at], each) for at, each in others.items() if at in truth)
    }
    alike = {number for number, others in differing.items() if not others and number in found.alike | same}
    return replace(
        survivors,
        truth=truth,
        differing=differing,
        equivalent=_equivalent(variants, found, truth, alike - never_executed),
        never_executed=never_executed,
        tolerated=tolerated_mutants(truth, differing, tested),
        unexecuted=unexecuted,
    )


def _equivalent(
    variants: Variants, found: JudgedTests, truth: Mapping[int, Data], alike: Collection[int]
) -> frozenset[int]:
    """Return which of the mutants that give the same answers as the skill are considered equivalent to it.

    Args:
        truth: The skill's answers, by the index of the call.
        alike: The numbers of these mutants.
    """
    values = {json.dumps(each, sort_keys=True) for each in truth.values() if "value" in each}
    if len(truth) < LEAST_ANSWERED or len(values) <= 1:
        return frozenset()
    lines = _lines_called_by_tests(variants.runner.parsed.code.tree)
    aside = {
        number
        for number in found.mutants
        if not variants.mutants[number].path and variants.mutants[number].line in lines
    }
    equivalent = frozenset(alike)
    if len(equivalent - aside) > MOST_EQUIVALENT * len(found.mutants.keys() - aside):
        equivalent &= aside
    return equivalent


def _lines_called_by_tests(tree: ast.Module) -> set[int]:
    """Return the line numbers of the methods that tests call when they make and compare instances of classes."""
    methods = (
        method
        for node in tree.body
        if isinstance(node, ast.ClassDef)
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name in _CALLED_BY_TESTS
    )
    return {line for method in methods for line in range(method.lineno, (method.end_lineno or method.lineno) + 1)}


def _same_but_for_dict_order(one: Data, other: Data) -> bool:
    """Return whether two answers differ at most in the order of dicts, and the calls had the same side effects."""
    return identical_answer(one, other) and all(
        one.get(part) == other.get(part) for part in ("after", "files", "printed", "called")
    )
