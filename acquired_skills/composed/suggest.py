"""Suggests pipelines from sequences of calls that recur in the call log. Nothing is composed automatically.

The log contains the arguments of calls but not their outputs, so the source of each input is guessed. An input that is
always the same becomes a constant. An input that always equals an input of an earlier step is mapped from the same
argument. An input that is named in an earlier step's side effects ("created:report.csv") is taken from the output of
that step, and the author has to fill in its path in the output. Any other input becomes an argument.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from acquired_skills.composed.checks import NO_STEPS
from engine.contract.spec import ToolSpec
from engine.contract.strict_json import JsonError, read_json
from engine.policy.access import DISCOVERY_TOOLS

SESSION_GAP = timedelta(minutes=10)  # a longer pause between two calls begins another session
LONGEST = 5
MOST_CALLS = 5_000  # number of latest calls of the log that are read
MOST_SUGGESTED = 10
TO_FILL_IN = "/FILL_IN"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A suggested pipeline.

    Attributes:
        tools: Names of the tools, in order.
        times: The number of occurrences of the sequence, without overlaps.
        pipeline: The pipeline as an argument of compose_skill.
        notes: Sentences about what was guessed.
    """

    tools: tuple[str, ...]
    times: int
    pipeline: Mapping[str, Any]
    notes: tuple[str, ...] = ()

    def value(self) -> dict[str, Any]:
        return {"tools": list(self.tools), "times": self.times, "pipeline": self.pipeline, "notes": list(self.notes)}


@dataclass(frozen=True, slots=True)
class _MadeCall:
    """One call in the call log."""

    tool: str
    arguments: Mapping[str, Any]
    side_effects: tuple[str, ...]


@dataclass(slots=True)
class _Found:
    """A sequence of calls and its occurrences in the log."""

    times: list[Sequence[_MadeCall]] = field(default_factory=list)
    ends_at: tuple[int, int] = (-1, -1)  # the session and the position after the last counted occurrence


def suggest_pipelines(
    rows: Sequence[Mapping[str, Any]], tools: Mapping[str, ToolSpec], least: int = 3
) -> list[Suggestion]:
    """Return pipelines for recurring sequences of calls. Those that would save the most calls come first.

    Args:
        rows: Rows of the call log, newest first.
        tools: Existing tools by name. A sequence is ignored if it contains another tool, or one that cannot be a step.
        least: The minimum number of occurrences of a sequence.
    """
    found: dict[tuple[str, ...], _Found] = {}
    for number, session in enumerate(_sessions(rows, tools)):
        for length in range(2, LONGEST + 1):
            for start in range(len(session) - length + 1):
                made = session[start : start + length]
                one = found.setdefault(tuple(each.tool for each in made), _Found())
                if one.ends_at[0] != number or one.ends_at[1] <= start:
                    one.times.append(made)
                    one.ends_at = (number, start + length)
    often = {names: len(one.times) for names, one in found.items() if len(one.times) >= least and len(set(names)) > 1}
    whole = [
        names for names in often if not any(_within(names, other) and often[other] >= often[names] for other in often)
    ]
    whole.sort(key=lambda names: (-(len(names) - 1) * often[names], names))
    return [_suggestion(names, found[names].times) for names in whole[:MOST_SUGGESTED]]


def _sessions(rows: Sequence[Mapping[str, Any]], tools: Mapping[str, ToolSpec]) -> list[list[_MadeCall]]:
    """Return the calls of each user and agent, split into sessions at pauses and at calls that cannot be steps."""
    sessions: list[list[_MadeCall]] = []
    last: dict[tuple[str, str], tuple[datetime, list[_MadeCall]]] = {}
    for row in sorted(rows, key=lambda row: (row["ts"], row["id"])):
        if not row["success"] or "/" in row["call_id"]:  # a step of a composed skill is already part of a pipeline
            continue
        who, when = (row["user"], row["agent"]), datetime.fromisoformat(row["ts"])
        made = _made(row, tools)
        before = last.get(who)
        if made is None:
            last.pop(who, None)
            continue
        if before is None or when - before[0] > SESSION_GAP:
            before = (when, [])
            sessions.append(before[1])
        before[1].append(made)
        last[who] = (when, before[1])
    return sessions


