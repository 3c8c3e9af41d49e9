"""In the box: which skills that there are already pass the tests of a new one (SKILL-8)."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from acquired_skills.in_box.switch import Switch
from acquired_skills.in_box.trial import UNNOTICED, trial


def doubles(
    folder: Path, switch: Switch, items: Sequence[pytest.Item], test_s: float, seconds: float
) -> dict[str, Any]:
    """Try every ``<name>.py`` of a folder in the skill's place. test_s: for one of them. seconds: for all.

    Gives ``tried``, and ``passed``: the names of those that no test told from the skill.
    """
    until = time.monotonic() + seconds
    tried, passed = 0, []
    for path in sorted(folder.glob("*.py")):
        left = until - time.monotonic()
        if left <= 0:
            break
        tried += 1
        if trial(switch, partial(_function, path), items, min(test_s, left)) == UNNOTICED:
            passed.append(path.stem)
    return {"tried": tried, "passed": passed}


def _function(path: Path) -> Callable[..., Any]:
    module = ModuleType(path.stem)
    exec(compile(path.read_bytes(), str(path), "exec"), vars(module))  # noqa: S102 -- an admitted skill, in a box
    function: Callable[..., Any] = vars(module)[path.stem]
    return function
