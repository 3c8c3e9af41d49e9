"""Changes a workspace or undoes changes, until it is killed. Arguments: folder, what, seed.

It prints a line before each thing that it begins.
"""

import random
import sys
from pathlib import Path

from engine.stores.undo.undoing import UndoTarget
from tests.stores.undo.undo_fixture import UndoFixture


def call(here: UndoFixture, pick: random.Random) -> None:
    """Make calls of `run1`, each of which changes 200 files."""
    number = 0
    while True:
        number += 1
        print(f"call {number}", flush=True)
        with here.call("run1", call_id=f"call {number}"):
            print("changing", flush=True)
            for at in range(200):
                name = f"{at % 10}/{at}.txt"
                if pick.random() < 0.2 and here.path(name).exists():
                    here.path(name).unlink()
                else:
                    here.write(name, f"agent {number} {pick.random()}" * 50)
            print("changed", flush=True)


def undo(here: UndoFixture, target: str) -> None:
    """Undo `run1`, and this undo, and so on."""
    while True:
        print(f"undo {target}", flush=True)
        wanted = UndoTarget(target, unsure=True)
        done = here.undoing.undo(wanted, here.undoing.plan(wanted))
        target = next((each.undo_id for each in done if each.undo_id), "run1")


if __name__ == "__main__":
    fixture = UndoFixture(Path(sys.argv[1]))
    if sys.argv[2] == "call":
        call(fixture, random.Random(int(sys.argv[3])))
    else:
        undo(fixture, sys.argv[2])