def _made(row: Mapping[str, Any], tools: Mapping[str, ToolSpec]) -> _MadeCall | None:
    spec = tools.get(row["tool"])
    if spec is None or spec.category in NO_STEPS or spec.name in DISCOVERY_TOOLS:
        return None
    try:
        arguments = read_json(row["arguments"])
    except JsonError:  # the arguments were truncated in the log
        return None
    return _MadeCall(row["tool"], arguments, tuple(row["side_effects"])) if isinstance(arguments, dict) else None


def _suggestion(names: tuple[str, ...], times: Sequence[Sequence[_MadeCall]]) -> Suggestion:
    steps: list[dict[str, Any]] = []
    notes: list[str] = []
    taken: dict[str, tuple[int, str]] = {}  # argument -> index and input name of the first step that uses it
    for index, tool in enumerate(names):
        inputs: dict[str, Any] = {}
        for name in sorted(set.intersection(*(set(one[index].arguments) for one in times))):
            values = [one[index].arguments[name] for one in times]
            source = _step_that_changed(times, index, values)
            if len(set(map(_key, values))) == 1:
                inputs[name] = values[0] if not isinstance(values[0], dict) else {"const": values[0]}
            elif source is not None:
                inputs[name] = {"from": f"/{steps[source]['name']}{TO_FILL_IN}"}
                notes.append(
                    f"The value of `{name}` in step {index + 1} was always created by step {source + 1}. Fill in where "
                    f"the output of step {source + 1} contains it."
                )
            else:
                inputs[name] = {"from": f"/arguments/{_argument(name, index, values, times, taken)}"}
        steps.append({"name": f"{_step_name(tool)}_{index + 1}", "call": tool, "inputs": inputs})
    if any(len(_arguments(step)) for step in steps[1:]):
        notes.append("The log has no outputs, so some arguments may really be outputs of earlier steps.")
    return Suggestion(names, len(times), {"steps": steps, "output": {"from": f"/{steps[-1]['name']}"}}, tuple(notes))


def _argument(
    name: str, index: int, values: list[Any], times: Sequence[Sequence[_MadeCall]], taken: dict[str, tuple[int, str]]
) -> str:
    """Return the argument for an input: an earlier argument that always had the same value, otherwise a new one."""
    for argument, (step, of) in taken.items():
        if [_key(one[step].arguments[of]) for one in times] == [_key(each) for each in values]:
            return argument
    argument = name if name not in taken and name != "resume" else f"{name}_{index + 1}"
    taken[argument] = (index, name)
    return argument


def _step_that_changed(times: Sequence[Sequence[_MadeCall]], index: int, values: list[Any]) -> int | None:
    """Return the latest earlier step whose side effects always name the value of this input; None if there is none."""
    for source in range(index - 1, -1, -1):
        pairs = zip(times, values, strict=True)
        if all(isinstance(v, str) and len(v) > 1 and any(v in e for e in one[source].side_effects) for one, v in pairs):
            return source
    return None


def _arguments(step: Mapping[str, Any]) -> list[str]:
    mapped = (each["from"] for each in step["inputs"].values() if isinstance(each, dict) and "from" in each)
    return [each for each in mapped if each.startswith("/arguments/")]


def _within(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    spans = range(len(long) - len(short) + 1)
    return len(short) < len(long) and any(long[at : at + len(short)] == short for at in spans)


def _step_name(tool: str) -> str:
    return (
        "".join(each if each.isalnum() and each.isascii() else "_" for each in tool.lower()).strip("_")[:30] or "step"
    )


def _key(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
