"""Runs one unittest module and records how each case ended. Runs inside and outside a box; standard library only.

Usage: ``python unittest_cases.py RECORD MODULE [RESOURCE...]``. RECORD has one JSON object per line, written as soon as
a case has ended, so that the outcomes before a crash or a hang are kept. RESOURCE is a regrtest resource.
"""

import contextlib
import importlib
import json
import os
import sys
import traceback
import types
import unittest
from collections.abc import Iterator
from typing import Any, TextIO

_MAX_DETAIL = 4000
_MAX_FRAMES = 8


class Record:
    """Writes outcomes to a file, but never in a forked child of a test."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._pid = os.getpid()

    def add(self, **entry: Any) -> None:
        if os.getpid() == self._pid:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()


class Collector(unittest.TestResult):
    """Records cases by id. Subtests that did not pass are recorded as parts of their case."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self._record = record
        self._seen: dict[str, int] = {}
        self._parts: dict[str, list[str]] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self._parts = {}

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        name = test.id()
        self._seen[name] = self._seen.get(name, 0) + 1
        if self._seen[name] > 1:
            name += f" #{self._seen[name]}"
        status, detail = self._parts.pop("", ["pass", ""])
        self._record.add(case=name, status=status, detail=detail, parts=self._parts)

    def addError(self, test: Any, err: Any) -> None:
        self._add(test, "error", _describe(err))

    def addFailure(self, test: Any, err: Any) -> None:
        self._add(test, "fail", _describe(err))

    def addSkip(self, test: Any, reason: str) -> None:
        self._add(test, "skip", reason)

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._add(test, "fail", "unexpected success")

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        """Record nothing: the case passes."""

    def addSuccess(self, test: Any) -> None:
        """Record nothing: the case passes."""

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self._add(subtest, "fail" if failed else "error", _describe(err))

    def _add(self, test: Any, status: str, detail: str) -> None:
        if not isinstance(test, unittest.TestCase):  # setUpModule, setUpClass and similar
            self._record.add(fixture=test.id(), status=status, detail=detail[:_MAX_DETAIL])
            return
        inner = getattr(test, "test_case", None)
        part = test.id().removeprefix(inner.id()).strip() if inner is not None else ""
        self._parts[part] = [status, detail[:_MAX_DETAIL]]


def _describe(err: Any) -> str:
    kind, problem, where = err
    frames = traceback.extract_tb(where)[-_MAX_FRAMES:]
    shown = " < ".join(f"{os.path.basename(f.filename)}:{f.lineno} {f.line}" for f in reversed(frames))
    return f"{kind.__name__}: {problem} [{shown}]"


def run(module: str, record: Record) -> None:
    """Load a module as regrtest does, and run all of its cases."""
    try:
        loaded = importlib.import_module(module)
        suite = _suite(loaded)
    except unittest.SkipTest as reason:
        record.add(module="skip", detail=str(reason))
        return
    except BaseException as problem:  # noqa: BLE001 -- any error while loading is the result
        record.add(module="error", detail=_describe((type(problem), problem, problem.__traceback__)))
        return
    record.add(module="loaded", cases=suite.countTestCases())
    suite.run(Collector(record))


def _suite(module: types.ModuleType) -> unittest.TestSuite:
    """Return the cases of a module. In older modules, `test_main` selects the classes."""
    loader = unittest.defaultTestLoader
    support: Any = importlib.import_module("test.support")
    if not hasattr(module, "test_main") or not hasattr(support, "_run_suite"):
        suite = loader.loadTestsFromModule(module)
    else:
        suite = unittest.TestSuite()
        before = support._run_suite  # noqa: SLF001
        support._run_suite = suite.addTest  # noqa: SLF001
        try:
            module.test_main()
        finally:
            support._run_suite = before  # noqa: SLF001
    if loader.errors:
        raise ImportError(loader.errors[0])
    return suite


@contextlib.contextmanager
def _recording(path: str) -> Iterator[Record]:
    with open(path, "w", encoding="utf-8") as file:
        yield Record(file)


def main() -> None:
    path, module, *resources = sys.argv[1:]
    support: Any = importlib.import_module("test.support")
    support.use_resources = resources
    support.verbose = 0
    with _recording(path) as record:
        run(module, record)
        record.add(done=True)
    sys.stdout.flush()
    os._exit(0)  # do not wait for threads and children that a test left running


if __name__ == "__main__":
    main()
