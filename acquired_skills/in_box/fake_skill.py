"""Defines `FakeSkill`, a fake module that replaces the skill in the box in which the tests run (SKILL-7).

The fake looks up each result in a table. It does not contain the skill's code.
"""

import ast
import collections
import contextlib
import copy
import os
import reprlib
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from acquired_skills.in_box.array_packing import become, is_array_value
from acquired_skills.in_box.call_data import call_as_data, call_key
from acquired_skills.in_box.call_files import apply_changes
from acquired_skills.in_box.fixed_clock import FixedClock
from acquired_skills.in_box.function_forms import Form, with_form
from acquired_skills.in_box.own_classes import fields
from acquired_skills.in_box.packing import NotPackable, packed
from acquired_skills.in_box.recorded_tools import RecordedTools
from acquired_skills.in_box.unpacking import Unpacker, unpacked_exception


class UnsupportedAccess(BaseException):
    """A test used something that the fake does not provide.

    This is a BaseException, so that an `except Exception` in a test does not catch it.
    """


class FakeSkill:
    """The fake module and its function.

    Attributes:
        table: Has ``answers``, which maps the keys of calls to answers, and ``otherwise``, the answer to all other
            calls. Without ``otherwise``, calls without an answer are collected in `unknown`.
        unanswered: Whether any call had no answer in the table.
        reached: A description of the first use of something that only the real skill has; "" if there was none.
        running: Whether a test is running. While pytest collects the tests, a placeholder replaces each attribute that
            only the real skill has. So tests that do not use the placeholder still count.
    """

    def __init__(  # noqa: PLR0917 -- what the box gave it
        self,
        name: str,
        declared: str,
        folder: Path,
        clock: FixedClock,
        form: Form = "function",
        tools: RecordedTools | None = None,
    ) -> None:
        """Create the fake module of a skill and import it under the name of the skill.

        Args:
            declared: The source of the skill's declarations (`acquired_skills.proof.declarations`).
            form: The form in which the skill returns its results, such as a generator.
            clock: The clock of the tests. A call at a fixed time has its own answer in the table.
            tools: The tools that the skill declares. A call with other answers of them has its own answer in the table.
        """
        self.table: Mapping[str, Any] = {"answers": {}}
        self.unknown: list[dict[str, Any]] = []
        self.unanswered = False
        self.reached = ""
        self.running = False
        self._folder = folder
        self._clock = clock
        self._tools = tools
        fake = self

        def answer(*arguments: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            return fake._answer(arguments, named)

        function = with_form(answer, form)

        class FakeModule(types.ModuleType):
            def __getattr__(self, attribute: str) -> Any:
                if attribute.startswith("__"):
                    raise AttributeError(attribute)  # Python itself looks up such names
                return _Absent(fake, attribute)

            def __setattr__(self, attribute: str, value: Any) -> None:
                fake.reach(attribute)

            def __delattr__(self, attribute: str) -> None:
                fake.reach(attribute)

        self.module = FakeModule(name)
        vars(self.module)["__file__"] = str(folder.parent / "skill" / f"{name}.py")
        vars(self.module).update(_helpers(self))
        sys.modules[name] = self.module
        for node in ast.parse(declared).body:
            # A declaration is skipped if something that it depends on is missing.
            with contextlib.suppress(Exception, UnsupportedAccess):
                exec(compile(ast.Module([node], []), f"<{name}>", "exec"), vars(self.module))  # noqa: S102 -- the engine chose it
        self.reached = ""
        function.__name__ = function.__qualname__ = name
        function.__module__ = name
        vars(self.module)[name] = function

    def reach(self, attribute: str) -> Any:
        self.reached = self.reached or attribute
        raise UnsupportedAccess(attribute)

    def stand_in(self, attribute: str) -> Any:
        """Return a placeholder for an attribute while the tests are collected.

        If a test is running, this call means that the test uses something that only the real skill has.

        Raises:
            UnsupportedAccess: A test is running.
        """
        return self.reach(attribute) if self.running else _Absent(self, attribute)

    def _answer(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        __tracebackhide__ = True
        call, objects = call_as_data(arguments, named, self.module.__name__, self._folder)
        if call is not None and self._clock.text:
            call["clock"] = self._clock.text
        if call is not None and self._tools is not None:
            call["tools"] = self._tools.begin()
        answer = None if call is None else self.table["answers"].get(call_key(call))
        if answer is None:
            answer = self.table.get("otherwise")
        if answer is None and call is None:
            self.reach("a call with arguments that are not plain data")
        if answer is None:
            self.unanswered = True
            self.unknown.append(call or {})
            raise UnsupportedAccess("a call without an answer")
        return self._given(answer, call or {}, arguments, named, Unpacker(self.module, objects))

    def _given(
        self,
        answer: Mapping[str, Any],
        call: Mapping[str, Any],
        arguments: tuple[Any, ...],
        named: Mapping[str, Any],
        unpacker: Unpacker,
    ) -> Any:
        __tracebackhide__ = True
        if "sentinel" in answer:
            return object()
        if "lost" in answer:
            self.reach(answer["lost"])
        if "ended" in answer:
            raise RuntimeError("the skill ended its process or took too long")
        try:
            self._spread(answer, call, arguments, named, unpacker)
            if "itself" in answer:
                which = answer["itself"]
                return arguments[which] if isinstance(which, int) else named[which]
            if "raised" not in answer:
                return unpacker.unpack(copy.deepcopy(answer["value"]))
            problem = unpacked_exception(answer["raised"], self.module)
        except NotPackable as reason:
            self.reach(str(reason))
        raise problem

    def _spread(
        self,
        answer: Mapping[str, Any],
        call: Mapping[str, Any],
        arguments: tuple[Any, ...],
        named: Mapping[str, Any],
        unpacker: Unpacker,
    ) -> None:
        """Apply the side effects of the recorded call: changes to its arguments and files, and its standard output."""
        if self._tools is not None:
            self._tools.show(answer.get("called", ()))
        if "printed" in answer:
            sys.stdout.write(answer["printed"])
        if "files" in answer:
            apply_changes(self._folder, call.get("files", {}), answer["files"])
        if "after" in answer:
            for before, after in zip(arguments, answer["after"][0], strict=True):
                _become(before, unpacker.unpack(after))
            for name, after in answer["after"][1].items():
                _become(named[name], unpacker.unpack(after))


class _Absent:
    """A placeholder for a name that only the real skill has, or for a value made with it.

    A test can import it, but not use it.
    """

    def __init__(self, fake: FakeSkill, name: str) -> None:
        vars(self).update(_fake=fake, _name=name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "__test__" or attribute.startswith(("_pytest", "pytest")):
            raise AttributeError(attribute)  # pytest looks up such attributes to check whether the name is a test
        if not vars(self)["_fake"].running and attribute.startswith("__"):
            raise AttributeError(attribute)  # Python looks up such names, too
        return self()

    def __call__(self, *_: Any, **__: Any) -> Any:
        return vars(self)["_fake"].stand_in(vars(self)["_name"])

    def _use(self, *_: Any) -> Any:
        return vars(self)["_fake"].reach(vars(self)["_name"])

    __getitem__ = __add__ = __radd__ = __call__
    __iter__ = __len__ = __contains__ = __bool__ = __eq__ = __lt__ = __gt__ = _use
    __hash__ = None  # type: ignore[assignment]


def _helpers(fake: FakeSkill) -> dict[str, Any]:
    """Return the functions that rewritten classes call (see `acquired_skills.proof.declared_classes`)."""

    def unavailable(name: str) -> Callable[..., Any]:
        return lambda *_, **__: fake.stand_in(name)

    def same_fields(one: Any, other: Any) -> bool:
        if type(one) is not type(other):
            return False
        name = fake.module.__name__
        try:
            return bool(packed(one, name) == packed(other, name))
        except NotPackable:
            return one is other

    @reprlib.recursive_repr("…")
    def shown(one: Any) -> str:
        return f"{type(one).__name__}({', '.join(f'{name}={each!r}' for name, each in (fields(one) or {}).items())})"

    def hash_of_class(one: Any) -> int:
        return hash(type(one).__name__)

    return {"__unavailable__": unavailable, "__same_fields__": same_fields, "__shown__": shown,
            "__hash_of_class__": hash_of_class}  # fmt: skip


def _become(before: Any, after: Any) -> None:
    """Change the mutable argument `before` into `after`, as the skill did in the recorded call."""
    if before is after:
        return
    match before:
        case list() | bytearray():
            before[:] = after
        case collections.deque():
            before.clear()
            before.extend(after)
        case dict():
            if before != after or list(before) != list(after):
                before.clear()
                before.update(after)
        case set():
            before.clear()
            before.update(after)
        case _ if is_array_value(before):
            become(before, after)


def enter_folder(folder: Path) -> None:
    """Change the working directory to this folder, creating it if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
