"""Runs programs in a peer's interpreter: ``python -m bench.interpreter PEER``, with a JSON object of programs on stdin.

It prints a JSON object with the value of `result` of each program, or why there is none. The peers get every permission
that they can give: all modules may be imported.
"""

import builtins
import importlib
import json
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

PROGRAM_S = 20  # after which a program counts as hanging

Run = Callable[[str], Any]


def plain(code: str) -> Any:
    """Run a program without any isolation. Its results are the right ones."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(code, scope)
    return scope["result"]


def smolagents(code: str) -> Any:
    """Run a program in the interpreter of smolagents, which walks the syntax tree."""
    local: Any = importlib.import_module("smolagents.local_python_executor")
    executor = local.LocalPythonExecutor(additional_authorized_imports=["*"])
    executor.send_tools({})
    return executor(f"{code}\nresult").output


def restricted(code: str) -> Any:
    """Run a program that RestrictedPython has rewritten, with its own guards, and all functions and modules."""
    package: Any = importlib.import_module("RestrictedPython")
    guards: Any = importlib.import_module("RestrictedPython.Guards")
    evaluated: Any = importlib.import_module("RestrictedPython.Eval")
    allowed = {**vars(builtins), **package.safe_builtins, "__metaclass__": type}
    scope: dict[str, Any] = {
        "__builtins__": allowed,
        "__name__": "program",
        "__metaclass__": type,
        "_getattr_": guards.safer_getattr,
        "_getitem_": evaluated.default_guarded_getitem,
        "_getiter_": evaluated.default_guarded_getiter,
        "_iter_unpack_sequence_": guards.guarded_iter_unpack_sequence,
        "_unpack_sequence_": guards.guarded_unpack_sequence,
        "_write_": guards.full_write_guard,
        "_inplacevar_": lambda operator, left, right: eval(
            f"left {operator[:-1]} right", {"left": left, "right": right}
        ),
        "_apply_": lambda function, *given, **named: function(*given, **named),
    }
    exec(package.compile_restricted(code, "<program>", "exec"), scope)
    return scope["result"]


def monty(code: str) -> Any:
    """Run a program in pydantic-monty's interpreter, which is written in Rust."""
    package: Any = importlib.import_module("pydantic_monty")
    with package.Monty() as pool, pool.checkout() as session:
        return session.feed_run(f"{code}\nresult")


PEERS: Mapping[str, tuple[str, Run]] = {
    "smolagents, LocalPythonExecutor": ("smolagents", smolagents),
    "RestrictedPython": ("RestrictedPython", restricted),
    "pydantic-monty": ("pydantic_monty", monty),
}
"""For each peer the module that must be installed, and what runs a program in it."""


def results(run: Run, programs: Mapping[str, str]) -> dict[str, Any]:
    """Return the result of each program, or why there is none, as a pair of the value and the failure."""
    found: dict[str, Any] = {}
    for name, code in programs.items():
        signal.alarm(PROGRAM_S)
        try:
            found[name] = [json.loads(json.dumps(run(code))), ""]
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- interpreters raise anything
            found[name] = [None, f"{type(error).__name__}: {error}"[:200]]
        finally:
            signal.alarm(0)
    return found


def _hangs(*_: Any) -> None:
    raise TimeoutError(f"no result within {PROGRAM_S} s")


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, _hangs)
    chosen = plain if sys.argv[1] == "plain" else PEERS[sys.argv[1]][1]
    answer = results(chosen, json.load(sys.stdin))
    print(json.dumps(answer))
