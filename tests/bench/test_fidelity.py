"""`knackbox bench fidelity` runs tests in a plain process and in a box, and reports the differences."""

import io
import json
import sys
import tempfile
import textwrap
from pathlib import Path
from types import ModuleType

import pytest
from rich.console import Console

from bench.fidelity import cpython, features, reasons, run, unittest_cases
from bench.fidelity.report import Case, Report, differences, parse
from bench.fidelity.sides import Outside, Script, Unit
from sandbox.contract import Language

pytestmark = pytest.mark.spec("BENCH-1")
QUICK = ("test_struct", "test_fork1", "test_json", "test_wait3", "test_pty", "test_openpty", "test_site")
CASES = """
import os, unittest

class Passing(unittest.TestCase):
    def test_passes(self): pass
    def test_fails(self): self.fail("no")
    def test_skips(self): self.skipTest("not here")
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    def test_parts(self):
        for n in range(3):
            with self.subTest(n=n):
                self.assertNotEqual(n, 1)
    def test_forks(self):
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitpid(pid, 0)

class NotSetUp(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("no port")
    def test_never_runs(self): pass
"""


def recorded(monkeypatch: pytest.MonkeyPatch, source: str) -> Report:
    """Run a module with this source in this process, and return what the runner records."""
    module = ModuleType("cases_of_this_test")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(source, module.__dict__)
    file = io.StringIO()
    unittest_cases.run(module.__name__, unittest_cases.Record(file))
    return parse(file.getvalue().encode() + b'{"done": true}\n', "")


def test_every_case_is_recorded_with_its_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    found = recorded(monkeypatch, CASES)
    cases = {name.rpartition(".")[2]: case for name, case in found.cases.items()}
    assert {name: case.status for name, case in cases.items()} == {
        "test_passes": "pass",
        "test_fails": "fail",
        "test_skips": "skip",
        "test_expected": "pass",
        "test_parts": "pass",
        "test_forks": "pass",
    }
    assert list(cases["test_parts"].parts) == ["(n=1)"]
    assert ["no port" in fixture for fixture in found.fixtures] == [True]


def test_a_forked_child_of_a_test_records_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "record"
    with path.open("w") as file:
        record = unittest_cases.Record(file)
        monkeypatch.setattr(unittest_cases.os, "getpid", lambda: -1)
        record.add(case="x")
    assert path.read_text() == ""


def test_a_case_that_fails_skips_or_is_missing_inside_differs() -> None:
    passing = Case("pass")
    outside = Report("loaded", dict.fromkeys("abcde", passing) | {"x": Case("fail"), "y": Case("skip")})
    inside = Report(
        "loaded",
        {
            "a": passing,
            "b": Case("fail", "why"),
            "c": Case("skip", "no pty"),
            "d": Case("pass", "", {"(n=1)": ("error", "part")}),
            "x": Case("pass"),
            "y": Case("fail"),
        },
        ("setUpClass (E): no port",),
    )
    assert differences(outside, inside) == {
        "b": "fail: why",
        "c": "skip: no pty",
        "d": "error: part",
        "e": "setUpClass (E): no port",
    }


def test_a_subtest_that_fails_on_both_sides_is_not_a_difference() -> None:
    both = Report("loaded", {"a": Case("pass", "", {"(n=1)": ("fail", "x")})})
    assert differences(both, both) == {}


@pytest.mark.parametrize(
    ("record", "ended", "problem"),
    [
        (b'{"module": "error", "detail": "OSError: no"}\n{"done": true}\n', "", "OSError: no"),
        (b'{"module": "loaded"}\n{"case": "a", "sta', "timeout", "timeout"),
        (b"", "", "it ended before its last case"),
    ],
)
def test_a_module_that_does_not_load_or_end_makes_all_of_its_cases_differ(
    record: bytes, ended: str, problem: str
) -> None:
    outside = Report("loaded", {"a": Case("pass"), "b": Case("pass")})
    assert differences(outside, parse(record, ended)) == {"a": problem, "b": problem}


async def test_outside_is_an_unprivileged_process_that_cannot_change_the_host() -> None:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        Path(folder).chmod(0o777)
        script = f"""
            id -u
            ls -d {folder}
            touch {folder}/mark 2>/dev/null || echo refused
            touch /tmp/mark && ls -d /tmp/mark
            echo "$HOME"
            sleep 1000 > /dev/null &
        """
        output = await Outside(60.0).output(Script("permissions", Language.BASH, textwrap.dedent(script)))
        user, *rest = output.splitlines()
        assert user != "0"
        assert rest == [folder, "refused", "/tmp/mark", "/tmp", "exit 0"]
        assert not (Path(folder) / "mark").exists()
        assert not Path("/tmp/mark").exists()


async def test_an_endless_case_is_stopped_outside() -> None:
    output = await Outside(1.0).output(Script("endless", Language.BASH, "echo started; sleep 1000"))
    assert output == "started\n"


async def test_quick_modules_of_cpython_behave_the_same_in_a_box_and_outside() -> None:
    units = cpython.units(QUICK)
    assert len(units) == len(QUICK)
    results = await run.measure(units, run.Options(timeout_s=100.0), Console(file=io.StringIO()))
    assert {result.name: (result.differ, result.loaded) for result in results} == {
        name: ({}, ("loaded", "loaded")) for name in QUICK
    }
    assert all(result.passed for result in results)


async def test_a_difference_is_found_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script("the name of the machine", Language.BASH, "hostname; true")
    results = await run.measure([script], run.Options(suite="shell"), Console(file=io.StringIO()))
    summary = run.total(results, "shell")
    assert (summary["pass_outside"], summary["fail_inside"], summary["share"]) == (1, 1, 0.0)
    assert "box" in results[0].differ[script.name]
    assert json.dumps([row for result in results for row in result.rows("shell")])


def test_both_sides_get_the_same_runner() -> None:
    unit = Unit("test_struct", "unittest_cases.py", ("test.test_struct",))
    assert unit.source == Path(unittest_cases.__file__).read_text()


@pytest.mark.parametrize("suite", ["shell", "node"])
async def test_features_behave_the_same_in_a_box_and_outside(suite: str) -> None:
    names = {"shell": ("here_documents", "redirections", "terminal"), "node": ("fs", "child_process")}[suite]
    options = run.Options(suite, timeout_s=60.0)
    results = await run.measure(features.scripts(suite, names), options, Console(file=io.StringIO()))
    assert [result.differ for result in results] == [{} for _ in names]


def test_a_feature_that_does_not_exist_is_named() -> None:
    with pytest.raises(LookupError, match=r"no script nothing\.sh"):
        features.scripts("shell", ["nothing"])


def test_every_known_protection_is_explained() -> None:
    page = (Path(__file__).parents[2] / "docs" / "design" / "fidelity.md").read_text("utf-8")
    assert [why for _, why in reasons.CAUSES if f"| {why} |" not in page] == []
    assert reasons.protection("test.test_os.MemfdCreateTests.test_memfd_create")
    assert reasons.protection("test.test_os.FileTests.test_access") == ""
