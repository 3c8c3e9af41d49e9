"""A scripted model whose reply depends only on the conversation, so that it continues wherever a run is resumed.

It asks what happened to a call that may have happened, and repeats it only if it did not happen. If a kernel has lost
its variables, it defines them again and repeats the cell.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.agent.scripted_model import Reply, calls, says

Call = tuple[str, dict[str, Any]]
Round = tuple[list[Call], list[str]]  # calls and their results
Settled = tuple[Call, str | None]  # a call of the script and its result; None if only its effect is known

DOUBT = ("may have happened", "may have had an effect")
FORGOTTEN = "NameError"
DEFINE: Call = ("execute", {"language": "python", "code": "total = 40", "stateful": True})
_WRITTEN = re.compile(r"write\('(\w+ \d+)")


@dataclass
class Progress:
    """The progress of a conversation through a script.

    Attributes:
        settled: For each round of the script that was begun, its calls and what came of them.
        remedy: The calls that the model makes before it goes on: questions, or calls that did not happen.
        detours: How many rounds were not in the script.
    """

    settled: list[list[Settled]] = field(default_factory=list)
    remedy: list[Call] = field(default_factory=list)
    detours: int = 0


class Script:
    """Plays rounds of calls, and then answers."""

    def __init__(self, rounds: Sequence[Sequence[Call]]) -> None:
        self._rounds = rounds

    def __call__(self, body: dict[str, Any]) -> Reply:
        progress = progress_of(rounds_of(body["messages"]))
        done = len(progress.settled)
        if progress.remedy:
            return calls(*progress.remedy)
        return calls(*self._rounds[done], text=f"Round {done}.") if done < len(self._rounds) else says("All done.")


def progress_of(rounds: Sequence[Round]) -> Progress:
    """Follow a conversation: which rounds belong to the script, and which ask about or repeat calls of the latest one."""
    progress = Progress()
    open_: list[int] = []  # positions of the calls in the latest round whose outcome is not settled
    phase = "new"
    for made, results in rounds:
        progress.detours += phase != "new"
        if phase == "ask":
            latest = progress.settled[-1]
            missing = [at for at, said in zip(open_, results, strict=True) if said != "yes"]
            for at in open_:
                if at not in missing:
                    latest[at] = (latest[at][0], None)
            open_, phase = missing, "repeat" if missing else "new"
            continue
        if phase == "new":
            progress.settled.append(list(zip(made, results, strict=True)))
            open_ = list(range(len(made)))
        for at, call, said in zip(open_, made, results, strict=True):
            # Another attempt has its own key. The next one is derived from it.
            progress.settled[-1][at] = (call, said)
        open_ = [at for at, said in zip(open_, results, strict=True) if doubtful(said) or FORGOTTEN in said]
        phase = "ask" if open_ else "new"
    troubled = [progress.settled[-1][at] for at in open_]
    if phase == "ask":
        progress.remedy = [question(call, said or "") for call, said in troubled]
    elif phase == "repeat":
        progress.remedy = [again(call) for call, _ in troubled]
    return progress


def doubtful(said: str) -> bool:
    return any(each in said for each in DOUBT)


def question(call: Call, said: str) -> Call:
    """Return the call that clears up what became of another one."""
    return DEFINE if FORGOTTEN in said else ("happened", {"what": effect_of(call)})


def again(call: Call) -> Call:
    """Return the call to make in place of one that did not happen: a keyed call needs another key."""
    name, given = call
    return (name, given | {"attempt": given.get("attempt", 1) + 1}) if name == "pay" else call


def effect_of(call: Call) -> str:
    """Return the name of the effect of a call, as `Effects` stores it; "" if it has none."""
    name, given = call
    if name == "execute":
        found = _WRITTEN.search(given["code"])
        return found[1] if found else ""
    return f"{name} {given['n']}" if name in ("pay", "send", "drop") else ""


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


def task_of(body: dict[str, Any]) -> str:
    """Return the first message of the user in a request."""
    content = next(each["content"] for each in body["messages"] if each["role"] == "user")
    return content if isinstance(content, str) else content[0]["text"]


def short() -> list[list[Call]]:
    """Return three rounds with calls of every kind."""
    return [
        [("look", {"n": 1}), ("look", {"n": 2}), ("pay", {"n": 1})],
        [("look", {"n": 3}), ("send", {"n": 1})],
        [("drop", {"n": 1}), ("nothing", {"n": 9})],
    ]
