"""In the box of the tests alone: a module that answers for the skill from a table, with none of its code (SKILL-7)."""

import ast
import contextlib
import copy
import os
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from acquired_skills.in_box.call_data import call_of, key_of
from acquired_skills.in_box.call_files import change
from acquired_skills.in_box.packing import NotPackable, unpacked, unpacked_exception


class OutOfReach(BaseException):
    """A test went for what is not answered here; nothing that a test catches by rights."""


class StandIn:
    """The module, and the function in it.

    table: ``answers``, by the key of the call, and ``otherwise``, for all others; without that one, they are kept in
    `unknown`. reached: what the tests went for that only the skill itself has.
    """

    def __init__(self, name: str, declared: str, folder: Path) -> None:
        """declared: source of what the skill only declares (`acquired_skills.proof.declarations`)."""
        self.table: Mapping[str, Any] = {"answers": {}}
        self.unknown: list[dict[str, Any]] = []
        self.missed = False
        self.reached = ""
        self._folder = folder
        stand_in = self

        def function(*arguments: Any, **named: Any) -> Any:
            __tracebackhide__ = True
            return stand_in._answer(arguments, named)

        class Module(types.ModuleType):
            def __getattr__(self, attribute: str) -> Any:
                if attribute.startswith("__"):
                    raise AttributeError(attribute)  # what Python itself asks of modules
                return _Absent(stand_in, attribute)

            def __setattr__(self, attribute: str, value: Any) -> None:
                stand_in.reach(attribute)

            def __delattr__(self, attribute: str) -> None:
                stand_in.reach(attribute)

        self.module = Module(name)
        vars(self.module)["__file__"] = str(folder.parent / "skill" / f"{name}.py")
        sys.modules[name] = self.module
        for node in ast.parse(declared).body:
            with contextlib.suppress(Exception):  # what needs something that is not here is not here either
                exec(compile(ast.Module([node], []), f"<{name}>", "exec"), vars(self.module))  # noqa: S102 -- chosen outside
        function.__name__ = function.__qualname__ = name
        function.__module__ = name
        vars(self.module)[name] = function

    def reach(self, attribute: str) -> Any:
        self.reached = self.reached or attribute
        raise OutOfReach(attribute)

    def _answer(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> Any:
        __tracebackhide__ = True
        call = call_of(arguments, named, self.module.__name__, self._folder)
        answer = None if call is None else self.table["answers"].get(key_of(call))
        if answer is None:
            answer = self.table.get("otherwise")
        if answer is None and call is None:
            self.reach("a call with what is no plain data")
        if answer is None:
            self.missed = True
            self.unknown.append(call or {})
            raise OutOfReach("a call that is not answered")
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
            raise RuntimeError("the skill ended its process, or took too long")
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
        """Do what the skill did beside answering: to its arguments, to the files, and to the standard output."""
        if "printed" in answer:
            sys.stdout.write(answer["printed"])
        if "files" in answer:
            change(self._folder, call.get("files", {}), answer["files"])
        if "after" in answer:
            for before, after in zip(arguments, answer["after"][0], strict=True):
                _become(before, unpacked(after, self.module))
            for name, after in answer["after"][1].items():
                _become(named[name], unpacked(after, self.module))


class _Absent:
    """What only the skill has: it may be imported, and that is all."""

    def __init__(self, stand_in: StandIn, name: str) -> None:
        vars(self).update(_stand_in=stand_in, _name=name)

    def __getattr__(self, attribute: str) -> Any:
        if attribute == "__test__" or attribute.startswith(("_pytest", "pytest")):
            raise AttributeError(attribute)  # pytest looks whether it is a test
        vars(self)["_stand_in"].reach(vars(self)["_name"])

    def __call__(self, *_: Any, **__: Any) -> Any:
        vars(self)["_stand_in"].reach(vars(self)["_name"])

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


def leave_to(folder: Path) -> None:
    """Be in this folder, made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
