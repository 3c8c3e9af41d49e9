"""The scripted run of 50 turns and 60 calls, and what is counted after it."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.durability.worker import EFFECTS_FILE

ROUNDS, CALLS = 49, 60
DOUBT = ("may have happened", "may have had an effect")
_KINDS = ("look", "pay", "send", "drop", "look", "pay")

Call = tuple[str, dict[str, Any]]


def rounds() -> list[list[Call]]:
    """Return the calls of each turn; the last turn is the answer."""
    made: list[list[Call]] = [[(_KINDS[n % len(_KINDS)], {"n": n})] for n in range(ROUNDS)]
    for n in range(CALLS - ROUNDS):
        made[4 * n].append(("look", {"n": 100 + n}))
    return made


def effects() -> Counter[str]:
    """Return the effects that a run must have, each once."""
    return Counter(f"{name} {given['n']}" for each in rounds() for name, given in each if name != "look")


def next_calls(messages: Sequence[dict[str, Any]]) -> list[Call]:
    """Return the calls that the model makes after these messages; none if it answers.

    It asks what happened to a call that is said to be in doubt, and makes it again if it did not happen.
    """
    done, doubtful, missing = 0, list[Call](), list[Call]()
    for made, results in _rounds_of(messages):
        if doubtful:
            missing = [_again(call) for call, said in zip(doubtful, results, strict=True) if said == "no"]
            doubtful = []
            continue
        done += 0 if missing else 1
        missing = []
        doubtful = [call for call, said in zip(made, results, strict=True) if any(each in said for each in DOUBT)]
    if doubtful:
        return [("happened", {"what": f"{name} {given['n']}"}) for name, given in doubtful]
    return missing or (rounds()[done] if done < ROUNDS else [])


def calls_without_one_result(messages: Sequence[dict[str, Any]]) -> int:
    """Return how many calls in a conversation have no result, or several."""
    made = [each["id"] for message in messages for each in message.get("tool_calls") or ()]
    results = Counter(each["tool_call_id"] for each in messages if each["role"] == "tool")
    return sum(results[each] != 1 for each in made)


def count_effects(folder: Path) -> tuple[int, int]:
    """Return how many effects a run has had too often, and how many it lacks."""
    file = folder / EFFECTS_FILE
    found = Counter(file.read_text().splitlines()) if file.exists() else Counter[str]()
    return (found - effects()).total(), (effects() - found).total()


def _again(call: Call) -> Call:
    """Return a call in place of one that did not happen: a payment needs another key."""
    name, given = call
    return (name, given | {"attempt": given.get("attempt", 1) + 1}) if name == "pay" else call


def _rounds_of(messages: Sequence[dict[str, Any]]) -> list[tuple[list[Call], list[str]]]:
    results = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
    found = []
    for message in messages:
        if made := message.get("tool_calls"):
            called = [(each["function"]["name"], json.loads(each["function"]["arguments"])) for each in made]
            found.append((called, [results.get(each["id"], "") for each in made]))
    return found
