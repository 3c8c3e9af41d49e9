"""Writes the tests of a distilled skill. Their world is the recording of the run, and variants of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from acquired_skills.distil.changed_answers import REASON, ChangedRecording
from acquired_skills.distil.literals import Value

TOOL_ERROR = "ToolError"  # of the client `knackbox`
_HEAD = """import pytest
from knackbox import ToolError

from {name} import {name}

"""
_OBSERVED = "    # Observed when the program ran in a box on this changed recording: check that it is right."


@dataclass(frozen=True, slots=True)
class RecordedCase:
    """What one run proved: with these answers of tools, the skill returns `result` for `arguments`.

    Attributes:
        rules: The recorded calls with their answers.
        result: The result as Python source.
        made: The calls that the skill makes, in order: name and arguments.
    """

    arguments: Mapping[str, Value]
    rules: Sequence[Mapping[str, Any]]
    result: str
    made: Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class ObservedCase:
    """What the program did in a variant.

    Attributes:
        result: The result as Python source; "" if it raised.
        raised: The name of the exception's type; "" if there was none.
    """

    variant: ChangedRecording
    result: str = ""
    raised: str = ""


def recorded_tests(name: str, runs: Sequence[RecordedCase], observed: Sequence[ObservedCase]) -> str:
    """Return a test module for the skill `name`.

    Args:
        runs: The runs of the program, the one from which the skill comes first.
        observed: What the program did in variants of the first run.
    """
    needs_client = any(each.raised == TOOL_ERROR for each in observed)
    needs_pytest = any(each.raised for each in observed)
    head = _HEAD.format(name=name)
    if not needs_client:
        head = head.replace("from knackbox import ToolError\n", "")
    if not needs_pytest:
        head = head.replace("import pytest\n", "")
    parts = [head.lstrip("\n")]
    for number, run in enumerate(runs, 1):
        parts.append(f"\n{_constant(number)} = [\n" + "".join(f"    {dict(each)!r},\n" for each in run.rules) + "]\n")
    for number, run in enumerate(runs, 1):
        parts.append(_of_run(name, number, run))
    numbers: dict[str, int] = {}
    return "".join((*parts, *(_of_variant(name, each, numbers) for each in observed)))


def _constant(number: int) -> str:
    return "RECORDED" if number == 1 else f"RECORDED_{number}"


def _of_run(name: str, number: int, run: RecordedCase) -> str:
    which = "" if number == 1 else f"_{number}"
    return (
        f"\n\ndef test_gives_the_result_of_the_run{which}(tools):\n"
        f"    tools.answers({_constant(number)})\n"
        f"    assert {_call(name, run.arguments)} == {run.result}\n"
        f"    assert tools.calls == {list(run.made)!r}\n"
    )


def _of_variant(name: str, case: ObservedCase, numbers: dict[str, int]) -> str:
    variant = case.variant
    what = _title(variant)
    numbers[what] = numbers.get(what, 0) + 1
    again = f"_{numbers[what]}" if numbers[what] > 1 else ""
    lines = [f"def test_{what}{again}(tools):", "    tools.answers(RECORDED)"]
    if variant.statement:
        lines.append(f"    {variant.statement}")
    if not variant.fails:
        lines.append(_OBSERVED)
    call = _call(name, variant.arguments)
    if not case.raised:
        lines.append(f"    assert {call} == {case.result}")
    elif variant.fails and case.raised == TOOL_ERROR:
        lines += [
            f"    with pytest.raises({TOOL_ERROR}) as caught:",
            f"        {call}",
            f"    assert caught.value.reason == {REASON!r}",
        ]
    else:
        lines += [f"    with pytest.raises({case.raised}):", f"        {call}"]
    return "\n\n" + "\n".join(lines) + "\n"


def _title(variant: ChangedRecording) -> str:
    tool = "".join(c if c.isalnum() else "_" for c in variant.tool)
    if variant.fails:
        return f"when_{tool}_fails"
    return f"when_{tool}_answers_otherwise" if tool else "with_other_arguments"


def _call(name: str, arguments: Mapping[str, Value]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"
