"""In the box of the tests: a fake module that answers for the skill from a table, without its code (SKILL-7)."""

import ast
import contextlib
import copy
import os
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_data import call_as_data, call_key
from acquired_skills.in_box.call_files import apply_changes
from acquired_skills.in_box.packing import NotPackable, unpacked, unpacked_exception


class UnsupportedAccess(BaseException):
    """A test used something that the fake does not answer. A BaseException, so that tests do not catch it."""


class FakeSkill:
    """The fake module and its function.

    Attributes:
        table: ``answers`` by the key of the call, and ``otherwise``, the answer to all others. Without ``otherwise``,
            unanswered calls are collected in `unknown`.
        missed: whether a call was unanswered.
        reached: the first use of something that only the real skill has.
    """

    def __init__(self, name: str, declared: str, folder: Path) -> None:
        """declared: source of the skill's declarations (`acquired_skills.proof.declarations`)."""
        self.table: Mapping[str, Any] = {"answers": {}}
        self.unknown: list[dict[str, Any]] = []
        self.missed = False
        self.reached = ""
        self._folder = folder
        fake = self

        def function(*arguments: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            return fake._answer(arguments, named)

        class FakeModule(types.ModuleType):
            def __getattr__(self, attribute: str) -> Any:
                if attribute.startswith("__"):
                    raise AttributeError(attribute)  # Python itself looks these up
                return _Absent(fake, attribute)

            def __setattr__(self, attribute: str, value: Any) -> None:
                fake.reach(attribute)

            def __delattr__(self, attribute: str) -> None:
                fake.reach(attribute)

        self.module = FakeModule(name)
        vars(self.module)["__file__"] = str(folder.parent / "skill" / f"{name}.py")
        sys.modules[name] = self.module
        for node in ast.parse(declared).body:
            with contextlib.suppress(Exception):  # a declaration that needs something missing is left out
                exec(compile(ast.Module([node], []), f"<{name}>", "exec"), vars(self.module))  # noqa: S102 -- the engine chose it
        function.__name__ = function.__qualname__ = name
        function.__module__ = name
        vars(self.module)[name] = function

    def reach(self, attribute: str) -> Any:
        self.reached = self.reached or attribute
        raise UnsupportedAccess(attribute)

    def _answer(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        __tracebackhide__ = True
        call = call_as_data(arguments, named, self.module.__name__, self._folder)
        answer = None if call is None else self.table["answers"].get(call_key(call))
        if answer is None:
            answer = self.table.get("otherwise")
        if answer is None and call is None:
            self.reach("a call with arguments that are not plain data")
        if answer is None:
            self.missed = True
            self.unknown.append(call or {})
            raise UnsupportedAccess("a call without an answer")
        return self._given(answer, call or {}, arguments, named)

    def _given(
        self, answer: Mapping[str, Any], call: Mapping[str, Any], arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> Any:
        __tracebackhide__ = True
        if "sentinel" in answer:
            return object()
        if "lost" in answer:
            self.reach(answer["lost"])
        if "ended" in answer:
            raise RuntimeError("the skill ended its process or took too long")
        try:
            self._spread(answer, call, arguments, named)
            if "itself" in answer:
                which = answer["itself"]
                return arguments[which] if isinstance(which, int) else named[which]
            if "raised" not in answer:
                return unpacked(copy.deepcopy(answer["value"]), self.module)
            problem = unpacked_exception(answer["raised"], self.module)
        except NotPackable as reason:
            self.reach(str(reason))
        raise problem

    def _spread(
        self, answer: Mapping[str, Any], call: Mapping[str, Any], arguments: tuple[Any, ...], named: Mapping[str, Any]
    ) -> None:
        """Apply the side effects of the skill's call: on its arguments, the files, and the standard output."""
        if "printed" in answer:
            sys.stdout.write(answer["printed"])
        if "files" in answer:
            apply_changes(self._folder, call.get("files", {}), answer["files"])
        if "after" in answer:
            for before, after in zip(arguments, answer["after"][0], strict=True):
                _become(before, unpacked(after, self.module))
            for name, after in answer["after"][1].items():
                _become(named[name], unpacked(after, self.module))


class _Absent:
    """A name that only the real skill has. It can be imported but not used."""

    def __init__(self, fake: FakeSkill, name: str) -> None:
        vars(self).update(_fake=fake, _name=name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "__test__" or attribute.startswith(("_pytest", "pytest")):
            raise AttributeError(attribute)  # pytest checks whether it is a test
        vars(self)["_fake"].reach(vars(self)["_name"])

    def __call__(self, *_: Any, **__: Any) -> Any:
        vars(self)["_fake"].reach(vars(self)["_name"])

    __iter__ = __len__ = __getitem__ = __contains__ = __bool__ = __eq__ = __lt__ = __gt__ = __add__ = __radd__ = (
        __call__
    )
    __hash__ = None  # type: ignore[assignment]


def _become(before: Any, after: Any) -> None:
    """Change a mutable argument as the skill changed its own."""
    match before:
        case list() | bytearray():
            before[:] = after
        case dict():
            if before != after or list(before) != list(after):
                before.clear()
                before.update(after)
        case set():
            before.clear()
            before.update(after)
        case _ if hasattr(before, "__dict__") and hasattr(after, "__dict__"):
            vars(before).update(vars(after))


def enter_folder(folder: Path) -> None:
    """Change to this folder; make it first if it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
