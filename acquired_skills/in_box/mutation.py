"""In the box: mutants of the skill meet its tests, as many as there is time for (SKILL-6)."""

import ast
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.in_box.mutants import Mutant, mutants
from acquired_skills.in_box.switch import Switch
from acquired_skills.in_box.trial import NOTICED, UNNOTICED, trial

SLOWER = 10  # a mutant may take so many times as long as the skill itself
SHORTEST_S = 0.25


class Mutation:
    """Mutants of one skill."""

    def __init__(self, path: Path, switch: Switch, *, most: int, seed: int) -> None:
        """path: of the skill's source. switch: between it and the tests. most: mutants to make."""
        self._tree = ast.parse(path.read_bytes())
        self._path = path
        self._switch = switch
        self._mutants = mutants(self._tree, most, seed)

    def meet(self, items: Sequence[pytest.Item], usual_s: float, seconds: float) -> dict[str, Any]:
        """Run the tests on them until the time is up.

        items: the tests, the quickest first. usual_s: what all of them take on the skill itself.
        Gives ``made``, ``killed``, ``survived`` (line, before, after of each) and ``seconds``.
        """
        began = time.monotonic()
        patience = max(SHORTEST_S, usual_s * SLOWER)
        killed, survived = 0, []
        for mutant in self._mutants:
            left = began + seconds - time.monotonic()
            if left <= 0:
                break
            said = trial(self._switch, partial(self._function, mutant), items, min(patience, left))
            killed += said == NOTICED
            if said == UNNOTICED:
                survived.append({"line": mutant.line, "before": mutant.before, "after": mutant.after})
        took = time.monotonic() - began
        return {"made": len(self._mutants), "killed": killed, "survived": survived, "seconds": took}

    def _function(self, mutant: Mutant) -> Callable[..., Any]:
        """In a fork: change the tree, and run it in the skill's own module, so that what a test patches there is
        patched for the mutant, too."""
        mutant.make()
        module = self._switch.module
        exec(compile(self._tree, str(self._path), "exec"), vars(module))  # noqa: S102 -- the skill's own file, in its box
        function: Callable[..., Any] = vars(module)[module.__name__]
        return function
