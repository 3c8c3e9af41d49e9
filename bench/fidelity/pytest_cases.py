"""Runs one test file with pytest and records how each case ended. Runs inside and outside a box.

Usage: ``python pytest_cases.py RECORD PACKAGE PATH``. PATH is a test file below the folder from which PACKAGE is
imported. RECORD has the same format as that of `unittest_cases`.
"""

import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from typing import Any, TextIO

import pytest

_MAX_DETAIL = 4000
_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")


class Collector:
    """A pytest plugin that records each case with the worst outcome of its set-up, call and tear-down."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._pid = os.getpid()
        self._worst: tuple[str, str] = ("pass", "")

    def add(self, **entry: Any) -> None:
        if os.getpid() == self._pid:
            self._file.write(json.dumps(entry) + "\n")
            self._file.flush()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self.add(module="error", detail=report.longreprtext[-_MAX_DETAIL:])
        elif report.skipped:
            self.add(module="skip", detail=str(report.longrepr)[-_MAX_DETAIL:])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._worst = ("fail" if report.when == "call" else "error", report.longreprtext[-_MAX_DETAIL:])
        elif report.skipped and not hasattr(report, "wasxfail"):
            self._worst = ("skip", str(report.longrepr)[-_MAX_DETAIL:])
        if report.when == "teardown":
            status, detail = self._worst
            self.add(case=_ADDRESS.sub("0x", report.nodeid), status=status, detail=detail, parts={})
            self._worst = ("pass", "")


def main() -> None:
    record, package, path = sys.argv[1:]
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise ImportError(f"{package} is not installed")
    root = Path(found.origin).parents[1]
    with open(record, "w", encoding="utf-8") as file:
        collector = Collector(file)
        options = ["-q", "-p", "no:cacheprovider", "--rootdir", str(root), "-c", os.devnull, "-W", "ignore"]
        code = pytest.main([*options, str(root / path)], plugins=[collector])
        collector.add(done=True, exit_code=int(code))
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
