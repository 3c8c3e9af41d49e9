"""A scripted model whose reply depends only on the conversation, so that it continues wherever a run is resumed.

It asks what happened to a call that may have happened, and repeats it only if it did not happen.
"""

import itertools
import json
from collections.abc import Sequence
from typing import Any

from tests.agent.scripted_model import Reply, calls, says

Call = tuple[str, dict[str, Any]]
Round = tuple[list[Call], list[str]]  # calls and their results

DOUBT = ("may have happened", "may have had an effect")


class Script:
    """Plays rounds of calls, and then answers."""

    def __init__(self, rounds: Sequence[Sequence[Call]]) -> None:
        self._rounds = rounds

    def __call__(self, body: dict[str, Any]) -> Reply:
        done, doubtful, missing = 0, list[Call](), list[Call]()
        for made, results in rounds_of(body["messages"]):
            if doubtful:
                missing = [again(call) for call, said in zip(doubtful, results, strict=True) if said == "no"]
                doubtful = []
                continue
            done += 0 if missing else 1
            missing = []
            doubtful = [call for call, said in zip(made, results, strict=True) if any(each in said for each in DOUBT)]
        if doubtful:
            return calls(*(("happened", {"what": f"{name} {given.get('n')}"}) for name, given in doubtful))
        if missing:
            return calls(*missing)
        return calls(*self._rounds[done], text=f"Round {done}.") if done < len(self._rounds) else says("All done.")


def again(call: Call) -> Call:
    """Return the call to make in place of one that did not happen: a keyed call needs another key."""
    name, given = call
    return (name, given | {"attempt": given.get("attempt", 1) + 1}) if name == "pay" else call


def rounds_of(messages: Sequence[dict[str, Any]]) -> list[Round]:
    """Return the rounds of calls in the messages of a request."""
    results = {each["tool_call_id"]: each["content"] for each in messages if each["role"] == "tool"}
    rounds = []
    for message in messages:
        if message["role"] == "assistant" and message.get("tool_calls"):
            made = message["tool_calls"]
            called = [(each["function"]["name"], json.loads(each["function"]["arguments"])) for each in made]
            rounds.append((called, [results[each["id"]] for each in made]))
    return rounds


def short() -> list[list[Call]]:
    """Return three rounds with calls of every kind."""
    return [
        [("look", {"n": 1}), ("look", {"n": 2}), ("pay", {"n": 1})],
        [("look", {"n": 3}), ("send", {"n": 1})],
        [("drop", {"n": 1}), ("nothing", {"n": 9})],
    ]


def long() -> list[list[Call]]:
    """Return 49 rounds with 60 calls, among them cells of a kernel."""
    kinds = itertools.cycle(["look", "pay", "send", "drop", "execute", "look"])
    rounds: list[list[Call]] = []
    for n, kind in zip(range(49), kinds, strict=False):
        if kind == "execute":
            given = {"language": "python", "code": "print(6 * 7)", "stateful": True}
            rounds.append([("execute", given)])
        else:
            rounds.append([(kind, {"n": n})])
    for n in range(11):  # some rounds have two calls
        rounds[4 * n].append(("look", {"n": 100 + n}))
    return rounds
