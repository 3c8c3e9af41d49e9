"""Compares what a distilled function did in a box with its run, and chooses what becomes a test."""

from collections.abc import Sequence
from typing import Any

from acquired_skills.distil.changed_answers import ChangedRecording
from acquired_skills.distil.recorded_tests import TOOL_ERROR, ObservedCase
from acquired_skills.in_box.recorded_tools import MODULE, NOT_RECORDED
from acquired_skills.proof.answers import Data, format_answer, same_answer, to_plain_json
from acquired_skills.proof.tool_checks import made_calls
from engine.stores.program_store import FinishedProgram

_BY_HAND = "Write the code of the skill yourself, and send it with `from_run`."


def why_not_as_recorded(stored: FinishedProgram, answer: Data) -> str:
    """Return why the answer of the function is not the result of the run, or "" if it is."""
    if "value" not in answer:
        raised = answer.get("raised")
        kind, text = format_answer(answer), str(raised.get("text", ""))[:300] if isinstance(raised, dict) else ""
        return (
            f"The program gave {kind} when it ran again on its recorded answers ({text}). It may use files, the clock "
            f"or chance. {_BY_HAND}"
        )
    try:
        again = to_plain_json(answer["value"])
    except TypeError:
        return "The result of the program is not JSON."
    printed = stored.stdout.rstrip("\n")
    if again == stored.value or (stored.value is None and printed in (str(again), _joined(again))):
        return ""
    return (
        "The program gave another result when it ran again on its recorded answers. It may depend on files, the clock "
        f"or chance. {_BY_HAND}"
    )


def _joined(value: Any) -> str:
    return value.rstrip("\n") if isinstance(value, str) else repr(value)


def most_telling(
    found: Sequence[tuple[ChangedRecording, Data]], truth: Data, most: int, *, needed: bool
) -> list[tuple[ChangedRecording, Data]]:
    """Choose variants with different results. If there are none, but one is needed, choose any that is decided."""
    values = [pair for pair in found if "value" in pair[1] and not _off_record(pair[1])]
    chosen: list[tuple[ChangedRecording, Data]] = []
    for pair in values:
        if len(chosen) < most and not any(same_answer(pair[1], each) for each in (truth, *(c[1] for c in chosen))):
            chosen.append(pair)
    if chosen or not needed:
        return chosen
    others = [pair for pair in found if "value" in pair[1] or "raised" in pair[1]]
    return (values or others)[:1]


def _off_record(answer: Data) -> bool:
    return any(each.get("failed") == NOT_RECORDED for each in made_calls(answer))


def observed_case(variant: ChangedRecording, answer: Data) -> ObservedCase | None:
    """Return what the function did in a variant, as a case of a test; None if a test cannot state it."""
    if "value" in answer:
        result = python_source(answer["value"])
        return None if result is None else ObservedCase(variant, result)
    types = answer.get("raised", {}).get("types", []) if isinstance(answer.get("raised"), dict) else []
    home, _, name = str(types[0]).partition(":") if types else ("", "", "")
    if home == "builtins" or (home == MODULE and name == TOOL_ERROR):
        return ObservedCase(variant, raised=name)
    return None


def python_source(value: Any) -> str | None:
    """Return packed data as Python source; None if there is no simple expression for it."""
    match value:
        case list():
            items = [python_source(each) for each in value]
            return None if None in items else f"[{', '.join(map(str, items))}]"
        case {"dict": [*pairs]}:
            texts = [(python_source(key), python_source(each)) for key, each in pairs]
            if any(None in each for each in texts):
                return None
            return "{" + ", ".join(f"{key}: {each}" for key, each in texts) + "}"
        case {"tuple": [*items]}:
            texts_ = [python_source(each) for each in items]
            return None if None in texts_ else f"({', '.join(map(str, texts_))}{',' if len(texts_) == 1 else ''})"
        case dict():
            return None
    return repr(value)
