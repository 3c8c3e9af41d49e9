"""In the box: the object that tests import as the skill, so that a stub can replace it after collection."""

import functools
import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acquired_skills.in_box.recorder import Recorder
from acquired_skills.in_box.skill_arguments import to_json


class StubSwitch:
    """A function that forwards to the skill, or to the selected stub.

    Only attribute access from outside the module is switched (a module class with its own `__getattribute__`). Inside
    the module its names are untouched, so recursion is direct, and a test may patch what the skill uses.
    """

    def __init__(self, module: types.ModuleType, name: str, function: Callable[..., Any], folder: Path) -> None:
        """folder: whose files are packed with a call."""
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

    def select(self, kind: str) -> None:
        """Select a stub (``"raises"``, ``"none"``, ``"sentinel"``) or the ``"skill"``."""
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
        """Call the skill, recording the call and whether its value can leave the box."""
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
