"""Provides the function that tests import as the skill, so that a stub can replace the skill after collection.

This module runs in the box.
"""

import functools
import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from acquired_skills.in_box.fixed_clock import FixedClock
from acquired_skills.in_box.function_forms import EagerFunction, form_of, with_form
from acquired_skills.in_box.inferred_hints import HintInference
from acquired_skills.in_box.json_values import describe_unsendable, to_json, unsendable_part
from acquired_skills.in_box.recorded_tools import RecordedTools
from acquired_skills.in_box.recorder import Recorder


class StubSwitch:
    """Replaces the skill in its module with a function that calls the skill or the selected stub.

    The module gets a class with its own `__getattribute__`, which affects only attribute access from outside the
    module. Names inside the module are unaffected, so a recursive skill calls itself directly, and a test may patch
    functions that the skill uses.
    """

    def __init__(  # noqa: PLR0917 -- what the box gave it
        self,
        module: types.ModuleType,
        name: str,
        function: Callable[..., Any],
        folder: Path,
        clock: FixedClock,
        tools: RecordedTools | None = None,
    ) -> None:
        """Create a switch for the function `name` of a module.

        Args:
            folder, clock, tools: The folder, the clock and the tools of the `Recorder`.
        """
        self.module = module
        self.function = function
        self.form = form_of(function)
        self._eager = EagerFunction(function)
        self.current = self._observed
        self.observations: dict[str, Any] = {}
        self.recorder = Recorder(name, folder, clock, tools)
        self.hints = HintInference(function, name)

        def selected(*arguments: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            return self.current(*arguments, **named)

        switched = functools.wraps(function)(with_form(selected, self.form))

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
        """Call the skill, and record the call and whether its value can be sent out of the box."""
        __tracebackhide__ = True
        take_hints = self.hints.observe(arguments, named)
        value = self.recorder.call(self._eager, arguments, named)
        take_hints()
        self._check(value)
        if self._eager.listed and self.form == "function":
            self.observations.update(form="iterator", typed=True)
            return iter(value)
        return value

    def _check(self, value: Any) -> None:
        try:
            json.dumps(value)
        except (TypeError, ValueError, RecursionError):
            try:
                json.dumps(to_json(value, self.module.__name__))
                self.observations["typed"] = True
            except (TypeError, ValueError, RecursionError):
                if not self._is_of_tests(value):
                    self.observations["unsendable"] = describe_unsendable(value, self.module.__name__)[:500]

    def _is_of_tests(self, value: Any) -> bool:
        """Return whether a value cannot be sent because it contains an instance of a class that the tests define."""
        _, part = unsendable_part(value, self.module.__name__)
        return type(part).__module__.rpartition(".")[2] == f"test_{self.module.__name__}"
