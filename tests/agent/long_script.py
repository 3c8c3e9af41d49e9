"""A run of 50 turns and 60 calls of every kind: reading, keyed, approved, in boxes, in a kernel, and a swarm of 5."""

from collections.abc import Sequence
from typing import Any

from tests.agent.run_script import DEFINE, Call, Script, effect_of, task_of
from tests.agent.scripted_model import Reply

ROUNDS, CALLS = 49, 60  # the last turn is the answer
CHILDREN = range(1001, 1006)  # the orders that the child runs pay
SWARM_ROUND = 20
FIRST_CELL = 4  # it gives the kernel a variable, which later cells use


def long() -> list[list[Call]]:
    """Return the rounds."""
    rounds = [[_call(n)] for n in range(ROUNDS)]
    for n in range(CALLS - ROUNDS):  # some rounds have two calls
        rounds[4 * n].append(("look", {"n": 100 + n}))
    return rounds


def _call(n: int) -> Call:
    if n == SWARM_ROUND:
        return ("delegate_to_swarm", {"tasks": [f"pay {order}" for order in CHILDREN]})
    if n == FIRST_CELL:
        return DEFINE
    if n % 6 == FIRST_CELL:
        return _cell(n) if n % 12 == FIRST_CELL else _box(n)
    return (("look", "pay", "send", "drop", "", "look")[n % 6], {"n": n})


def _cell(n: int) -> Call:
    return _python(f"print(total + {n})\nopen('done.txt', 'a').write('cell {n}\\n')", stateful=True)


def _box(n: int) -> Call:
    return _python(f"open('done.txt', 'a').write('box {n}\\n')\nprint('in a box', {n})")


def _python(code: str, **more: Any) -> Call:
    return ("execute", {"language": "python", "code": code, **more})


class LongScript:
    """Plays the long run, and its child runs, which pay one order each."""

    def __init__(self) -> None:
        self._parent = Script(long())

    def __call__(self, body: dict[str, Any]) -> Reply:
        word, _, number = task_of(body).partition(" ")
        return Script([[("pay", {"n": int(number)})]])(body) if word == "pay" else self._parent(body)


def effects_of(rounds: Sequence[Sequence[Call]]) -> list[str]:
    """Return the effects of a run, with those of its child runs."""
    made = [call for each in rounds for call in each]
    delegated = [task for name, given in made if name == "delegate_to_swarm" for task in given["tasks"]]
    return sorted([effect for effect in map(effect_of, made) if effect] + delegated)
