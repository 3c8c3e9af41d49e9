"""In the box: mutants of the skill meet its tests, each in a fork of the process that collected them (SKILL-6)."""

import ast
import contextlib
import os
import select
import signal
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from acquired_skills.in_box.mutants import Mutant, mutants
from acquired_skills.in_box.switch import Switch

KILLED, SURVIVED, STILLBORN = b"k", b"s", b"x"
SLOWER = 10  # a mutant may take so many times as long as the skill itself, and is dead when it takes longer
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
        """Run the tests on as many mutants as there is time for.

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
            match self._fate(mutant, items, min(patience, left)):
                case b"s":
                    survived.append({"line": mutant.line, "before": mutant.before, "after": mutant.after})
                case b"x":
                    pass
                case _:
                    killed += 1
        took = time.monotonic() - began
        return {"made": len(self._mutants), "killed": killed, "survived": survived, "seconds": took}

    def _fate(self, mutant: Mutant, items: Sequence[pytest.Item], seconds: float) -> bytes:
        """What became of it: no word within the time, or none at all, is a death like any other."""
        source, sink = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(source)
            try:
                os.write(sink, self._lived(mutant, items))
            except Exception:  # noqa: BLE001 -- a fault of ours is no death of the mutant
                traceback.print_exc()
                os.write(sink, STILLBORN)
            finally:
                os._exit(0)
        os.close(sink)
        try:
            said = os.read(source, 1) if select.select([source], [], [], seconds)[0] else KILLED
        finally:
            os.close(source)
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        return said or KILLED

    def _lived(self, mutant: Mutant, items: Sequence[pytest.Item]) -> bytes:
        """In the fork: change the tree, run it in the skill's own module, and let the tests look at it."""
        mutant.make()
        module = self._switch.module
        try:
            exec(compile(self._tree, str(self._path), "exec"), vars(module))  # noqa: S102 -- the skill's own file, in its box
            self._switch.replace(vars(module)[module.__name__])
        except BaseException:  # noqa: BLE001
            return STILLBORN
        config = items[0].config
        config.option.tbstyle = "no"  # nobody reads it
        watcher = _FirstFailure()
        config.pluginmanager.register(watcher)
        for item, following in zip(items, [*items[1:], None], strict=True):
            config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            if watcher.failed:
                return KILLED
        return SURVIVED


class _FirstFailure:
    failed = False

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed
