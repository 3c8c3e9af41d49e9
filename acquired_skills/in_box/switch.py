"""In the box: what the tests get for the skill, so that a stub can take its place after they were collected."""

import functools
import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acquired_skills.in_box.recorder import Recorder
from acquired_skills.in_box.skill_arguments import to_json


class Switch:
    """A function that goes to the skill, or to the stub that is turned on.

    Only attribute access from outside is switched (a module class with its own `__getattribute__`); inside the
    skill's module its names are untouched, so recursion is direct and a test may patch what the skill uses.
    """

    def __init__(self, module: types.ModuleType, name: str, function: Callable[..., Any], folder: Path) -> None:
        """folder: whose files go with a call."""
        self.module = module
        self.function = function
        self.current = self._observed
        self.returned: dict[str, Any] = {}
        self.recorder = Recorder(name, folder)

        @functools.wraps(function)
        def switched(*arguments: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            return self.current(*arguments, **named)

        class Switched(types.ModuleType):
            def __getattribute__(self, attribute: str) -> Any:
                return switched if attribute == name else super().__getattribute__(attribute)

        module.__class__ = Switched

    @property
    def stubbed(self) -> bool:
        return self.current != self._observed

    def turn(self, kind: str) -> None:
        """Put a stub (``"raises"``, ``"none"``, ``"sentinel"``) or the ``"skill"`` itself in place."""
        stubs: dict[str, Callable[..., Any]] = {
            "raises": self._raises,
            "none": lambda *_, **__: None,
            "sentinel": lambda *_, **__: object(),
            "skill": self._observed,
        }
        self.current = stubs[kind]

    @staticmethod
    def _raises(*_: Any, **__: Any) -> Any:
        raise NotImplementedError

    def _observed(self, *arguments: Any, **named: Any) -> Any:
        """The skill itself, noting its calls, and whether what it returns can leave the box."""
        __tracebackhide__ = True
        value = self.recorder.call(self.function, arguments, named)
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            try:
                json.dumps(to_json(value))
                self.returned["typed"] = True
            except (TypeError, ValueError, RecursionError):
                self.returned["unsendable"] = type(value).__name__
        return value
